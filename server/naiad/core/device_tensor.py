"""A tensor in the memory of a GPU, which belongs to a worker process: the server passes on how it is opened, and never reads it."""

import collections.abc
import typing

from typing_extensions import override

from naiad.core.record import Record
from naiad.core.tensor import NO_VALUES, Tensor
from naiad.errors import unsupported
from naiad.tensors.memory import CUDA, HOST, Memory

if typing.TYPE_CHECKING:
    import numpy as np


class Lease:
    """Keeps a tensor of a worker process: with the last reference to it the process may free the tensor.

    Args:
        end: called then, in whatever thread.
    """

    __slots__ = ("_end",)

    def __init__(self, end: collections.abc.Callable[[], None]) -> None:
        self._end = end

    def __del__(self) -> None:
        self._end()


class DeviceTensor(Tensor, frozen=True):
    """A tensor in a GPU's memory.

    Attributes:
        array: cannot be read.
        placed: the GPU, numbered as the server does.
        descriptor: how a process opens it, packed.
        lease: keeps it.
    """

    placed: Memory = HOST
    descriptor: bytes = b""
    lease: "Lease | None" = None

    if not typing.TYPE_CHECKING:  # a field, for the type checker

        @property
        def array(self) -> "np.ndarray[typing.Any, typing.Any]":
            """See above.

            Raises:
                InferenceError: UNSUPPORTED.
            """
            raise unsupported(
                f"tensor '{self.name}' is in the memory of GPU {self.placed.device}, which the server does not read: this model takes tensors of the host's "
                "memory only"
            )

    @property
    @override
    def memory(self) -> Memory:
        return self.placed

    @override
    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.placed.device

    def named(self, name: str, shape: tuple[int, ...]) -> "DeviceTensor":
        """The same values under another name, or in another shape."""
        return DeviceTensor(
            name, self.datatype, shape, NO_VALUES, None, self.placed, self.descriptor, self.lease
        )


class OnDevice(Record, frozen=True, eq=True):
    """Outputs whose receiver takes them on a GPU.

    Attributes:
        device: the server's number of it; -1 for any.
        names: those outputs; None for all.
    """

    device: int
    names: frozenset[str] | None = None
