"""The allocator of the C library (glibc): which free memory the process keeps, and when it gives it back. Only this module changes it.

glibc keeps freed memory for later allocations. It has one heap for the main thread and further ones, arenas, for the other threads; what is free at
the end of an arena is given back only by a call of `free` in that arena, and only above the trim threshold. Another C library lacks these
functions and does not keep memory: nothing happens there.
"""

import collections.abc
import contextlib
import ctypes
import functools
import threading
import typing

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_KIB = 1024
_MIB = 1024 * _KIB

_ARENAS = 4
"""By default eight per processor, and each keeps up to 64 MiB of free memory: 20 messages of 50 MB left 280 MB behind in four of them."""


class Malloc:
    """The settings of this process. Thread-safe. `library` is the C library, for tests."""

    def __init__(self, library: collections.abc.Callable[[], typing.Any]) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._arenas = 0
        self._keeps_messages = False

    def limit_arenas(self, environ: collections.abc.Mapping[str, str]) -> None:
        """Have few arenas, unless the environment says how many; before the process has other threads."""
        if "MALLOC_ARENA_MAX" in environ or "arena_max" in environ.get("GLIBC_TUNABLES", ""):
            return
        with contextlib.suppress(OSError, AttributeError):
            self._library().mallopt(_M_ARENA_MAX, _ARENAS)
            self._arenas = _ARENAS

    def keep_messages(self) -> None:
        """Keep the memory of large messages, until `give_back_messages`."""
        with self._lock:
            self._keeps_messages = True
        self._set_thresholds()

    def give_back_messages(self) -> None:
        """Give the memory of large messages back, the end of every arena included; blocks."""
        with self._lock:
            self._keeps_messages = False
        self.expect_frees()
        self._visit_arenas()
        self.give_back()

    def expect_frees(self) -> None:
        """Give the end of every heap back as soon as it is free, until `give_back`: much memory is about to be freed."""
        self._tune(mmap_from=32 * _MIB, trim_from=128 * _KIB)

    def give_back(self) -> None:
        """Give free pages back, also those between used ones, and then keep what requests free; blocks."""
        self.trim()
        # Otherwise every large tensor of a request would cause page faults.
        self._set_thresholds()

    def trim(self) -> None:
        """Give free pages back; blocks."""
        with contextlib.suppress(OSError, AttributeError):
            self._library().malloc_trim(0)

    def _set_thresholds(self) -> None:
        if self._keeps_messages:
            self._tune(mmap_from=128 * _MIB, trim_from=256 * _MIB)
        else:  # what glibc itself takes them to once a large block was freed
            self._tune(mmap_from=32 * _MIB, trim_from=64 * _MIB)

    def _tune(self, *, mmap_from: int, trim_from: int) -> None:
        """Set both thresholds: setting one ends glibc's own adjustment of the other."""
        with self._lock, contextlib.suppress(OSError, AttributeError):
            self._library().mallopt(_M_MMAP_THRESHOLD, mmap_from)
            self._library().mallopt(_M_TRIM_THRESHOLD, trim_from)

    def _visit_arenas(self) -> None:
        """Free a block in each arena. New threads get the arenas in turn, those of ended threads first: twice as many threads reach all of them."""
        if not self._arenas:
            return
        everyone = threading.Barrier(2 * self._arenas)
        threads = [
            threading.Thread(target=self._free_a_block, args=(everyone,), name="naiad-trim")
            for _ in range(everyone.parties)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _free_a_block(self, everyone: threading.Barrier) -> None:
        everyone.wait()
        library = self._library()
        library.free(library.malloc(_MIB))
        everyone.wait()  # a thread that ends early would give its arena to another one


@functools.cache
def _c_library() -> ctypes.CDLL:
    """The C library, loaded once: each `CDLL` creates a class."""
    library = ctypes.CDLL(None)
    library.malloc.argtypes, library.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    library.free.argtypes, library.free.restype = [ctypes.c_void_p], None
    return library


MALLOC = Malloc(_c_library)
