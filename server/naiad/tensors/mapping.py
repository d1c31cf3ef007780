"""Mapped memory files that give their memory back beside the event loop. Limits: standard library, Python 3.8."""

import _thread
import contextlib
import mmap

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
                _thread.start_new_thread(give_back, (self,))


def give_back(mapping: Mapping) -> None:
    """Unmap a mapping that nothing else refers to. Releases the interpreter lock, as neither `mmap.madvise` nor the destructor does."""
    import ctypes  # noqa: PLC0415 - it takes a worker milliseconds

    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    first = ctypes.c_char.from_buffer(mapping)
    address, size = ctypes.addressof(first), len(mapping)
    for at in range(0, size, _SLICE):
        madvise(address + at, min(_SLICE, size - at), _MADV_DONTNEED)
    del first  # or it could not be closed
    mapping.close()
