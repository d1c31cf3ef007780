"""Small infer requests of the usual form, decoded by msgspec straight into typed structs: half the cost of looking at each member in Python. Pure.

Takes only what it reads exactly as `infer_json` does: plain ASCII without escapes, the usual members with the usual types, tensors that are whole.
Everything else, and everything that is wrong, is left to the reader there, which knows Triton's rules and says what is wrong. A test holds the two to
each other.
"""

import array
import typing

import msgspec
import numpy as np

from naiad.core import datatypes
from naiad.core.datatypes import BYTES
from naiad.core.request import InferRequest
from naiad.core.tensor import Tensor
from naiad.errors import InferenceError
from naiad.protocol.http.codec import request_parameters
from naiad.protocol.http.codec.json_values import TYPECODES
from naiad.protocol.raw_tensors import MAX_RANK

LONGEST = 8_192
"""Bytes; longer ones are mostly numbers, which orjson parses faster."""

SMALLEST_LIMIT = 8 * LONGEST
"""No tensor in so short a request is larger: the least limit of the input size with which none has to be measured."""

_Other = msgspec.Raw | msgspec.UnsetType
_UNSET = msgspec.UNSET


class _Input(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str
    datatype: str
    shape: list[int]
    data: list[int | float | str | list[typing.Any]]
    parameters: _Other = _UNSET


class _Request(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    inputs: list[_Input]
    id: str = ""
    parameters: dict[str, int | float | str | bool] | msgspec.UnsetType = _UNSET
    outputs: _Other = _UNSET


_decode = msgspec.json.Decoder(_Request).decode


def read(document: bytes, *, model: str, version: int) -> tuple[InferRequest, bool] | None:
    """Read a request that is JSON alone, of at most `LONGEST` bytes.

    Args:
        document: the whole body.
        model: the model's name, from the path.
        version: the version, from the path, or LATEST.

    Returns:
        The request, and whether its outputs go back as binary data; None when it has to be looked at closely.
    """
    root = _parsed(document)
    if root is None or root.outputs is not _UNSET:
        return None
    inputs: list[Tensor] = []
    for each in root.inputs:
        tensor = _tensor(each)
        if tensor is None:
            return None
        inputs.append(tensor)
    request = InferRequest(model, version, root.id, inputs, [], {})
    if root.parameters is _UNSET:
        return request, False
    try:
        settings = request_parameters.read(root.parameters)
    except InferenceError:
        return None
    return settings.apply(request), settings.binary_data_output


def _parsed(document: bytes) -> _Request | None:
    # Nested data and listed outputs are common: a search costs a hundredth of a parse without success.
    if b"[[" in document or b'"outputs"' in document or b"\\" in document:
        return None
    if not document.isascii():
        return None
    try:
        return _decode(document)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _tensor(each: _Input) -> Tensor | None:
    if each.parameters is not _UNSET:
        return None
    datatype, data, dims = datatypes.BY_NAME.get(each.datatype), each.data, each.shape
    count = 1
    for dim in dims:
        if dim < 0:
            return None
        count *= dim
    if datatype is None or not count or count != len(data) or len(dims) > MAX_RANK:
        return None
    shape = tuple(dims)
    typecode = TYPECODES.get(datatype.name)
    try:
        if typecode is not None:
            values = array.array(typecode, typing.cast("list[float]", data))
            return Tensor(each.name, datatype, shape, np.ndarray(shape, datatype.dtype, values))
        if datatype is BYTES:
            elements: np.ndarray[typing.Any, np.dtype[typing.Any]] = np.empty(count, dtype=object)
            elements[:] = [*map(str.encode, typing.cast("list[str]", data))]
            return Tensor(each.name, datatype, shape, elements.reshape(shape))
    except (TypeError, OverflowError):
        pass
    return None
