"""Tensors of frameworks as this process takes them, and copies from a device into the host's memory, pinned where that pays.

Limits: standard library and numpy, Python 3.8.
"""

import threading
import weakref
from typing import Any

import numpy as np

from naiad.tensors import cudart, dlpack
from naiad.tensors.device_array import DeviceArray

PAYS = 4
"""Memory is pinned once so many times its size were copied into or out of it: pinning costs 0.18 ms per MB once, and saves 0.055 ms per MB of each copy."""

_DEFAULT_STREAM = 0


def taken(source: Any) -> "tuple[np.ndarray[Any, Any], str] | DeviceArray":
    """As `dlpack.take_any`; what was begun on the device to make the values is complete. Those of a bare capsule have to be on its default stream.

    Raises:
        BufferError: it is not a tensor that Triton has.
        cudart.CudaError: the device reports an error.
        cudart.NoCudaError: it is on a device, and this process has no CUDA.
    """
    found = dlpack.take_any(source, stream=_stream)
    if isinstance(found, DeviceArray):
        device, runtime = found.memory.device, cudart.load()
        bare = type(source).__name__ == "PyCapsule"
        runtime.synchronize_stream(_DEFAULT_STREAM if bare else runtime.stream(device), device)
    return found


def array_of(values: Any) -> DeviceArray:
    """The array of a DLPack tensor that is on a CUDA device.

    Raises:
        BufferError, cudart.CudaError, cudart.NoCudaError: as `taken`.
    """
    found = values if isinstance(values, DeviceArray) else taken(values)
    assert isinstance(found, DeviceArray), "it is on the host"
    return found


def _stream(device: int) -> int:
    return cudart.load().stream(device)


def to_host(array: DeviceArray) -> "np.ndarray[Any, Any]":
    """A copy of an array in the host's memory; BF16 as uint16.

    Raises:
        cudart.CudaError: the device reports an error.
    """
    found: np.ndarray[Any, Any] = np.empty(array.shape, dlpack.dtype_of(array.datatype))
    cudart.load().to_host(found.ctypes.data, array.address, array.nbytes, array.memory.device)
    return found


def copy_to(
    base: "np.ndarray[Any, Any]", at: int, array: DeviceArray, *, pins: bool = True
) -> None:
    """Copy an array to an offset in memory of the host, which with `pins` is pinned if that pays.

    Memory whose pages others take out of its file must not be: the device would go on writing to the pages that it had.

    Raises:
        cudart.CudaError: the device reports an error.
    """
    runtime = cudart.load()
    if pins:
        PINS.copies(base, array.nbytes, runtime)
    runtime.to_host(base.ctypes.data + at, array.address, array.nbytes, array.memory.device)


def pays(size: int, copied: int) -> bool:
    """Whether to pin memory of so many bytes, into which so many were copied. Pure."""
    return copied >= PAYS * size


class Pins:
    """The memory of the host that this process copies to and from a device, again and again: pinned once that pays, until it is released."""

    def __init__(self) -> None:
        self._copied: dict[int, int] = {}
        self._lock = threading.Lock()

    def copies(self, base: "np.ndarray[Any, Any]", size: int, runtime: cudart.Runtime) -> None:
        """So many bytes are about to be copied to or from memory that lives as long as `base`. Memory that cannot be pinned is used as it is."""
        address = base.ctypes.data
        with self._lock:
            before = self._copied.get(address)
            if before is None:
                self._copied[address] = size
                weakref.finalize(base, self._release, address, runtime).atexit = False
                return
            if before < 0:
                return
            self._copied[address] = before + size
            if not pays(base.nbytes, before + size):
                return
            self._copied[address] = -1
        try:
            runtime.register(address, base.nbytes)
        except cudart.CudaError:
            with self._lock:
                self._copied[address] = -2

    def _release(self, address: int, runtime: cudart.Runtime) -> None:
        with self._lock:
            pinned = self._copied.pop(address, 0) == -1
        if pinned:
            try:
                runtime.unregister(address)
            except cudart.CudaError:
                return  # the device is lost, and with it what it had pinned


PINS = Pins()
"""Those of this process."""
