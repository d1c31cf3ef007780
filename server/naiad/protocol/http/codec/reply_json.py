"""Infer responses from core types to the wire: JSON, with or without binary tensors behind it. Pure."""

import functools
import typing

import orjson

from naiad.core.record import Record
from naiad.core.request import ParameterValue
from naiad.core.response import InferResponse
from naiad.core.tensor import KeptTensor, PlacedTensor, Tensor
from naiad.protocol import raw_tensors
from naiad.protocol.http.codec import json_values
from naiad.protocol.http.message import HttpReply
from naiad.protocol.http.replies import BINARY_TYPE, JSON_HEADERS

Json = typing.Any
Members = dict[str, Json]

HEADER_LENGTH = b"Inference-Header-Content-Length"


class ReplyForm(Record, frozen=True):
    """How a client wants its outputs (row 3.30).

    Attributes:
        binary: whether outputs that the request does not list are binary.
        listed: by the name of each listed output, whether it is binary.
    """

    binary: bool
    listed: dict[str, bool]


NO_OUTPUTS_LISTED: dict[str, bool] = {}
"""Shared by all requests without a list; never changed."""

ALL_JSON = ReplyForm(binary=False, listed=NO_OUTPUTS_LISTED)
ALL_BINARY = ReplyForm(binary=True, listed=NO_OUTPUTS_LISTED)


def encode(response: InferResponse, form: ReplyForm) -> HttpReply:
    """Write a successful response (rows 3.22, 3.30-3.37).

    Members stand in Triton's order: id (when there is one), model_name, model_version, parameters (when there are some),
    outputs; an output has name, datatype, shape, and data or parameters.binary_data_size.

    Raises:
        InferenceError: an output that cannot be sent as JSON (row 3.16).
    """
    document: dict[str, Json] = {"id": response.id} if response.id else {}
    document["model_name"] = response.model_name
    document["model_version"] = str(response.model_version)
    if response.parameters:
        document["parameters"] = printable(response.parameters)
    outputs: list[Members] = []
    parts: list[bytes | memoryview] = []
    listed, default = form.listed, form.binary
    for tensor in response.outputs:
        name, datatype = tensor.name, tensor.datatype
        if listed.get(name, default):
            part = raw_tensors.write(tensor)
            size = {"binary_data_size": len(part)}
            outputs.append(
                {"name": name, "datatype": datatype.name, "shape": tensor.shape, "parameters": size}
            )
            if part:
                parts.append(part)
        elif type(tensor) is not Tensor:
            outputs.append(_special(tensor))
        else:
            data = json_values.write(tensor.array.ravel(), datatype, name=name)
            outputs.append(
                {"name": name, "datatype": datatype.name, "shape": tensor.shape, "data": data}
            )
    document["outputs"] = outputs
    text = orjson.dumps(document, None, orjson.OPT_SERIALIZE_NUMPY)
    if not parts:
        return HttpReply(200, JSON_HEADERS, (text,), response.id)
    return HttpReply(200, binary_headers(len(text)), (text, *parts), response.id)


def _special(tensor: Tensor) -> Members:
    """An output that is not a plain tensor: in a client's shared memory, sent again and again, or packed."""
    name, datatype = tensor.name, tensor.datatype
    if type(tensor) is PlacedTensor:
        return {"name": name, "datatype": datatype.name, "shape": tensor.shape}
    data = (
        _kept(tensor)
        if type(tensor) is KeptTensor
        else json_values.write(tensor.array.ravel(), datatype, name=name)
    )
    return {"name": name, "datatype": datatype.name, "shape": tensor.shape, "data": data}


def _kept(tensor: KeptTensor) -> Json:
    """The values of a tensor that is sent again and again, written once: numbers take a tenth of a microsecond each."""
    texts = tensor.texts
    written = None if texts is None else texts.by_name.get(tensor.name)
    if written is None:
        values = json_values.write(tensor.array.ravel(), tensor.datatype, name=tensor.name)
        text = orjson.dumps(values, None, orjson.OPT_SERIALIZE_NUMPY)
        written = orjson.Fragment(text)
        if texts is not None:
            texts.keep(tensor.name, written, len(text))
    return written


@functools.lru_cache(maxsize=256)
def binary_headers(length: int) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of a response of so many bytes of JSON and tensors behind it: the same object each time, which the transport recognizes."""
    return BINARY_TYPE, (HEADER_LENGTH, b"%d" % length)


def printable(parameters: dict[str, ParameterValue]) -> Members:
    """Parameters as orjson can write them: it has no NaN and no infinity."""
    for value in parameters.values():
        if isinstance(value, float):
            return {key: json_values.scalar(value) for key, value in parameters.items()}
    return dict[str, Json](parameters)
