"""A framework with arrays on a CUDA device, in small: copied beside a test's model.py, as torch is installed beside others."""

from typing import Any

import numpy as np

from naiad.tensors import cudart, dlpack


class Allocation:
    """Memory of a device, freed with its last array."""

    def __init__(self, size: int, device: int = 0) -> None:
        self.device = device
        self._runtime = cudart.load()
        self.address = self._runtime.allocate(size, device)

    def __del__(self) -> None:
        self._runtime.free(self.address, self.device)


class DeviceArray:
    """An array on a device: `to_device` makes one, `from_dlpack` takes one."""

    def __init__(
        self, address: int, shape: "tuple[int, ...]", datatype: str, device: int, owner: Any
    ) -> None:
        self.address = address
        self.shape = shape
        self.datatype = datatype
        self.device = device
        self.owner = owner

    def __dlpack_device__(self) -> "tuple[int, int]":
        return (2, self.device)

    def __dlpack__(self, stream: Any = None, **_newer: Any) -> Any:
        return dlpack.export_device(
            self.address, self.shape, self.datatype, device=self.device, owner=self
        )

    def numpy(self) -> "np.ndarray[Any, Any]":
        found: np.ndarray[Any, Any] = np.empty(self.shape, np.dtype(_DTYPES[self.datatype]))
        cudart.load().to_host(found.ctypes.data, self.address, found.nbytes, self.device)
        return found


_DTYPES = {"FP32": "float32", "INT32": "int32", "UINT8": "uint8", "INT64": "int64"}
_NAMES = {np.dtype(value): name for name, value in _DTYPES.items()}


def to_device(
    array: Any, device: int = 0, within: "Allocation | None" = None, offset: int = 0
) -> DeviceArray:
    """A copy of an array on a device, in memory of its own or in an allocation."""
    array = np.ascontiguousarray(array)
    allocation = within or Allocation(max(array.nbytes, 1), device)
    address = allocation.address + offset
    cudart.load().to_device(address, array.ctypes.data, array.nbytes, device)
    return DeviceArray(address, array.shape, _NAMES[array.dtype], device, allocation)


def from_dlpack(source: Any) -> DeviceArray:
    """An array over a tensor's memory."""
    taken = dlpack.take_any(source)
    assert not isinstance(taken, tuple), "it is on the host"
    return DeviceArray(taken.address, taken.shape, taken.datatype, taken.memory.device, taken)
