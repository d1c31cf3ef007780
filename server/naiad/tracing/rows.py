"""The memory of usual traces that wait: a file without a name, so that the process that writes can map it as well."""

import mmap
import os
import typing
import weakref

import numpy as np

from naiad.tensors import mapping
from naiad.tracing.usual import COLUMNS, SIZE


class Rows:
    """Room for so many traces. It takes memory only where something was written.

    Attributes:
        memory: as `usual.PACK_INTO` writes into it.
        descriptor: of the file, as long as this is there; None if the system has none left, and no other process can map it.
    """

    def __init__(self, count: int) -> None:
        self.memory: mmap.mmap
        self.descriptor: int | None
        try:
            self.descriptor, self.memory = mapping.create(count * SIZE, mapping.Mapping)
        except OSError:
            self.descriptor, self.memory = None, mmap.mmap(-1, count * SIZE)
        else:
            weakref.finalize(self, os.close, self.descriptor)
        self.numbers = numbers_in(self.memory)


def numbers_in(memory: mmap.mmap) -> np.ndarray[typing.Any, np.dtype[np.int64]]:
    """A row for each trace that has room."""
    return np.frombuffer(memory, np.int64).reshape(-1, COLUMNS)
