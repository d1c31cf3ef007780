"""Memory of the host from and to which a GPU copies the tensors of an instance's batches: kept from batch to batch, so that a batch allocates none. Importing this imports torch.

A batch may use it once the one before has been answered: its copies are over then, and its host has sent its outputs or copied them (`keeps_arrays`).
"""

import functools
import math
import typing
from typing import Any

import numpy as np
import torch

from naiad.backends.batch import Array
from naiad.backends.pytorch.tensors import array_of, tensor_of

Shape = tuple[int, ...]


class Staged(typing.NamedTuple):
    """Where a tensor lies on the host: a tensor of torch, and the array over its memory."""

    tensor: Any
    array: Array


class Staging:
    """The memory of an instance's inputs or of its outputs, each in a piece of its own.

    Args:
        pinned: CUDA copies from and to it without a copy of its own; otherwise it is ordinary memory.
    """

    def __init__(self, *, pinned: bool) -> None:
        self._pinned = pinned
        self._memory: dict[Any, Any] = {}
        self._last: dict[Any, tuple[Shape, Any, Staged]] = {}

    def place(self, name: Any, shape: Shape, dtype: Any) -> Staged:
        """Where a tensor of this shape and of torch's datatype comes, in place of the one that was last given the name."""
        last = self._last.get(name)
        if last is not None and last[0] == shape and last[1] == dtype:
            return last[2]
        size = math.prod(shape) * dtype.itemsize
        memory = self._memory.get(name)
        if memory is None or len(memory) < size:
            # A power of two, so that growing batches rarely need another one.
            room = 1 << max(0, size - 1).bit_length()
            memory = torch.empty(room, dtype=torch.uint8, pin_memory=self._pinned)
            self._memory[name] = memory
        tensor = memory[:size].view(dtype).view(shape)
        found = Staged(tensor, array_of(tensor))
        self._last[name] = shape, dtype, found
        return found


@functools.cache
def dtype_of(dtype: "np.dtype[Any]") -> Any:
    """Torch's datatype for that of an array of numbers."""
    one = typing.cast("torch.Tensor", tensor_of(np.empty(0, dtype)))
    return one.dtype
