"""Memory files for large messages that come over a socket: filled in place, lent as arrays, and used again.

A page of memory that is there already costs a tenth of a new one, so a file that is no longer referenced is kept for the next message, some of them
and not for long. A new file has no pages: it takes memory as bytes are written to it, however large the message says it will be. A large file is
given back in a thread (`mapping.py`). Limits: standard library and numpy, Python 3.8.
"""

import _thread
import collections
import contextlib
import mmap
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from naiad.tensors.mapping import LARGE, Mapping, create, give_back

if TYPE_CHECKING:
    _Array = np.ndarray[Any, Any]
else:
    _Array = np.ndarray

KEPT_BYTES = 1 << 26
"""Bytes of all files that wait for their next use."""

KEPT_EACH = LARGE
"""Bytes of the largest one that is kept. A larger message costs far more than its pages."""

KEPT_TICKS = 10
"""Ticks without a use after which they are given back."""

MOST_LENT = 64
"""Files that are lent at the same time: each takes two file descriptors, of which connections need one each."""

_LEAST = 1 << 21

_IN_A_THREAD = 1 << 22
"""Bytes from which a file is given back in a thread: 1 to 4 ms."""


class MemoryFile(Mapping):
    """A mapped memory file with its descriptor, which it owns.

    Attributes:
        descriptor: of the file.
        written: bytes from its beginning that may have pages.
        is_lent: whether there is a lease.
        path: for whom it was lent, last.
        places: the links to worker processes that have it (`shared_slots.SentSlots`), and its slot of each.
    """

    descriptor: int
    written: int
    is_lent: bool
    path: str
    places: "dict[Any, int]"

    def is_held(self) -> bool:
        """Whether the model in a worker process refers to it."""
        return any(slots.held >> slot & 1 for slots, slot in self.places.items())

    def __del__(self) -> None:  # type: ignore[explicit-override]  # workers may lack typing_extensions
        """Give it back: a large one in a thread. The descriptor is closed last and without the interpreter lock: that is what frees the pages."""
        if self.closed:
            return
        # The processes that have it mapped keep its pages, unless they are taken out of the file. A larger one they forget by themselves.
        removes = bool(self.places) and self.written <= KEPT_EACH and not self.is_held()
        self.places = {}
        if self.written >= _IN_A_THREAD:
            with contextlib.suppress(RuntimeError):  # no thread can be started
                _thread.start_new_thread(_give_back, (self, self.descriptor, self.written, removes))
                return
        if removes:
            self.madvise(mmap.MADV_REMOVE)
        self.close()
        os.close(self.descriptor)


def _give_back(found: MemoryFile, descriptor: int, written: int, removes: bool) -> None:  # noqa: FBT001 - of a thread
    give_back(found, written, mmap.MADV_REMOVE if removes else mmap.MADV_DONTNEED)
    os.close(descriptor)


class Lease(_Array):
    """The bytes of a lent file, as uint8. The file goes back to its pool when neither this array nor a view of it is referenced any more."""

    file: "MemoryFile | None" = None
    pool: "SharedPool | None" = None
    address: int = 0

    def __del__(self) -> None:
        """Return the file, in whichever thread the last view was dropped."""
        file, pool = self.file, self.pool
        if file is not None and pool is not None:  # a slice has neither
            self.file = None
            pool.returned.append(file)


class SharedPool:
    """Lends memory files. All methods belong to one thread; leases may end in any.

    Attributes:
        returned: files whose leases have ended, to be looked at with the next call.
    """

    def __init__(self) -> None:
        self.returned: collections.deque[MemoryFile] = collections.deque()
        self._kept: list[MemoryFile] = []
        self._held: list[MemoryFile] = []
        self._kept_bytes = 0
        self._lent = 0
        self._unused_ticks = 0

    @property
    def lent(self) -> int:
        """How many files are lent."""
        self._sort_out()
        return self._lent

    @property
    def kept_bytes(self) -> int:
        """Bytes of files that wait for their next use."""
        self._sort_out()
        return self._kept_bytes

    def take(self, size: int, path: str = "") -> "Lease | None":
        """Memory for so many bytes, whatever is in it; None if too many files are lent, or the system has no file descriptor or address space.

        Args:
            size: bytes.
            path: whom it is for: what a worker process has mapped is lent for the same path only, since its model could look into it.
        """
        self._sort_out()
        self._unused_ticks = 0
        if self._lent >= MOST_LENT:
            return None
        found = self._find(size, path)
        if found is None:
            try:
                found = _create(size)
            except (OSError, MemoryError):
                return None
        found.written = max(found.written, size)
        lease = Lease((len(found),), np.uint8, found)
        lease.file, lease.pool = found, self
        lease.address = lease.__array_interface__["data"][0]
        found.is_lent, found.path = True, path
        self._lent += 1
        return lease

    def tick(self) -> bool:
        """A second has passed. Returns whether files are still lent or kept."""
        self._sort_out()
        self._unused_ticks += 1
        if self._unused_ticks >= KEPT_TICKS:
            self.clear()
        return bool(self._lent or self._kept or self._held)

    def clear(self) -> None:
        """Give back what is kept."""
        self._sort_out()
        self._kept.clear()
        self._held.clear()
        self._kept_bytes = 0

    def _find(self, size: int, path: str) -> "MemoryFile | None":
        if self._held:
            held, self._held = self._held, []
            for each in held:
                self._keep(each)
        kept, best = self._kept, -1
        for at in range(len(kept) - 1, -1, -1):  # the last one is the warmest
            if len(kept[at]) >= size:
                if kept[at].path == path:
                    best = at
                    break
                if best < 0 and not kept[at].places:
                    best = at
        if best < 0:
            return None
        found = kept.pop(best)
        self._kept_bytes -= found.written
        return found

    def _sort_out(self) -> None:
        returned = self.returned
        while returned:
            found = returned.popleft()
            self._lent -= 1
            found.is_lent = False
            self._keep(found)

    def _keep(self, found: MemoryFile) -> None:
        """Keep a file for its next use if there is room; one that a model still refers to waits."""
        if found.written > KEPT_EACH:
            return
        if found.is_held():
            if len(self._held) < MOST_LENT:
                self._held.append(found)
        elif self._kept_bytes + found.written <= KEPT_BYTES:
            self._kept.append(found)
            self._kept_bytes += found.written


def _create(size: int) -> MemoryFile:
    capacity = max(_LEAST, 1 << (size - 1).bit_length()) if size <= KEPT_EACH else size
    descriptor, found = create(capacity, MemoryFile)
    found.descriptor, found.written, found.is_lent, found.path = descriptor, 0, False, ""
    found.places = {}
    return found
