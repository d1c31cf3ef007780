"""Infer requests of the usual form, decoded by msgspec straight into typed structs: half the cost of looking at each member in Python. Pure.

Takes only what it reads exactly as `infer_json` does: short JSON in plain ASCII without escapes, the usual members with the usual types, tensors that
are whole, all of them as JSON or all as bytes behind it. Everything else, and everything that is wrong, is left to the reader there, which knows Triton's
rules and says what is wrong. A test holds the two to each other.

The JSON in front of binary tensors says the same in many requests, so what was read of it last is remembered (bounded), unless it has an id.
"""

import array
import functools
import typing

import msgspec
import numpy as np

from naiad.core import datatypes
from naiad.core.datatypes import BYTES
from naiad.core.record import Record
from naiad.core.request import InferRequest, RequestedOutput, RequestSettings
from naiad.core.tensor import Tensor, object_array
from naiad.errors import InferenceError
from naiad.protocol import raw_tensors
from naiad.protocol.http.codec import infer_json, request_parameters
from naiad.protocol.http.codec.infer_json import (
    ALL_BINARY,
    ALL_JSON,
    MAX_INT64,
    Decoded,
    ReplyForm,
    Target,
)
from naiad.protocol.http.codec.json_values import TYPECODES
from naiad.protocol.raw_tensors import InputSpec

LONGEST = 8_192
"""Bytes of JSON; longer ones are mostly numbers, which orjson parses faster."""

SMALLEST_LIMIT = 8 * LONGEST
"""No tensor in so short a JSON is larger: the least limit of the input size with which none has to be measured."""

_UNSET = msgspec.UNSET


class _BytesBehind(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    binary_data_size: int


class _Input(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str
    datatype: str
    shape: list[int]
    data: list[int | float | str | list[typing.Any]] | msgspec.UnsetType = _UNSET
    parameters: _BytesBehind | msgspec.UnsetType = _UNSET


class _Form(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    binary_data: bool


class _Output(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str
    parameters: _Form | msgspec.UnsetType = _UNSET


class _Request(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    inputs: list[_Input]
    id: str = ""
    parameters: dict[str, int | float | str | bool] | msgspec.UnsetType = _UNSET
    outputs: list[_Output] | msgspec.UnsetType = _UNSET


_decode = msgspec.json.Decoder(_Request).decode


def decode(body: bytes, header_length: int, target: Target) -> Decoded:
    """Read any request. Arguments and errors are those of `infer_json.decode`."""
    if header_length <= LONGEST and target.max_input_size >= SMALLEST_LIMIT:
        decoded = read(body, header_length, target)
        if decoded is not None:
            return decoded
    return infer_json.decode(body, header_length, target)


def read(body: bytes, header_length: int, target: Target) -> Decoded | None:
    """Read a request whose JSON is short; None if it has to be looked at closely. Arguments are those of `infer_json.decode`."""
    model, version = target.model, target.version
    inputs: list[Tensor] = []
    if header_length == len(body):
        root = _parsed(body)
        if root is None:
            return None
        for entry in root.inputs:
            tensor = _tensor(entry)
            if tensor is None:
                return None
            inputs.append(tensor)
        if root.parameters is _UNSET and root.outputs is _UNSET:
            return Decoded(InferRequest(model, version, root.id, inputs, [], {}), ALL_JSON)
        envelope = _envelope(root)
    else:
        document = body[:header_length]
        # An id makes JSON that does not come again: it would only push others out of the memory.
        layout = _read_layout(document) if b'"id"' in document else _layout(document)
        if layout is None or layout.size != len(body) - header_length:
            return None
        at, envelope = header_length, layout.envelope
        for spec, size in layout.places:
            inputs.append(raw_tensors.read(body, at, size, spec, model=model))
            at += size
    if envelope is None:
        return None
    request = envelope.settings.request(model, version, envelope.id, inputs, envelope.outputs)
    return Decoded(request, envelope.form)


class _Envelope(Record, frozen=True):
    """What a request says beside its inputs. Read only: requests share it."""

    id: str
    settings: RequestSettings
    outputs: list[RequestedOutput]
    form: ReplyForm


class _Layout(Record, frozen=True):
    """What JSON says of the tensors behind it: each one and its bytes, and the bytes of all."""

    places: list[tuple[InputSpec, int]]
    size: int
    envelope: _Envelope


def _read_layout(document: bytes) -> _Layout | None:
    root = _parsed(document)
    envelope = None if root is None else _envelope(root)
    if root is None or envelope is None:
        return None
    places: list[tuple[InputSpec, int]] = []
    total = 0
    for entry in root.inputs:
        datatype, count, behind = (
            datatypes.BY_NAME.get(entry.datatype),
            _count(entry),
            entry.parameters,
        )
        if datatype is None or not count or entry.data is not _UNSET or behind is _UNSET:
            return None
        size = behind.binary_data_size
        if size < 0:
            return None
        places.append((InputSpec(entry.name, datatype, tuple(entry.shape), count), size))
        total += size
    return _Layout(places, total, envelope)


_layout = functools.lru_cache(maxsize=128)(_read_layout)


def _parsed(document: bytes) -> _Request | None:
    # Nested data is common: a search costs a hundredth of a parse without success.
    if b"[[" in document or b"\\" in document or not document.isascii():
        return None
    try:
        return _decode(document)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _count(entry: _Input) -> int:
    """How many elements a shape holds; 0 also for one that has to be looked at closely."""
    count = 1
    for dim in entry.shape:
        if dim < 0:
            return 0
        count *= dim
    return count if count <= MAX_INT64 and len(entry.shape) <= raw_tensors.MAX_RANK else 0


def _tensor(entry: _Input) -> Tensor | None:
    """A tensor whose elements are JSON; None if one of them is not of its datatype."""
    datatype, data, count = datatypes.BY_NAME.get(entry.datatype), entry.data, _count(entry)
    if datatype is None or data is _UNSET or entry.parameters is not _UNSET:
        return None
    if not count or count != len(data):
        return None
    shape, typecode = tuple(entry.shape), TYPECODES.get(datatype.name)
    try:
        if typecode is not None:
            values = array.array(typecode, typing.cast("list[float]", data))
            return Tensor(entry.name, datatype, shape, np.ndarray(shape, datatype.dtype, values))
        if datatype is BYTES:
            elements = object_array([*map(str.encode, typing.cast("list[str]", data))])
            return Tensor(entry.name, datatype, shape, elements.reshape(shape))
    except (TypeError, OverflowError):
        pass
    return None


def _envelope(root: _Request) -> _Envelope | None:
    """None if a parameter is wrong."""
    try:
        settings = request_parameters.read({} if root.parameters is _UNSET else root.parameters)
    except InferenceError:
        return None
    outputs: list[RequestedOutput] = []
    form = ALL_BINARY if settings.binary_data_output else ALL_JSON
    if root.outputs is not _UNSET:
        form = ReplyForm(form.binary, {})
        for output in root.outputs:
            outputs.append(RequestedOutput(output.name))
            chosen = output.parameters
            form.listed[output.name] = chosen is not _UNSET and chosen.binary_data
    return _Envelope(root.id, settings, outputs, form)
