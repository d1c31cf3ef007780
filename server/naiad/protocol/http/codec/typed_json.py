"""Infer requests of the usual form, decoded by msgspec straight into typed structs: half the cost of looking at each member in Python. Pure.

Takes only what it reads exactly as `infer_json` does: short JSON in plain ASCII without escapes, the usual members with the usual types, tensors that
are whole, all of them as JSON or all as bytes behind it. Everything else, and everything that is wrong, is left to the reader there, which knows Triton's
rules and says what is wrong. A test holds the two to each other.

The JSON in front of binary tensors says the same in many requests, so what was read of it last is remembered (bounded), unless it has an id. So are
lists of binary inputs and of outputs, in any request, and requests whose inputs are in clients' shared memory.
"""

import array
import collections.abc
import functools
import math
import typing

import msgspec
import numpy as np

from naiad.core.datatypes import BY_NAME, BYTES, DataType
from naiad.core.record import Record
from naiad.core.request import InferRequest, Parameters, RequestedOutput
from naiad.core.tensor import RegionTensor, Tensor, object_array
from naiad.errors import InferenceError
from naiad.protocol import raw_tensors
from naiad.protocol.header_pattern import RESERVED_PREFIX
from naiad.protocol.http.codec import infer_json, request_parameters
from naiad.protocol.http.codec.infer_json import MAX_INT64, Decoded, Target
from naiad.protocol.http.codec.json_values import TYPECODES
from naiad.protocol.http.codec.reply_json import ALL_JSON, ReplyForm
from naiad.protocol.raw_tensors import InputSpec

LONGEST = 8_192
"""Bytes of JSON; longer ones are mostly numbers, which orjson parses faster."""

SMALLEST_LIMIT = 8 * LONGEST
"""No tensor in so short a JSON is larger: the least limit of the input size with which none has to be measured."""

_IN_A_REGION = b'"shared_memory_region"'

_FOR_THE_SERVER = request_parameters.KNOWN

_UNSET = msgspec.UNSET
_ALL_OUTPUTS = msgspec.Raw()
"""In place of a list of outputs."""


