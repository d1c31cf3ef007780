"""What a client has on a GPU that is made up: memory of the tests' own process."""

from typing import Any

import numpy as np

from naiad.tensors import cudart
from tests.support import cuda


class Allocation:
    """Memory of this process on a device, which is freed with it.

    Args:
        size: bytes.
    """

    def __init__(self, size: int, device: int = 0) -> None:
        self.size = size
        self.device = device
        with cuda.in_this_process():
            self._runtime = cudart.load()
        self._address = self._runtime.allocate(size, device)

    @property
    def handle(self) -> bytes:
        return self._runtime.ipc_handle(self._address, self.device)

    def put(self, array: "np.ndarray[Any, Any]", offset: int = 0) -> None:
        self._runtime.to_device(
            self._address + offset, array.ctypes.data, array.nbytes, self.device
        )

    def get(self, dtype: Any, shape: "list[int]", offset: int = 0) -> "np.ndarray[Any, Any]":
        found: np.ndarray[Any, Any] = np.empty(shape, dtype)
        self._runtime.to_host(found.ctypes.data, self._address + offset, found.nbytes, self.device)
        return found

    def free(self) -> None:
        self._runtime.free(self._address, self.device)
