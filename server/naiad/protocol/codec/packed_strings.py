"""Whether packed strings fill their shapes: a second for 64 MB, so it is found out in a codec process."""

import math

from naiad.core.request import InferRequest
from naiad.core.tensor import PackedStrings
from naiad.protocol import raw_tensors
from naiad.protocol.codec import frames
from naiad.protocol.codec.pool import Codec


def check(codec: Codec | None, request: InferRequest) -> InferRequest:
    """Look at every packed input of a request; those that do not fill their shapes become faults. Blocking.

    A process of `codec` looks at them; None does it in this one, which is a codec process.
    """
    for at, tensor in enumerate(request.inputs):
        if type(tensor) is not PackedStrings:
            continue
        name, packed, count = tensor.name, tensor.packed.data, math.prod(tensor.shape)
        fault: str
        if codec is None:
            fault = raw_tensors.fault_in(packed, count, request.model_name, name)
        else:
            fault = codec.call(
                raw_tensors.fault_in, frames.large(packed), count, request.model_name, name
            )
        if fault:
            request.inputs[at] = raw_tensors.faulty(name, tensor.datatype, tensor.shape, fault)
    return request
