"""Clients' shared memory objects that a worker process writes outputs to itself: what both sides say of them.

The server sends the descriptor of an object before the batch that refers to it, and the worker closes it after the batch, so that an object that its client has
removed is not kept. The worker writes with `pwrite`, never through a mapping: an object that has become smaller must not end the process. What it cannot write
goes to the server as any other output; the server then writes it, or finds the same fault and says what is wrong. Limits: standard library and numpy,
Python 3.8.
"""

import os
from typing import Any

import numpy as np

from naiad.tensors.memory import Memory

REGION = Memory("region", 0)
"""In place of an output's values: they were written to the place that its request names."""

REGION_FILE = 1 << 9
"""A bit in the number of a shared file: it is such an object, which is not mapped."""

PLACED_FROM = 1 << 16
"""Bytes of the smallest output that a worker writes to its place. For fewer, sending the descriptor costs more than the copy."""

MOST_FILES = 16
"""Objects that are sent along with one batch; the outputs for further ones go to the server."""

_NUMBER_SHIFT = 16
_NUMBERS = 1 << 32


def numbered(count: int) -> int:
    """The number of the object that is sent as the so many-th."""
    return (count % _NUMBERS) << _NUMBER_SHIFT | REGION_FILE


class Placed:
    """What a worker sends of an output that it has written to its place; written as `Exported` is."""

    __slots__ = ("shape",)

    placed = REGION
    descriptor = b""

    def __init__(self, shape: "tuple[int, ...]") -> None:
        self.shape = shape


class ReceivedFiles:
    """The objects that came for a batch, by number, each a descriptor."""

    __slots__ = ("_files",)

    def __init__(self) -> None:
        self._files: dict[int, int] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._files)

    def add(self, number: int, descriptor: int) -> None:
        """One came; -1 if this process could not take it."""
        if descriptor >= 0:
            self._files[number] = descriptor

    def close(self) -> None:
        """The batch has ended."""
        while self._files:
            os.close(self._files.popitem()[1])

    def write(self, number: int, values: Any, at: int, size: int) -> Any:
        """Write the values of an output, numbers, to an object.

        Args:
            number: the object's.
            values: the output.
            at: where its place begins, in bytes from the beginning of the object.
            size: bytes of its place.

        Returns:
            A `Placed`; the values themselves if they are still to be written.
        """
        file = self._files.get(number, -1)
        if (
            file < 0
            or type(values) is not np.ndarray
            or not PLACED_FROM <= values.nbytes <= size
            or not values.flags.c_contiguous
        ):
            return values
        octets = values.reshape(-1).view(np.uint8).data
        try:
            if os.fstat(file).st_size < at + len(octets):
                return values
            while octets:
                count = os.pwrite(file, octets, at)
                octets, at = octets[count:], at + count
        except OSError:
            return values
        return Placed(values.shape)
