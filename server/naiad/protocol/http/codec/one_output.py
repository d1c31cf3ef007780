"""Responses with one output of a few numbers, as most models give them: written around what stays the same, which is remembered (bounded). Pure.

`reply_json` writes every response; this takes those that it would write in the same way each time but for the id and the values, in half as many steps. A
test holds the two to each other.
"""

import functools
import math

import orjson

from naiad.core.datatypes import ALL, BF16, BYTES, FP16, DataType
from naiad.core.response import InferResponse
from naiad.core.tensor import PlacedTensor, Tensor
from naiad.protocol import raw_tensors
from naiad.protocol.http.codec.reply_json import ReplyForm, binary_headers
from naiad.protocol.http.message import HttpReply
from naiad.protocol.http.replies import JSON_HEADERS

LONGEST = 4_096
"""Bytes of the longest array that is copied behind its JSON."""

_MOST_VALUES = 48
"""Values that are written as JSON from a list; more are written faster from the array."""

_NUMBERS = frozenset(ALL) - {BYTES, FP16, BF16}
"""The datatypes whose values JSON has, as numbers."""


def encode(response: InferResponse, form: ReplyForm) -> HttpReply | None:  # noqa: PLR0911 - a call more takes longer
    """Write a successful response; None if it is not of the usual form."""
    outputs = response.outputs
    if len(outputs) != 1 or response.parameters:
        return None
    tensor, request_id = outputs[0], response.id
    model, version, name = response.model_name, response.model_version, tensor.name
    if type(tensor) is not Tensor:
        if type(tensor) is not PlacedTensor or form.listed.get(name, form.binary):
            return None
        said = _placed(model, version, name, tensor.datatype, tensor.shape)
        text = b'{"id":%b,%b' % (orjson.dumps(request_id), said) if request_id else b"{" + said
        return HttpReply(200, JSON_HEADERS, (text,), request_id)
    array = tensor.array
    if form.listed.get(name, form.binary):
        size = array.nbytes
        rest = _binary(model, version, name, tensor.datatype, tensor.shape, size)
        if rest is None:
            return None
        text = b'{"id":%b,%b' % (orjson.dumps(request_id), rest) if request_id else b"{" + rest
        headers = binary_headers(len(text))
        if size > LONGEST:
            return HttpReply(200, headers, (text, raw_tensors.write(tensor)), request_id)
        return HttpReply(200, headers, (text + array.tobytes(),), request_id)
    if tensor.datatype not in _NUMBERS or not 0 < array.size <= _MOST_VALUES:
        return None
    values = array.ravel().tolist()
    # A NaN or an infinity spoils the sum; a sum that overflows only goes the long way.
    if not math.isfinite(sum(values)):
        return None
    rest = _json(model, version, name, tensor.datatype, tensor.shape)
    start = b'{"id":%b,' % orjson.dumps(request_id) if request_id else b"{"
    body = b"%b%b%b}]}" % (start, rest, orjson.dumps(values))
    return HttpReply(200, JSON_HEADERS, (body,), request_id)


@functools.lru_cache(maxsize=256)
def _binary(  # noqa: PLR0917 - keyword arguments take longer
    model: str,
    version: int,
    name: str,
    datatype: DataType,
    shape: tuple[int, ...],
    size: int,
) -> bytes | None:
    """The JSON of a response behind its id; None if this module does not write it."""
    if datatype is BYTES or not size:
        return None
    parameters = orjson.dumps({"binary_data_size": size})
    return b'%b,"parameters":%b}]}' % (_start(model, version, name, datatype, shape), parameters)


@functools.lru_cache(maxsize=256)
def _json(model: str, version: int, name: str, datatype: DataType, shape: tuple[int, ...]) -> bytes:
    """The JSON of a response between its id and its values."""
    return b'%b,"data":' % _start(model, version, name, datatype, shape)


@functools.lru_cache(maxsize=256)
def _placed(
    model: str, version: int, name: str, datatype: DataType, shape: tuple[int, ...]
) -> bytes:
    """The JSON of a response behind its id, whose output is in a client's shared memory."""
    return b"%b}]}" % _start(model, version, name, datatype, shape)


def _start(
    model: str, version: int, name: str, datatype: DataType, shape: tuple[int, ...]
) -> bytes:
    output = {"name": name, "datatype": datatype.name, "shape": shape}
    document = {"model_name": model, "model_version": str(version), "outputs": [output]}
    return orjson.dumps(document)[1:].removesuffix(b"}]}")
