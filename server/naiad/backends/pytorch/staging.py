"""Memory of the host from which a GPU copies the inputs of an instance's batches: kept from batch to batch, so that a batch allocates none. Importing this imports torch.

A batch may be gathered in it once the copies of the batch before are over, which holds when that one has been answered.
"""

import math
import typing
from typing import Any

import torch

from naiad.backends.batch import Array
from naiad.backends.pytorch.tensors import array_of, tensor_of


class Staged(typing.NamedTuple):
    """Where an input is gathered: a tensor, and the array over its memory."""

    tensor: Any
    array: Array


class Staging:
    """The memory of an instance's inputs, each in a piece of its own.

    Args:
        pinned: CUDA copies from it without a copy of its own; otherwise it is ordinary memory.
    """

    def __init__(self, *, pinned: bool) -> None:
        self._pinned = pinned
        self._memory: dict[str, Any] = {}
        self._last: dict[str, Staged] = {}

    def place(self, name: str, like: Array, rows: int) -> Staged:
        """Where an input is gathered whose requests are like this array and have so many rows together; in place of what was gathered of it before."""
        shape = (rows, *like.shape[1:]) if like.ndim else ()
        last = self._last.get(name)
        if last is not None and last.array.shape == shape and last.array.dtype == like.dtype:
            return last
        size = math.prod(shape) * like.dtype.itemsize
        memory = self._memory.get(name)
        if memory is None or len(memory) < size:
            # A power of two, so that growing batches rarely need another one.
            room = 1 << max(0, size - 1).bit_length()
            memory = torch.empty(room, dtype=torch.uint8, pin_memory=self._pinned)
            self._memory[name] = memory
        tensor = memory[:size].view(_dtype(like)).view(shape)
        self._last[name] = found = Staged(tensor, array_of(tensor))
        return found


def _dtype(like: Array) -> Any:
    one = typing.cast("torch.Tensor", tensor_of(like.reshape(-1)[:0]))
    return one.dtype
