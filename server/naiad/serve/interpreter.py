"""How the interpreter is set for serving: the garbage collector, the switch interval, and what an unload gives back.

These are process-wide, so they stand here, where the process is made, and nowhere else.
"""

import contextlib
import ctypes
import functools
import gc
import itertools
import sys
import threading

_SWITCH_INTERVAL_SECONDS = 0.001
"""How long one thread may hold the interpreter while another wants it. At Python's 5 ms a model computing in Python holds up the
event loop that long each time; at 1 ms the loop's p99 beside such a model was a tenth, for a few percent of the model's speed."""

_YOUNG_OBJECTS = 50_000
"""Objects made between two looks at the youngest generation. A request makes some thirty, nearly all freed by reference counts at
once; Python's 700 would mean a look every other request."""

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KIB = 1024
_MIB = 1024 * _KIB


def is_free_threaded() -> bool:
    """Whether this is a build without interpreter lock. Much here counts on the lock: what two threads share in one place each."""
    return "t" in sys.abiflags


def begin() -> None:
    """Call before anything large is imported: nearly all that importing makes stays, and the collector would look at it over and over."""
    gc.disable()


def imported() -> None:
    """Call once the server's own modules and those of its ports are there, before a model is: from here on there may be garbage again.

    What is there by now stays, so the collector need not look at it while somebody waits for the start. The little garbage among it
    (800 objects) stays.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
    gc.enable()


def settle() -> None:
    """Call once the models are loaded: what lives now lives long, so the collector need not look at it again."""
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)


class ProcessMemory:
    """The memory of this process and of its children, the workers, for the repository: what an unload freed."""

    def __init__(self) -> None:
        self._collecting = threading.Lock()
        self._asked = itertools.count(1)
        self._collected = 0
        """All who asked for a collection with a number up to this one have had it."""

    def resident(self) -> int:
        """Bytes of resident memory; blocking, since it reads /proc. What two processes share counts for each."""
        import psutil  # noqa: PLC0415 - 15 ms that a server pays when it first unloads a model, in a thread

        this = psutil.Process()
        size: int = this.memory_info().rss
        for child in this.children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it may end meanwhile
                size += child.memory_info().rss
        return size

    def expect(self) -> None:
        """Have glibc return the end of every heap as soon as it is free.

        `malloc_trim` reaches the end of the main heap only; the heaps of threads, where frameworks compute, keep up to 64 MiB there.
        """
        _tune(trim_from=128 * _KIB)

    def give_back(self, *, collect: bool) -> None:
        """Return free pages to the system, and if asked free before what only cycles hold; blocking.

        glibc keeps freed pages for later allocations, wherever they do not end its heap: without the trim, weights that are gone
        still count as resident.
        """
        if collect:
            self._collect()
        # Absent outside of glibc, whose allocator is the one that keeps pages.
        with contextlib.suppress(OSError, AttributeError):
            _c_library().malloc_trim(0)
        # Or every large tensor of a request would be paid for in page faults.
        _tune(trim_from=64 * _MIB)

    def _collect(self) -> None:
        """A full collection: it holds the interpreter for 75 ms beside 300 models, so that those who ask at the same time share one.

        What was loaded at start is among what `settle` froze.
        """
        number = next(self._asked)
        with self._collecting:
            if number <= self._collected:
                return
            number = next(self._asked)
            frozen = gc.get_freeze_count() > 0
            gc.unfreeze()
            gc.collect()
            if frozen:
                gc.freeze()
            self._collected = number


def _tune(*, trim_from: int) -> None:
    """Both thresholds: setting one ends glibc's own adjustment, which takes them to 32 and 64 MiB once a large block was freed."""
    with contextlib.suppress(OSError, AttributeError):
        _c_library().mallopt(_M_MMAP_THRESHOLD, 32 * _MIB)
        _c_library().mallopt(_M_TRIM_THRESHOLD, trim_from)


@functools.cache
def _c_library() -> ctypes.CDLL:
    """Once: each makes a class of its own."""
    return ctypes.CDLL(None)
