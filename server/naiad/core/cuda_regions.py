"""Memory on GPUs that clients have registered (row 5.14). The server has no CUDA context: another process opens the memory and copies."""

import typing

import numpy as np

from naiad.core.record import Record


class Opened(Record, frozen=True):
    """A client's allocation that is open.

    Attributes:
        handle: its `cudaIpcMemHandle_t`.
        device: the server's number of its GPU.
        uuid: of the GPU, 16 bytes.
        owner: by which number worker processes know it.
        lease: keeps it open.
    """

    handle: bytes
    device: int
    uuid: bytes
    owner: int
    lease: typing.Any


class GpuMemory(typing.Protocol):
    """Opens and copies clients' memory on GPUs. All methods may be called in any thread, wait, and raise InferenceError."""

    def open(self, name: str, handle: bytes, device: int, size: int) -> Opened:
        """Open an allocation for a region of this name and size.

        Raises:
            InferenceError: INVALID_ARG: the handle cannot be opened, or the allocation is smaller.
        """
        ...

    def read(self, opened: Opened, offset: int, size: int) -> "np.ndarray[typing.Any, typing.Any]":
        """A copy of a part of it, as uint8."""
        ...

    def write(
        self, opened: Opened, offset: int, data: "np.ndarray[typing.Any, typing.Any]"
    ) -> None:
        """Copy uint8 into it."""
        ...

    def copy(self, opened: Opened, offset: int, descriptor: bytes, lease: typing.Any) -> None:
        """Copy the values of a tensor of a worker process into it, by its descriptor; the lease keeps it."""
        ...


class CudaRegion:
    """A registered allocation. It is closed when neither a region nor a request refers to it any more.

    Attributes:
        name: its name.
        device: the GPU, as the client wrote it.
        size: its bytes.
        opened: the allocation.
    """

    __slots__ = ("_memory", "device", "name", "opened", "size")

    on_gpu = True

    def __init__(
        self, name: str, device: int, size: int, memory: GpuMemory, opened: Opened
    ) -> None:
        self.name = name
        self.device = device
        self.size = size
        self.opened = opened
        self._memory = memory

    def values(
        self, offset: int, size: int, into: "np.ndarray[typing.Any, typing.Any] | None" = None
    ) -> "np.ndarray[typing.Any, typing.Any]":
        """A copy of a part of the region, as uint8; `into` is not used: it is in shared memory already. Waits; thread-safe.

        Raises:
            InferenceError: it cannot be read.
        """
        return self._memory.read(self.opened, offset, size)

    def write(self, data: typing.Any, offset: int) -> None:
        """Copy bytes to the region. Waits; thread-safe.

        Raises:
            InferenceError: it cannot be written.
        """
        self._memory.write(self.opened, offset, np.frombuffer(data, np.uint8))

    def copy(self, descriptor: bytes, lease: typing.Any, offset: int) -> None:
        """Copy the values of a tensor of a worker process to the region. Waits; thread-safe.

        Raises:
            InferenceError: it cannot be written.
        """
        self._memory.copy(self.opened, offset, descriptor, lease)
