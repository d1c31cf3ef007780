"""How the interpreter is set for serving: the garbage collector, the switch interval, and what an unload gives back.

These are process-wide, so they stand here, where the process is made, and nowhere else.
"""

import contextlib
import ctypes
import gc
import sys

import psutil

_SWITCH_INTERVAL_SECONDS = 0.001
"""How long one thread may hold the interpreter while another wants it. At Python's 5 ms a model computing in Python holds up the
event loop that long each time; at 1 ms the loop's p99 beside such a model was a tenth, for a few percent of the model's speed."""

_YOUNG_OBJECTS = 50_000
"""Objects made between two looks at the youngest generation. A request makes some thirty, nearly all freed by reference counts at
once; Python's 700 would mean a look every other request."""


def settle() -> None:
    """Call once the models are loaded: what lives now lives long, so the collector need not look at it again."""
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)


class ProcessMemory:
    """The memory of this process and of its children, the workers, for the repository: what an unload freed."""

    def resident(self) -> int:
        """Bytes of resident memory; blocking, since it reads /proc. What two processes share counts for each."""
        this = psutil.Process()
        size: int = this.memory_info().rss
        for child in this.children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it may end meanwhile
                size += child.memory_info().rss
        return size

    def give_back(self) -> None:
        """Free what only cycles hold, and return free pages to the system; blocking, and the interpreter is held for some of it.

        A Python model's module is a cycle, and one that was loaded at start stands among what `settle` froze.
        """
        frozen = gc.get_freeze_count() > 0
        gc.unfreeze()
        gc.collect()
        if frozen:
            gc.freeze()
        # Absent outside of glibc, whose allocator is the one that keeps pages.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
