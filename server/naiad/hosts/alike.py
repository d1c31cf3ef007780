"""Batches of small requests that all look alike, which is what most clients send: packed with one look at each, and their outcome read as one array.

`packing` and `unpacking` do the same for every batch; what is returned here is what they would return.
"""

import collections.abc
from typing import Any

import numpy as np

from naiad.core import datatypes
from naiad.core.inference import Inference
from naiad.core.response import NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.hosts.link import codec
from naiad.hosts.link.layouts import Alike
from naiad.hosts.link.payload import Payload
from naiad.tensors.shared_slots import SHARED_FROM


def pack_alike(
    batch: collections.abc.Sequence[Inference],
    rest: collections.abc.Callable[[collections.abc.Sequence[Inference]], bytes],
    *,
    places: bool,
) -> tuple[bytes, Payload] | None:
    """The header and the tensors of a batch whose requests have one tensor of the same name, datatype and shape each; None for others.

    Args:
        batch: not empty.
        rest: writes what differs from request to request, if it is not the default in all of them.
        places: whether the worker writes outputs to clients' shared memory.
    """
    first = batch[0]
    wanted = first.request.requested_outputs
    inputs = first.request.inputs
    if len(inputs) != 1 or (places and any(each.place for each in wanted)):
        return None
    like = inputs[0]
    # The values of others are not looked at: reading an `array` may copy them.
    if type(like) is not Tensor or like.array.nbytes >= SHARED_FROM:
        return None
    name, datatype, shape, rows = like.name, like.datatype, like.shape, first.batch_size
    if datatype is datatypes.BYTES:
        return None
    arrays: list[Any] = []
    plain = True
    for inference in batch:
        request = inference.request
        inputs = request.inputs
        if len(inputs) != 1 or request.on_device is not None:
            return None
        tensor = inputs[0]
        if (
            type(tensor) is not Tensor
            or tensor.shape != shape
            or tensor.name != name
            or tensor.datatype is not datatype
            or inference.batch_size != rows
            or (request.requested_outputs is not wanted and request.requested_outputs != wanted)
        ):
            return None
        arrays.append(tensor.array)
        if plain and (
            request.id
            or request.parameters
            or request.correlation_id
            or request.flags
            or request.timeout_us
            or inference.cancelled
            or (inference.traced is not None and inference.traced.context)
        ):
            plain = False
    return codec.write_alike(
        (rows, tuple(first.request.output_names)),
        (name, datatype.name, shape),
        arrays,
        b"" if plain else rest(batch),
    )


def responses_alike(
    base: Any, alike: Alike, batch: collections.abc.Sequence[Inference], version: int
) -> list[InferResponse | None]:
    """The responses of an outcome without errors and parameters, one for each request.

    Raises:
        ValueError: the tensors are not there.
    """
    columns: list[list[Tensor]] = []
    for (name, datatype, given, shown, _), shape, at, strides in alike.columns:
        arrays: np.ndarray[Any, Any] = np.ndarray(shape, datatype.dtype, base, at, strides)
        if shown is not given:
            arrays = arrays.reshape((shape[0], *shown))
        columns.append([Tensor(name, datatype, shown, array) for array in arrays])
    responses: list[InferResponse | None] = []
    if len(columns) == 1:  # as of most models
        for inference, tensor in zip(batch, columns[0], strict=True):
            request = inference.request
            responses.append(
                InferResponse(request.model_name, version, request.id, [tensor], NO_PARAMETERS)
            )
        return responses
    for inference, *outputs in zip(batch, *columns, strict=True):
        request = inference.request
        responses.append(
            InferResponse(request.model_name, version, request.id, outputs, NO_PARAMETERS)
        )
    return responses
