"""The memory that outputs of a batch are written to: one piece, used again by the next batch, because new pages cost more than a copy.

Limits: those of `backends/instance.py`: standard library and numpy, Python 3.8.
"""

import contextlib
import threading
from typing import Any, Tuple  # noqa: UP035 - 3.8 cannot subscript the builtin one

import numpy as np

_ALIGNED = 64
_FIRST = 1 << 16
_AT_ONCE = 1 << 16
"""So many bytes at most are cleared when a batch begins, with one call for all of its small outputs; what lies behind is cleared for each output."""

Place = Tuple[Any, int, int]  # noqa: UP006 - as above
"""An array of bytes, where in it, and the address of that."""


class OutputMemory:
    """Memory as large as the largest batch so far. What it gives is valid until the batch after it begins. Any thread may take some.

    It is cleared before it is given, so that a library which does not fill all of an output sends no piece of another client's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._needed = self._used = 0
        self._new(_FIRST)

    def begin(self) -> None:
        """A batch begins: the outputs of the one before are sent by now."""
        needed, self._needed = self._needed, 0
        self._used = max(self._used, min(needed, self._size))
        if needed > self._size:
            with contextlib.suppress(MemoryError):  # of an output that was refused for it as well
                self._new(needed)
        elif self._used:
            self._bytes[self._start : self._start + min(self._used, _AT_ONCE)] = 0

    def take(self, size: int) -> Place:
        """Memory for an output, at an address that fits every datatype.

        Raises:
            MemoryError: there is no memory left.
        """
        with self._lock:
            at = self._needed
            end = self._needed = at + ((size + _ALIGNED - 1) & -_ALIGNED)
        if end > self._size:
            return _aligned(size)
        start = self._start
        if end > _AT_ONCE and at < self._used:
            self._bytes[start + max(at, _AT_ONCE) : start + min(end, self._used)] = 0
        at += start
        return self._bytes, at, self._base + at

    def _new(self, size: int) -> None:
        self._size = 0  # if there is no memory, each output has some of its own
        self._bytes, self._start, address = _aligned(size)
        self._base = address - self._start
        self._size, self._used = size, 0


class FreshMemory:
    """Memory of its own for each output: of a response that is made beside others."""

    def take(self, size: int) -> Place:
        """See `OutputMemory`."""
        return _aligned(size)


def _aligned(size: int) -> Place:
    array = np.zeros(size + _ALIGNED, np.uint8)
    address: int = array.__array_interface__["data"][0]
    start = -address % _ALIGNED
    return array, start, address + start
