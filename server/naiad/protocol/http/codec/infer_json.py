"""Infer requests from the wire to core types: JSON, with or without binary tensors behind it; `reply_json.py` writes the responses. Pure.

A request is read in Triton's order (its HTTP front end, ParseJson…): id, parameters, inputs, left-over bytes, outputs; what the
model is like is validated by the engine. Statuses are Triton's: JSON of a wrong shape is 500, not 400 (row 3.7).
When a JSON object names a member twice, the last one counts.
"""

import typing

import msgspec

from naiad.core import datatypes
from naiad.core.datatypes import BYTES, DataType
from naiad.core.record import Record
from naiad.core.regions import MOST_BYTES, Place
from naiad.core.request import InferRequest, RequestedOutput
from naiad.core.tensor import Tensor, region_tensor
from naiad.errors import InferenceError, internal, invalid
from naiad.protocol import raw_tensors
from naiad.protocol.http.codec import json_values, request_parameters
from naiad.protocol.http.codec.json_document import parse, require_utf8
from naiad.protocol.http.codec.reply_json import ALL_BINARY, ALL_JSON, HEADER_LENGTH, ReplyForm
from naiad.protocol.raw_tensors import InputSpec

Json = typing.Any
Members = dict[str, Json]

MAX_INT64 = 2**63 - 1

_NO_MEMBERS: Members = {}


class Decoded(Record, frozen=True):
    """A request, and how to answer it."""

    request: InferRequest
    form: ReplyForm


class Target(Record, frozen=True):
    """Whom a request is for: the model and version (or LATEST) of the path, and the bytes that its JSON, and each tensor in it, may have (row 1.11)."""

    model: str
    version: int
    max_input_size: int


def decode(body: bytes | memoryview, header_length: int, target: Target) -> Decoded:
    """Read a request: a decompressed body, of which the first `header_length` bytes are JSON, at least 1 and at most all.

    Raises:
        InferenceError: INTERNAL for JSON that cannot be read or misses members (row 3.7), INVALID_ARG for the rest.
    """
    model, version, max_input_size = target.model, target.version, target.max_input_size
    if header_length > max_input_size:
        raise invalid(
            f"request JSON size of {header_length} bytes exceeds the maximum allowed input size of {max_input_size} bytes. "
            "Use --http-max-input-size to increase the limit."
        )
    document = bytes(body[:header_length])
    root = parse(document)
    if type(root) is not dict:
        root = _NO_MEMBERS
    name = root.get("id", "")
    if type(name) is not str:
        raise wrong_type("id", "string", '"id": "<text>", or leave it out')
    if not name.isascii():
        require_utf8(name, "id")
    if "parameters" in root:
        settings = request_parameters.read(root["parameters"])
        form = ALL_BINARY if settings.binary_data_output else ALL_JSON
        request = settings.request(model, version, name, [], [])
    else:
        form = ALL_JSON
        request = InferRequest(model, version, name, [], [], {})
    entries = root.get("inputs")
    if type(entries) is not list:
        raise missing_member(root, "inputs", "array", 'a list of objects like {"name": …, …}')
    reader = _InputReader(body, header_length, document, model, max_input_size)
    inputs = request.inputs
    for entry in entries:
        inputs.append(reader.read(entry))
    reader.check_end()
    if "outputs" in root:
        form = _read_outputs(root, request, form)
    if reader.in_regions or any(each.place for each in request.requested_outputs):
        request = msgspec.structs.replace(request, in_regions=True)
    return Decoded(request, form)


