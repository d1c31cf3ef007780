"""Inputs that lie on a GPU: which ones, and their shapes without a copy to the host."""

from naiad.backends.instance import InputTensor
from naiad.tensors import dlpack
from naiad.tensors.device_array import DeviceArray


def is_on_device(tensor: InputTensor) -> bool:
    """Whether an input is on a GPU: that of the instance, for others get it in the host's memory."""
    return tensor.memory.kind == "cuda"


def shape_of(tensor: InputTensor) -> tuple[int, ...]:
    """The shape of an input."""
    if is_on_device(tensor):
        taken = dlpack.take_any(tensor)
        assert isinstance(taken, DeviceArray)
        return taken.shape
    shape: tuple[int, ...] = tensor.array.shape
    return shape
