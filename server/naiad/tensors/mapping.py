"""Mapped memory files that give their memory back beside the event loop. Limits: standard library, Python 3.8."""

import _thread
import contextlib
import fcntl
import mmap
import os
from typing import TypeVar

LARGE = 1 << 24
"""Bytes that are given back in a thread: giving back takes 0.3 to 1 ms per MB, which object destructors do with the interpreter lock held."""

_SLICE = 1 << 20
"""Bytes that are unmapped at once. The system's lock on the address space is held meanwhile, and any other thread that needs memory waits for it."""

_MADV_DONTNEED = 4


class Mapping(mmap.mmap):
    """A mapped memory file. When the last view of it is gone, a large one is unmapped in a thread of its own, in slices.

    Other mappings of the file, here and in other processes, keep what is in it.
    """

    def __del__(self) -> None:
        """Start the thread, or leave it to the object itself where there is none: the system has no room for it, or the interpreter ends."""
        if not self.closed and len(self) >= LARGE:
            with contextlib.suppress(RuntimeError):
                _thread.start_new_thread(give_back, (self, len(self)))


_M = TypeVar("_M", bound=Mapping)


def create(capacity: int, kind: "type[_M]") -> "tuple[int, _M]":
    """A new memory file: its descriptor and its memory. It has no pages until they are written.

    Raises:
        OSError: no descriptor, memory or address space is left.
    """
    fresh = os.memfd_create("naiad", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fresh, capacity)
        # It cannot be made smaller any more: reading behind its end would end a process.
        fcntl.fcntl(fresh, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        return fresh, kind(fresh, capacity)
    except BaseException:
        os.close(fresh)
        raise


def give_back(mapping: Mapping, size: int, advice: int = _MADV_DONTNEED) -> None:
    """Unmap a mapping that nothing else refers to and whose first `size` bytes may have pages. Releases the interpreter lock, as neither `mmap.madvise` nor the destructor does.

    `advice` is MADV_REMOVE if the pages are to be taken out of the file as well.
    """
    import ctypes  # noqa: PLC0415 - it takes a worker milliseconds

    first = ctypes.c_char.from_buffer(mapping)
    give_back_pages(ctypes.addressof(first), size, advice)
    del first  # or it could not be closed
    mapping.close()


def give_back_pages(address: int, size: int, advice: int = _MADV_DONTNEED) -> None:
    """Give the pages from an address on back in slices, without the interpreter lock."""
    import ctypes  # noqa: PLC0415 - as above

    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for at in range(0, size, _SLICE):
        madvise(address + at, min(_SLICE, size - at), advice)