class _InputReader:
    """Reads the entries of `inputs` one after the other; `at` is where the next binary tensor begins (row 3.9).

    Attributes:
        in_regions: whether one was in a client's shared memory.
    """

    __slots__ = ("at", "body", "document", "in_regions", "limit", "model")

    def __init__(
        self, body: bytes | memoryview, at: int, document: bytes, model: str, limit: int
    ) -> None:
        self.body = body
        self.at = at
        self.document = document
        self.model = model
        self.limit = limit
        self.in_regions = False

    def read(self, entry: Json) -> Tensor:
        if type(entry) is not dict:
            entry = _NO_MEMBERS
        has_data = "data" in entry
        parameters = entry.get("parameters")
        if type(parameters) is not dict:
            parameters = _NO_MEMBERS
        has_size = "binary_data_size" in parameters
        if has_data + has_size + ("shared_memory_region" in parameters) != 1:
            raise _not_one_source(entry, parameters)
        name = entry.get("name")
        if type(name) is not str:
            raise missing_member(entry, "name", "string", "the input's name")
        datatype = _read_datatype(entry, name)
        shape = entry.get("shape")
        if type(shape) is not list:
            raise missing_member(entry, "shape", "array", "a list of integers, e.g. [1, 16]")
        if len(shape) > raw_tensors.MAX_RANK:
            # Refused here: a hundred kilobytes of gzip hold 30 million dimensions, and validating those would keep the event loop.
            raise invalid(
                f"unexpected shape for input '{name}' for model '{self.model}': {len(shape)} dimensions; "
                f"at most {raw_tensors.MAX_RANK} are possible"
            )
        spec = InputSpec(name, datatype, tuple(shape), _count(shape, name))
        if has_data:
            return self._from_json(entry["data"], spec)
        if not has_size:
            self.in_regions = True
            return region_tensor(name, datatype, spec.shape, _place(parameters))
        size = parameters["binary_data_size"]
        if type(size) is not int or not 0 <= size <= MAX_INT64:
            raise wrong_type(
                "binary_data_size", "unsigned-integer", f"the bytes of input '{name}', as a number"
            )
        return self._from_bytes(size, spec)

    def check_end(self) -> None:
        """See that nothing is left of the body.

        Raises:
            InferenceError: INVALID_ARG.
        """
        if self.at != len(self.body):
            raise invalid(
                f"unexpected additional input data for model '{self.model}': {len(self.body) - self.at} bytes are left behind the inputs; "
                f"binary_data_size of all inputs and {HEADER_LENGTH.decode()} must add up to the length of the body"
            )

    def _from_bytes(self, size: int, spec: InputSpec) -> Tensor:
        start = self.at
        missing = start + size - len(self.body)
        if missing > 0:
            raise invalid(
                f"unexpected size for input '{spec.name}', expecting {missing} additional bytes for model '{self.model}': "
                f"its binary_data_size is {size}, {len(self.body) - start} bytes are left of the body; send the tensor's bytes "
                f"behind the JSON and the JSON's length as {HEADER_LENGTH.decode()}"
            )
        self.at = start + size
        return raw_tensors.read(self.body, start, size, spec, model=self.model)

    def _from_json(self, data: Json, spec: InputSpec) -> Tensor:
        name, datatype, shape, count = spec.name, spec.datatype, spec.shape, spec.count
        if not count:
            # Like Triton: a shape without elements makes an empty tensor, whatever `data` holds.
            return raw_tensors.read(b"", 0, 0, spec, model=self.model)
        if type(data) is not list:
            raise wrong_type("data", "array", f"the elements of input '{name}' as a list")
        if count * datatype.size > self.limit:
            raise self._too_large(name, datatype, count)
        array = json_values.read(
            data, datatype, name=name, shape=shape, count=count, document=self.document
        )
        if datatype is BYTES and 4 * count + sum(map(len, array.flat)) > self.limit:
            raise self._too_large(name, datatype, count)
        return Tensor(name, datatype, shape, array)

    def _too_large(self, name: str, datatype: DataType, count: int) -> InferenceError:
        if count > MAX_INT64 // (datatype.size or 1):
            return invalid(
                f"byte size overflow for input '{name}': element count ({count}) * data type size ({datatype.size}) exceeds "
                f"maximum allowed size ({MAX_INT64}); send a shape that 'data' can fill"
            )
        size = f"{count * datatype.size} bytes" if datatype.size else "its strings and 4 bytes each"
        return invalid(
            f"JSON input '{name}' has a byte_size ({size}) that exceeds the maximum allowed value of {self.limit} bytes. "
            "Use --http-max-input-size to increase the limit."
        )


def _not_one_source(entry: Members, parameters: Members) -> InferenceError:
    """The error of an input with no source of its values, or with several (row 3.8)."""
    present = [
        f"'{source}'"
        for source, place in (
            ("data", entry),
            ("binary_data_size", parameters),
            ("shared_memory_region", parameters),
        )
        if source in place
    ]
    fields = f"set {' '.join(present)}" if present else "no field is set"
    return invalid(
        "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
        f"'shared_memory_region' in 'parameters'. But {fields}"
    )


