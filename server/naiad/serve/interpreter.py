"""Settings of the interpreter for serving (garbage collector, switch interval), and the release of memory after an unload.

They are process-wide, so only this module changes them.
"""

import collections.abc
import contextlib
import ctypes
import functools
import gc
import itertools
import pathlib
import resource
import sys
import threading

_SWITCH_INTERVAL_SECONDS = 0.001
"""How long one thread may hold the interpreter lock while another one waits for it. With Python's 5 ms, a model that computes in Python delays
the event loop by 5 ms each time; with 1 ms the loop's p99 beside such a model was a tenth, and the model a few percent slower."""

_YOUNG_OBJECTS = 50_000
"""Objects created between two collections of the youngest generation. A request creates about thirty, and reference counts free nearly all of
them at once; with Python's 700 every other request would cause a collection."""

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_PAGE = resource.getpagesize()
_KIB = 1024
_MIB = 1024 * _KIB


def is_free_threaded() -> bool:
    """Whether this is a build without the interpreter lock. Data that two threads share relies on the lock."""
    return "t" in sys.abiflags


def begin() -> None:
    """Turn the collector off; call before any large import: nearly all objects of an import stay, and the collector would visit them repeatedly."""
    gc.disable()


def imported() -> None:
    """Turn the collector on; call once the server's modules and those of its protocols are imported, before the first model is loaded.

    That shortens the start.
    """
    exempt()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
    gc.enable()


def exempt() -> None:
    """Exempt the objects that exist now from collections, for as long as the process lives; call after large imports, while no model is loaded.

    The little garbage among them (800 objects) stays.
    """
    gc.freeze()


def settle() -> None:
    """Collect once, so that what remains is in the oldest generation; call once the models are loaded, since such objects live long.

    The models' objects are not exempted: they must be found when a model is unloaded, and to end the exemption for them would end it for the
    imports too.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    gc.collect()


class ProcessMemory:
    """Implements the repository's `Memory`: this process and its worker processes.

    Args:
        workers: gives their ids.
    """

    def __init__(
        self, workers: collections.abc.Callable[[], collections.abc.Iterable[int]]
    ) -> None:
        self._workers = workers
        self._collecting = threading.Lock()
        self._requests = itertools.count(1)
        self._collected = 0
        """Requests for a collection with numbers up to this one are done."""

    def resident(self) -> int:
        """Bytes of resident memory; blocking, since it reads /proc. Memory that two processes share is counted twice.

        Looking for children among all processes of the machine would hold the interpreter lock, and hold up the event loop, for milliseconds.
        """
        pages = 0
        for process in ("self", *self._workers()):
            with contextlib.suppress(OSError):  # it may have ended
                pages += int(pathlib.Path(f"/proc/{process}/statm").read_text().split()[1])
        return pages * _PAGE

    def expect(self) -> None:
        """Have glibc return the end of every heap as soon as it is free.

        `malloc_trim` reaches the end of the main heap only; the heaps of threads, where frameworks compute, keep up to 64 MiB there.
        """
        _tune(trim_from=128 * _KIB)

    def give_back(self, *, collect: bool) -> None:
        """Return free pages to the system; blocking. `collect`: collect garbage before.

        glibc keeps freed pages for later allocations unless they are at the end of its heap: without the trim, freed weights still count as
        resident.
        """
        if collect:
            self._collect()
        # Other C libraries lack the function, and do not keep pages.
        with contextlib.suppress(OSError, AttributeError):
            _c_library().malloc_trim(0)
        # Otherwise every large tensor of a request would cause page faults.
        _tune(trim_from=64 * _MIB)

    def _collect(self) -> None:
        """Make a full collection. It holds the interpreter lock, so concurrent requests share one.

        What is exempt, 120,000 objects of imports, is not visited: with it a collection held the lock for 60 ms, and held up the event loop.
        """
        number = next(self._requests)
        with self._collecting:
            if number <= self._collected:
                return
            number = next(self._requests)
            gc.collect()
            self._collected = number


def _tune(*, trim_from: int) -> None:
    """Set both thresholds: setting one ends glibc's own adjustment, which raises them to 32 and 64 MiB once a large block was freed."""
    with contextlib.suppress(OSError, AttributeError):
        _c_library().mallopt(_M_MMAP_THRESHOLD, 32 * _MIB)
        _c_library().mallopt(_M_TRIM_THRESHOLD, trim_from)


@functools.cache
def _c_library() -> ctypes.CDLL:
    """The C library, loaded once: each `CDLL` creates a class."""
    return ctypes.CDLL(None)
