"""The memory of an instance: on its device, and on the host, from where and to where it is copied."""

import ctypes
from typing import Any

import numpy as np
import tensorrt
from typing_extensions import override

from naiad.backends.batch import Array
from naiad.backends.cuda_runtime import CudaRuntime
from naiad.backends.tensorrt.engine.description import Shape


class Memory:
    """What an instance has allocated, given back at once by `close`."""

    def __init__(self, cuda: CudaRuntime) -> None:
        self._cuda = cuda
        self._device: set[int] = set()
        self._pinned: set[int] = set()

    def on_device(self, size: int) -> int:
        """The address of so many bytes of the device; at least one, for tensors may be empty."""
        address = self._cuda.allocate(max(1, size))
        self._device.add(address)
        return address

    def pinned(self, size: int) -> int:
        """The address of so many pinned bytes of the host."""
        address = self._cuda.allocate_pinned(max(1, size))
        self._pinned.add(address)
        return address

    def free(self, address: int) -> None:
        """Give memory of the device back."""
        self._device.discard(address)
        self._cuda.free(address)

    def free_pinned(self, address: int) -> None:
        """Give pinned memory back."""
        self._pinned.discard(address)
        self._cuda.free_pinned(address)

    def close(self) -> None:
        """Give everything back."""
        for address in tuple(self._device):
            self.free(address)
        for address in tuple(self._pinned):
            self.free_pinned(address)


class Stage:
    """Memory of the host for one tensor, which grows with the batches.

    Args:
        memory: of the instance.
        dtype: of the tensor.
        pinned: the device copies it itself; otherwise CUDA copies it once more on the way.
    """

    def __init__(self, memory: Memory, dtype: Any, *, pinned: bool) -> None:
        self._memory = memory
        self._dtype = np.dtype(dtype)
        self._pinned = pinned
        self._address = 0
        self._bytes: Array = np.empty(0, np.uint8)

    def array(self, shape: Shape) -> Array:
        """An array in it; what was in it before is lost."""
        size = int(np.prod(shape, dtype=np.int64)) * self._dtype.itemsize
        if size > self._bytes.nbytes:
            self._grow(1 << (size - 1).bit_length())
        flat = self._bytes[:size]
        array: Array = flat.view(self._dtype).reshape(shape)
        return array

    def _grow(self, size: int) -> None:
        if not self._pinned:
            self._bytes = np.empty(size, np.uint8)
            return
        if self._address:
            self._bytes = np.empty(0, np.uint8)
            self._memory.free_pinned(self._address)
        self._address = self._memory.pinned(size)
        self._bytes = view(self._address, size)


def view(address: int, size: int) -> Array:
    """Bytes of the host as an array, without a copy."""
    array: Array = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
    return array


def address_of(array: Array) -> int:
    """Where an array begins."""
    address: int = array.__array_interface__["data"][0]
    return address


class GrowingOutput(tensorrt.IOutputAllocator):  # type: ignore[misc]
    """Memory of the device for an output whose shape depends on the values of inputs; TensorRT asks for it during a run.

    Attributes:
        address: 0 before the first run.
        shape: of the last run.
    """

    def __init__(self, memory: Memory) -> None:
        tensorrt.IOutputAllocator.__init__(self)
        self._memory = memory
        self._size = 0
        self.address = 0
        self.shape: Shape = ()

    @override
    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        """The address of so many bytes; what was there before is lost."""
        if size > self._size or not self.address:
            if self.address:
                self._memory.free(self.address)
                self.address = 0
            self.address = self._memory.on_device(size)
            self._size = size
        return self.address

    @override
    def reallocate_output_async(
        self, tensor_name: str, memory: int, size: int, alignment: int, stream: int
    ) -> int:
        """As the other one: what the stream still does with the old memory, `cudaFree` waits for."""
        return self.reallocate_output(tensor_name, memory, size, alignment)

    @override
    def notify_shape(self, tensor_name: str, shape: Any) -> None:
        """The shape of this run."""
        self.shape = tuple(int(size) for size in shape)