def _place(parameters: Members) -> Place:
    """Where a tensor is in a client's shared memory (row 5.17)."""
    region = parameters["shared_memory_region"]
    if type(region) is not str:
        raise wrong_type("shared_memory_region", "string", "a region's name")
    offset, size = (
        _bytes_of(parameters, name) for name in ("shared_memory_offset", "shared_memory_byte_size")
    )
    return Place(region, offset, size)


def _bytes_of(parameters: Members, name: str) -> int:
    value: Json = parameters.get(name, 0)
    if type(value) is not int or not 0 <= value <= MOST_BYTES:
        raise wrong_type(name, "unsigned-integer", "a number of bytes")
    return value


def _read_datatype(entry: Members, name: str) -> DataType:
    text = entry.get("datatype")
    if type(text) is not str:
        raise missing_member(entry, "datatype", "string", 'e.g. "FP32"')
    datatype = datatypes.BY_NAME.get(text)
    if datatype is None:
        raise invalid(
            f"invalid datatype for input {name}: '{text[:40]}'; expected one of {', '.join(datatypes.BY_NAME)}"
        )
    return datatype


def _count(shape: list[Json], name: str) -> int:
    """How many elements a shape holds; 1 without dimensions (row 3.18)."""
    count = 1
    for dim in shape:
        if type(dim) is not int or dim < 0:
            raise wrong_type(
                "shape",
                "unsigned-integer",
                f"non-negative integers as dimensions of input '{name}'",
            )
        count *= dim
        if count > MAX_INT64 or dim > MAX_INT64:
            sizes = str(shape[:8])[1:-1]
            more = ", …" if len(shape) > 8 else ""  # noqa: PLR2004 - enough to recognise the shape
            raise invalid(
                f"invalid shape for input '{name}': shape [{sizes}{more}] causes total element count to exceed maximum size of "
                f"{MAX_INT64}; send the shape of the data"
            )
    return count


def _read_outputs(root: Members, request: InferRequest, form: ReplyForm) -> ReplyForm:
    entries = root["outputs"]
    if type(entries) is not list:
        raise wrong_type("outputs", "array", "a list of objects, or leave it out for all outputs")
    listed: dict[str, bool] = {}
    for entry in entries:
        if type(entry) is not dict:
            entry = _NO_MEMBERS  # noqa: PLW2901 - only an object has members
        name = entry.get("name")
        if type(name) is not str:
            raise missing_member(entry, "name", "string", "the output's name")
        parameters = entry.get("parameters")
        if type(parameters) is dict:
            output = _requested_output(name, parameters)
            listed[name] = binary = _wants_binary(parameters)
            if binary and output.place is not None:
                raise invalid(
                    f"Output can't set both 'shared_memory_region' and 'binary_data' (output '{name}'): its values are either in the region "
                    "or in the response"
                )
        else:
            output = RequestedOutput(name)
            listed[name] = False
        request.requested_outputs.append(output)
    return ReplyForm(form.binary, listed)


def _requested_output(name: str, parameters: Members) -> RequestedOutput:
    if "shared_memory_region" in parameters:
        if "classification" in parameters:
            raise invalid(
                f"Output can't set both 'shared_memory_region' and 'classification' (output '{name}'): the classes are in the response"
            )
        return RequestedOutput(name, place=_place(parameters))
    classes = parameters.get("classification", 0)
    if type(classes) is not int or classes < 0:
        raise internal(
            "Unable to set 'classification': attempt to access JSON non-unsigned-integer as unsigned-integer: send how many "
            f"classes of output '{name}' you want, or leave it out"
        )
    return RequestedOutput(name, classes)


def _wants_binary(parameters: Members) -> bool:
    binary = parameters.get("binary_data", False)
    if type(binary) is not bool:
        raise wrong_type("binary_data", "boolean", "true or false")
    return binary


def missing_member(entry: Members, member: str, kind: str, send: str) -> InferenceError:
    """A member that is not there, or is not what it must be (row 3.7)."""
    if member not in entry:
        return internal(
            f"Unable to parse '{member}': attempt to access non-existing object member '{member}': send {send}"
        )
    return wrong_type(member, kind, send)


def wrong_type(member: str, kind: str, send: str) -> InferenceError:
    """A member of a wrong JSON type (row 3.7)."""
    return internal(
        f"Unable to parse '{member}': attempt to access JSON non-{kind} as {kind}: send {send}"
    )
