"""Memory for the inputs that a worker process reads from clients' shared memory: used again, because a page that is there already costs a tenth of a new one.

Limits: standard library and numpy, Python 3.8.
"""

import mmap
import sys
from typing import Any

import numpy as np

from naiad.tensors.reference_counts import ONLY_LISTED

KEPT_BYTES = 1 << 26
"""Bytes of all pieces that are kept for their next use."""

KEPT_EACH = 1 << 24
"""Bytes of the largest one."""

_LEAST = 1 << 16


class InputMemory:
    """Pieces of memory, as uint8, each at the beginning of a page. One thread; what is in them may be let go in any.

    Attributes:
        KEPT_S: how long an instance waits for its next batch before they are given back.
    """

    KEPT_S = 10.0

    __slots__ = ("_kept", "_kept_bytes")

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._kept_bytes = 0

    def __len__(self) -> int:
        """How many pieces are kept."""
        return len(self._kept)

    def take(self, size: int) -> Any:
        """A piece of at least so many bytes, whatever is in them, to which nothing else refers. It is used again once the caller and every view of it have let it go.

        Raises:
            OSError: the system has no memory.
        """
        kept, count = self._kept, sys.getrefcount
        for at in range(len(kept)):
            if len(kept[at]) >= size and count(kept[at]) <= ONLY_LISTED:
                return kept[at]
        capacity = max(_LEAST, 1 << (size - 1).bit_length()) if size <= KEPT_EACH else size
        made = np.frombuffer(
            mmap.mmap(-1, capacity, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8
        )
        if capacity <= KEPT_EACH:
            if self._kept_bytes + capacity > KEPT_BYTES:
                self.clear()
            kept.append(made)
            self._kept_bytes += capacity
        return made

    def clear(self) -> None:
        """Give back what nothing refers to, and forget the rest."""
        self._kept.clear()
        self._kept_bytes = 0