class _BytesBehind(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    binary_data_size: int


class _Input(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str
    datatype: str
    shape: tuple[int, ...]
    data: list[int | float | str | list[typing.Any]] | msgspec.UnsetType = _UNSET
    parameters: _BytesBehind | msgspec.UnsetType = _UNSET


class _Form(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    binary_data: bool = False
    classification: int = 0


class _Output(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str
    parameters: _Form | msgspec.UnsetType = _UNSET


_Integer = typing.Annotated[int, msgspec.Meta(ge=-MAX_INT64 - 1, le=MAX_INT64)]


class _Envelope(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """What a request says beside its inputs. The outputs stay JSON."""

    id: str = ""
    parameters: dict[str, _Integer | float | str | bool] = {}
    outputs: msgspec.Raw = _ALL_OUTPUTS


class _Request(_Envelope, kw_only=True):
    inputs: list[_Input]


class _Head(_Envelope, kw_only=True):
    """In front of binary tensors: the inputs stay JSON as well."""

    inputs: msgspec.Raw


_E = typing.TypeVar("_E", bound=_Envelope)

_decode_request = msgspec.json.Decoder(_Request).decode
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_inputs = msgspec.json.Decoder(list[_Input]).decode
_decode_outputs = msgspec.json.Decoder(list[_Output]).decode
_INVALID = msgspec.MsgspecError, RecursionError, ValueError


def decode(body: bytes | memoryview, header_length: int, target: Target) -> Decoded:
    """Read any request. Arguments and errors are those of `infer_json.decode`."""
    if header_length <= LONGEST and target.max_input_size >= SMALLEST_LIMIT:
        decoded = read(body, header_length, target)
        if decoded is not None:
            return decoded
    return infer_json.decode(body, header_length, target)


def _in_regions(document: bytes, target: Target) -> Decoded | None:
    """Read a request whose inputs are all in clients' shared memory: such JSON says nothing else, so that the same comes again and again. None for another one.

    Asked last: the search alone takes a tenth as long as reading a small request.
    """
    if _IN_A_REGION not in document or b'"id"' in document:
        return None
    known = _known_in_regions(document, target)
    if known is None:
        return None
    request = known.request
    own = msgspec.structs.replace(
        request,
        inputs=request.inputs.copy(),
        requested_outputs=request.requested_outputs.copy(),
        parameters=request.parameters.copy(),
    )
    return Decoded(own, known.form)


@functools.lru_cache(maxsize=128)
def _known_in_regions(document: bytes, target: Target) -> Decoded | None:
    decoded = infer_json.decode(document, len(document), target)
    return decoded if all(type(each) is RegionTensor for each in decoded.request.inputs) else None


def read(body: bytes | memoryview, header_length: int, target: Target) -> Decoded | None:
    """Read a request whose JSON is short; None if it has to be looked at closely. Arguments are those of `infer_json.decode`."""
    inputs: list[Tensor] = []
    if header_length == len(body):
        document = body if type(body) is bytes else bytes(body)
        root = _parsed(_decode_request, document)
        if root is None:
            return _in_regions(document, target)
        for entry in root.inputs:
            tensor = _tensor(entry)
            if tensor is None:
                return None
            inputs.append(tensor)
        return _decoded(root, root.parameters, inputs, target)
    document = bytes(body[:header_length])
    # An id makes JSON that does not come again: it would only push others out of the memory.
    known = _read_head(document) if b'"id"' in document else _known_head(document)
    if known is None:
        return None
    head, layout = known
    if layout.size != len(body) - header_length:
        return None
    for name, datatype, shape, dtype, at in layout.numbers:
        values = np.ndarray(shape, dtype, body, header_length + at)
        inputs.append(Tensor(name, datatype, shape, values))
    if not inputs:
        at, model = header_length, target.model
        for spec, size in layout.places:
            inputs.append(raw_tensors.read(body, at, size, spec, model=model))
            at += size
    return _decoded(head, head.parameters.copy(), inputs, target)


def _parsed(decode: collections.abc.Callable[[bytes], _E], document: bytes) -> _E | None:
    # Nested data is common: a search costs a hundredth of a parse without success.
    if b"[[" in document or b"\\" in document or not document.isascii():
        return None
    try:
        return decode(document)
    except _INVALID:
        return None


def _decoded(
    root: _Envelope, parameters: Parameters, inputs: list[Tensor], target: Target
) -> Decoded | None:
    """A request with these inputs, and parameters of its own; None if a parameter or an output has to be looked at closely."""
    outputs: list[RequestedOutput] = []
    form = ALL_JSON
    if root.outputs is not _ALL_OUTPUTS:
        listed = _listed(bytes(root.outputs))
        if listed is None:
            return None
        outputs, form = listed
    # The usual parameters are for the model, as they are. The prefix anywhere is looked at closely: one search in place of one for each name.
    if not parameters or (
        _FOR_THE_SERVER.isdisjoint(parameters) and RESERVED_PREFIX not in "".join(parameters)
    ):
        request = InferRequest(target.model, target.version, root.id, inputs, outputs, parameters)
        return Decoded(request, form)
    try:
        settings = request_parameters.read(parameters)
    except InferenceError:
        return None
    if settings.binary_data_output:
        form = ReplyForm(True, form.listed)
    request = settings.request(target.model, target.version, root.id, inputs, outputs)
    return Decoded(request, form)


@functools.lru_cache(maxsize=128)
def _listed(text: bytes) -> tuple[list[RequestedOutput], ReplyForm] | None:
    """The outputs that a request lists, which requests share: read only. None if they have to be looked at closely."""
    try:
        outputs = _decode_outputs(text)
    except _INVALID:
        return None
    form = ReplyForm(False, {})
    requested: list[RequestedOutput] = []
    for output in outputs:
        chosen, classes = output.parameters, 0
        form.listed[output.name] = False
        if chosen is not _UNSET:
            form.listed[output.name], classes = chosen.binary_data, chosen.classification
        if not 0 <= classes <= MAX_INT64:
            return None
        requested.append(RequestedOutput(output.name, classes))
    return requested, form


class _Layout(Record, frozen=True):
    """The tensors behind the JSON. Requests share it: read only.

    Attributes:
        places: each one and its bytes.
        numbers: name, datatype, shape, dtype and beginning of each one, if all are numbers that fill their shapes; else nothing.
        size: the bytes of all.
    """

    places: list[tuple[InputSpec, int]]
    numbers: list[tuple[str, DataType, tuple[int, ...], "np.dtype[typing.Any]", int]]
    size: int


def _read_head(document: bytes) -> tuple[_Head, _Layout] | None:
    """What stands in front of binary tensors; None if it has to be looked at closely."""
    # As `_parsed`, without the call.
    if b"[[" in document or b"\\" in document or not document.isascii():
        return None
    try:
        head = _decode_head(document)
    except _INVALID:
        return None
    layout = _layout(bytes(head.inputs))
    return None if layout is None else (head, layout)


_known_head = functools.lru_cache(maxsize=128)(_read_head)


@functools.lru_cache(maxsize=128)
def _layout(text: bytes) -> _Layout | None:
    """Read inputs whose values stand behind the JSON; None if they have to be looked at closely."""
    try:
        inputs = _decode_inputs(text)
    except _INVALID:
        return None
    places: list[tuple[InputSpec, int]] = []
    numbers: list[tuple[str, DataType, tuple[int, ...], np.dtype[typing.Any], int]] = []
    total = 0
    for entry in inputs:
        datatype, behind = BY_NAME.get(entry.datatype), entry.parameters
        if datatype is None or entry.data is not _UNSET or behind is _UNSET:
            return None
        count, size = _count(entry.shape), behind.binary_data_size
        if not 0 < count <= MAX_INT64 or size < 0:
            return None
        places.append((InputSpec(entry.name, datatype, entry.shape, count), size))
        if datatype is not BYTES and size == count * datatype.size:
            numbers.append((entry.name, datatype, entry.shape, datatype.dtype, total))
        total += size
    return _Layout(places, numbers if len(numbers) == len(places) else [], total)


@functools.lru_cache(maxsize=256)
def _count(shape: tuple[int, ...]) -> int:
    """How many elements a tensor has, at least one; -1 if its shape has to be looked at closely."""
    usual = len(shape) <= raw_tensors.MAX_RANK and min(shape, default=1) > 0
    return math.prod(shape) if usual else -1


def _tensor(entry: _Input) -> Tensor | None:
    """A tensor whose elements are JSON; None if one of them is not of its datatype."""
    datatype, data, shape = BY_NAME.get(entry.datatype), entry.data, entry.shape
    if (
        datatype is None
        or data is _UNSET
        or entry.parameters is not _UNSET
        or _count(shape) != len(data)
    ):
        return None
    values: typing.Any = data
    try:
        typecode = TYPECODES.get(datatype.name)
        if typecode is not None:
            elements = np.ndarray(shape, datatype.dtype, array.array(typecode, values))
        elif datatype is BYTES:
            elements = object_array([*map(str.encode, values)]).reshape(shape)
        else:
            return None
    except (TypeError, OverflowError):
        return None
    return Tensor(entry.name, datatype, shape, elements)
