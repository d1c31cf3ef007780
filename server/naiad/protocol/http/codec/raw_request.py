"""Raw mode: the whole body is the one input of a model, without any JSON (rows 3.4, 3.5). Pure.

Which input, datatype and shape that is comes from the model; the outputs go back as binary data.
"""

import numpy as np

from naiad.core.datatypes import BYTES
from naiad.core.request import InferRequest
from naiad.core.tensor import Tensor
from naiad.engine.api import ModelTraits, TensorMetadata
from naiad.errors import InferenceError, invalid
from naiad.protocol import raw_tensors
from naiad.protocol.http.codec.infer_json import Decoded, Target
from naiad.protocol.http.codec.reply_json import ALL_BINARY
from naiad.protocol.raw_tensors import InputSpec


def decode(body: bytes, traits: ModelTraits, target: Target) -> Decoded:
    """Read a decompressed body as the one input of a model.

    Raises:
        InferenceError: INVALID_ARG when the input cannot be derived from the model, or the body is too long.
    """
    model, max_input_size = target.model, target.max_input_size
    if len(body) > max_input_size:
        raise invalid(
            f"Raw input has a byte_size ({len(body)} bytes) that exceeds the maximum allowed value of {max_input_size} bytes. "
            "Use --http-max-input-size to increase the limit."
        )
    request = InferRequest(model, target.version, "", [], [], {})
    if len(traits.inputs) != 1:
        raise _refusal(
            request,
            f"Raw request must only have 1 input (found 1) to be deduced but got {len(traits.inputs)} inputs in '{model}' model "
            "configuration: send the inputs as JSON, or with Inference-Header-Content-Length above 0",
        )
    request.inputs.append(_tensor(body, traits, request, model))
    return Decoded(request, ALL_BINARY)


def _tensor(body: bytes, traits: ModelTraits, request: InferRequest, model: str) -> Tensor:
    only = traits.inputs[0]
    if only.shape.count(-1) > 1:
        raise _refusal(
            request,
            f"The shape of the raw input '{only.name}' can not be deduced because there are more than one variable-sized "
            "dimension: send a request with a shape",
        )
    batch = (1,) if traits.max_batch_size else ()
    if only.datatype is BYTES:
        return _string(body, only, batch, request)
    fixed = 1
    for dim in only.shape:
        fixed *= 1 if dim == -1 else dim
    rest = len(body) // (fixed * only.datatype.size or 1)
    dims = batch + tuple(rest if dim == -1 else dim for dim in only.shape)
    count = fixed * rest if -1 in only.shape else fixed
    spec = InputSpec(only.name, only.datatype, dims, count)
    return raw_tensors.read(body, 0, len(body), spec, model=model)


def _string(
    body: bytes, only: TensorMetadata, batch: tuple[int, ...], request: InferRequest
) -> Tensor:
    if any(dim != 1 for dim in only.shape):
        raise _refusal(
            request,
            f"For BYTE datatype raw input '{only.name}', the model must have input shape [1], it has {list(only.shape)}: send "
            "the strings as JSON or as binary data behind it",
        )
    array = np.empty(batch + only.shape, dtype=object)
    array[...] = body
    return Tensor(only.name, BYTES, batch + only.shape, array)


def _refusal(request: InferRequest, message: str) -> InferenceError:
    return invalid(request.label + message)
