"""Tensors that a call of another model gave in the host's memory, on the GPU where the caller prefers them (row 15.23).

Limits: those of `backends/instance.py`: standard library and numpy, Python 3.8.
"""

import weakref
from typing import Any

from naiad.backends.python.api.datatypes import BYTES, WIRE_NAMES
from naiad.backends.python.api.errors import TritonError, TritonErrorCode
from naiad.backends.python.api.response import InferenceResponse, contents_of
from naiad.backends.python.api.tensor import Tensor, parts_of, wrap
from naiad.tensors import cudart
from naiad.tensors.device_array import DeviceArray
from naiad.tensors.memory import Memory


def upload(response: InferenceResponse, device: int) -> InferenceResponse:
    """The same response with its tensors on a device of this process, each in memory of its own; BYTES stay where they are.

    A response whose tensors do not fit there has the device's error.
    """
    tensors, error, parameters = contents_of(response)
    try:
        placed = [_on(device, tensor) for tensor in tensors]
    except cudart.CudaError as failure:
        why = f"an output could not be copied to the memory of GPU {device}: {failure}"
        return InferenceResponse(error=TritonError(why, TritonErrorCode.INTERNAL))
    return InferenceResponse(placed, error, parameters)


class _Owner:
    __slots__ = ("__weakref__",)


def _on(device: int, tensor: Tensor) -> Tensor:
    name, array, code = parts_of(tensor)
    if code == BYTES or not tensor.is_cpu():
        return tensor
    runtime, owner = cudart.load(), _Owner()
    address = 0
    if array.nbytes:
        address = runtime.allocate(array.nbytes, device)
        weakref.finalize(owner, _free, runtime, address, device).atexit = False
        runtime.to_device(address, array.ctypes.data, array.nbytes, device)
    on_device = DeviceArray(
        address,
        array.shape,
        WIRE_NAMES[code],
        itemsize=array.itemsize,
        memory=Memory("cuda", device),
        owner=owner,
    )
    return wrap(name, on_device, code)


def _free(runtime: Any, address: int, device: int) -> None:
    try:
        runtime.free(address, device)
    except cudart.CudaError:
        return  # the device is lost, and its memory with it
