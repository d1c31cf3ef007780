"""Whether packed strings fill their shapes: a second for 64 MB, so it is found out in a codec process."""

import collections.abc
import functools
import math

from naiad.core.request import InferRequest
from naiad.core.tensor import PackedStrings
from naiad.protocol import raw_tensors
from naiad.protocol.codec import frames
from naiad.protocol.codec.pool import Codec


def check(codec: Codec, request: InferRequest) -> InferRequest:
    """Look at every packed input of a request in a codec process; blocking. Those that do not fill their shapes become faults."""
    return _checked(request, functools.partial(_fault_in_process, codec))


def check_here(request: InferRequest) -> InferRequest:
    """The same in this process, which is a codec process."""
    return _checked(request, _fault)


def _checked(
    request: InferRequest, fault_of: collections.abc.Callable[[str, PackedStrings], str]
) -> InferRequest:
    for at, tensor in enumerate(request.inputs):
        if type(tensor) is PackedStrings and (fault := fault_of(request.model_name, tensor)):
            name, datatype, shape = tensor.name, tensor.datatype, tensor.shape
            request.inputs[at] = raw_tensors.faulty(name, datatype, shape, fault)
    return request


def _fault_in_process(codec: Codec, model: str, tensor: PackedStrings) -> str:
    packed, count = frames.large(tensor.packed.data), math.prod(tensor.shape)
    fault: str = codec.call(raw_tensors.fault_in, packed, count, model, tensor.name)
    return fault


def _fault(model: str, tensor: PackedStrings) -> str:
    count = math.prod(tensor.shape)
    return raw_tensors.fault_of(tensor.packed, count, model=model, name=tensor.name)
