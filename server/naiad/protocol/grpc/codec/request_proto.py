"""ModelInferRequest bytes to InferRequest (rows 10.8-10.22). Pure.

A request is decoded in two steps, because the model it names is looked up between them (row 10.9): `read` finds the name of the
model, `Incoming.request` builds the whole request. What a client sends again and again (names, shapes, parameters) is parsed once and
remembered by its bytes; each request then costs a cut, a dictionary look-up and one view per tensor.
"""

import math
import typing

import numpy as np
from google.protobuf.message import DecodeError

from naiad.core.datatypes import BY_NAME
from naiad.core.messages import service_pb2
from naiad.core.record import Record
from naiad.core.regions import Place
from naiad.core.request import LATEST, InferRequest, RequestedOutput
from naiad.core.tensor import Tensor, region_tensor
from naiad.errors import InferenceError, internal, invalid
from naiad.protocol import raw_tensors
from naiad.protocol.grpc.codec import request_parameters, typed_contents
from naiad.protocol.grpc.codec.request_parameters import RequestParameters
from naiad.protocol.grpc.codec.request_split import Split, Template, split
from naiad.protocol.raw_tensors import InputSpec

_MAX_PARTS = 4096
"""Inputs, outputs or parameters of one request. No model has as many, and each would cost the loop microseconds."""

_NAME_TAG = 0x0A
_MAX_HEADS = 512
_MAX_HEAD_BYTES = 2048
"""Bytes of a head that is remembered; a head with values in it is longer."""

_MAX_VERSION_DIGITS = 19
_MAX_VERSION = 2**63 - 1


class _WireSpec(InputSpec, frozen=True):
    """An input without its values, as a message declares it.

    Attributes:
        size: how many bytes its elements take; -1 when that depends on them (BYTES).
        fault: why no array can have its shape; "" when one can.
    """

    size: int
    fault: str = ""


class _Plan(Record, frozen=True):
    """Everything of a request except its id and its values.

    Attributes:
        inputs: those whose values come with the message.
        elsewhere: those in clients' shared memory, each with its position among all inputs.
        in_regions: see `InferRequest`.
    """

    inputs: list[_WireSpec]
    outputs: list[RequestedOutput]
    parameters: RequestParameters
    elsewhere: tuple[tuple[int, Tensor], ...]
    in_regions: bool


class _Head:
    """A parsed head; once `plan` is known, the message is dropped."""

    __slots__ = ("message", "model_name", "model_version", "plan")

    def __init__(self, message: typing.Any) -> None:
        self.model_name: str = message.model_name
        self.model_version = version_number(message.model_version)
        self.message = message
        self.plan: _Plan | None = None


class Incoming(Record, frozen=True):
    """A request of which only the model is known so far."""

    model_name: str
    model_version: int
    head: _Head
    id: str
    body: bytes | memoryview
    raws: list[tuple[int, int]]

    def request(self) -> InferRequest:
        """The whole request.

        Returns:
            Inputs are views of the message in wire shape; one whose bytes do not fill its shape carries a `fault`.

        Raises:
            InferenceError: INVALID_ARG (rows 10.10 to 10.22).
        """
        head = self.head
        plan = head.plan
        if plan is None:
            return _first_request(self)
        specs = plan.inputs
        raws = self.raws
        if len(raws) < len(specs):
            raise _no_data(specs[len(raws)].name, head.model_name)
        body = self.body
        inputs = [
            Tensor(
                spec.name,
                spec.datatype,
                spec.shape,
                np.ndarray(spec.shape, spec.datatype.dtype, body, start),
            )
            if size == spec.size
            else _validated(spec, head.model_name, body, start, size)
            for spec, (start, size) in zip(specs, raws, strict=False)  # surplus ones: row 10.11
        ]
        for at, tensor in plan.elsewhere:
            inputs.insert(at, tensor)
        return plan.parameters.request(
            self.model_name,
            self.model_version,
            self.id,
            inputs,
            plan.outputs.copy(),
            in_regions=plan.in_regions,
        )

    @property
    def empty_final(self) -> bool:
        """Whether a streamed request asks for the empty final response (row 10.30); once `request` has read it."""
        plan = self.head.plan
        if plan is not None:
            return plan.parameters.empty_final
        name = request_parameters.EMPTY_FINAL_RESPONSE
        sent = self.head.message.parameters
        return name in sent and bool(sent[name].bool_param)


def _name_field(message: bytes) -> bytes:
    """The field with the model's name, which protobuf writes first; empty for other messages, of which nothing is remembered by name."""
    if len(message) > 1 and message[0] == _NAME_TAG and message[1] < 0x80:  # noqa: PLR2004 - a length of one byte
        return message[: message[1] + 2]
    return b""


_NONE_BEFORE: tuple[Template | None, _Head | None] = (None, None)


class RequestReader:
    """Reads requests, and remembers the heads it has seen (bounded: at most 512 of 2 KiB), and for each model the one that came last."""

    def __init__(self) -> None:
        self._heads: dict[bytes, _Head] = {}
        self._last: dict[bytes, tuple[Template | None, _Head]] = {}

    def read(self, body: bytes | memoryview) -> Incoming:
        """Read which model a request is for.

        A view is copied if it is not as `values_in` takes it to be: then its memory may have been lent for another model.

        Raises:
            InferenceError: INTERNAL for bytes that are not a ModelInferRequest, as in grpc; INVALID_ARG for a
                version that is not a number (row 10.8) and for absurd numbers of inputs, outputs or parameters.
        """
        if type(body) is not bytes:
            parts = split(body)
            if parts is None or parts.is_mixed:
                return self.read(bytes(body))
            return self._found(parts, body, _name_field(parts.head))
        name = _name_field(body)
        template, last = self._last.get(name, _NONE_BEFORE)
        if template is not None and last is not None:
            found = template.match(body)
            if found is not None:
                return Incoming(last.model_name, last.model_version, last, found[0], body, found[1])
        parts = split(body)
        if parts is None:
            message = _parse(body)
            raws, body = _concatenated(message)
            head = _Head(message)
            return Incoming(head.model_name, head.model_version, head, message.id, body, raws)
        return self._found(parts, body, name)

    def _found(self, parts: Split, body: bytes | memoryview, name: bytes) -> Incoming:
        """A request that was cut; remember its head."""
        known = self._heads.get(parts.head)
        if known is None:
            known = _Head(_parse(parts.head))
            if len(parts.head) <= _MAX_HEAD_BYTES:
                if len(self._heads) >= _MAX_HEADS:
                    self._heads.clear()
                    self._last.clear()
                self._heads[parts.head] = known
        if len(parts.head) <= _MAX_HEAD_BYTES:
            # A template is made for the second one in a row: heads that take turns are found as they are.
            self._last[name] = (
                Template(parts) if known is self._last.get(name, _NONE_BEFORE)[1] else None,
                known,
            )
        return Incoming(known.model_name, known.model_version, known, parts.id, body, parts.raws)

    def id_of(self, body: bytes | memoryview) -> str:
        """The id of a request that `read` refused; "" if it has none, or if it is unreadable."""
        parts = split(body)
        if parts is not None:
            return parts.id
        try:
            return str(service_pb2.ModelInferRequest.FromString(bytes(body)).id)
        except DecodeError:
            return ""


def version_number(text: str) -> int:
    """A version as RPCs name it (row 10.8): "" means LATEST.

    Raises:
        InferenceError: INVALID_ARG.
    """
    if not text:
        return LATEST
    if text.isascii() and text.isdecimal() and len(text.lstrip("0")) <= _MAX_VERSION_DIGITS:
        number = int(text)
        if number <= _MAX_VERSION:
            return number
    raise invalid(
        f"failed to get model version from specified version string '{text}', version should be an integral value > 0; "
        "leave it empty for the newest one that is ready"
    )


def parse(message_class: typing.Any, data: bytes) -> typing.Any:
    """The parsed request of any RPC; bytes that are not one are INTERNAL, as in grpc."""
    try:
        return message_class.FromString(data)
    except DecodeError as error:
        raise internal(
            f"Unable to parse request: the message is not a {message_class.DESCRIPTOR.name} ({error}); "
            "generate the client from Triton's grpc_service.proto"
        ) from None


def _parse(data: bytes) -> typing.Any:
    message = parse(service_pb2.ModelInferRequest, data)
    for field in ("inputs", "outputs", "parameters"):
        count = len(getattr(message, field))
        if count > _MAX_PARTS:
            raise invalid(f"the request has {count} {field}; at most {_MAX_PARTS} are accepted")
    return message


def _concatenated(message: typing.Any) -> tuple[list[tuple[int, int]], bytes]:
    """The raw tensors that the inputs need, one after the other, and where each begins."""
    raws: list[tuple[int, int]] = []
    wanted: list[bytes] = message.raw_input_contents[: max(1, len(message.inputs))]
    at = 0
    for raw in wanted:
        raws.append((at, len(raw)))
        at += len(raw)
    return raws, b"".join(wanted)


def _first_request(incoming: Incoming) -> InferRequest:
    """The slow way: all of it is validated; the plan is kept for the next request with this head, unless the head has values."""
    head = incoming.head
    message = head.message
    model = head.model_name
    sent = message.parameters
    parameters = request_parameters.read(sent) if sent else request_parameters.NONE
    raws = iter(incoming.raws)
    inputs: list[Tensor] = []
    specs: list[_WireSpec] = []
    elsewhere: list[tuple[int, Tensor]] = []
    for io in message.inputs:
        place = _place(io) if io.parameters else None
        if place is not None:
            tensor = _in_region(io, place, model)
            elsewhere.append((len(inputs), tensor))
            inputs.append(tensor)
        elif not io.HasField("contents"):
            spec = _input_spec(io, model)
            specs.append(spec)
            start, size = next(raws, (0, -1))
            if size < 0:
                raise _no_data(io.name, model)
            inputs.append(_validated(spec, model, incoming.body, start, size))
        elif incoming.raws:
            raise invalid(
                f"contents field must not be specified when using raw_input_contents for '{io.name}' for model '{model}': "
                "send all inputs of a request the same way"
            )
        else:
            inputs.append(_typed(io, model))
    outputs = [_requested_output(io) for io in message.outputs]
    in_regions = bool(elsewhere) or any(each.place for each in outputs)
    if len(specs) + len(elsewhere) == len(inputs):
        head.plan = _Plan(specs, outputs, parameters, tuple(elsewhere), in_regions)
        head.message = None
    return parameters.request(
        model, head.model_version, incoming.id, inputs, outputs.copy(), in_regions=in_regions
    )


def _input_spec(io: typing.Any, model: str) -> _WireSpec:
    name: str = io.name
    datatype = BY_NAME.get(io.datatype)
    if datatype is None:
        raise invalid(
            f"inference input '{name}' data-type is '{io.datatype}', which model '{model}' cannot expect: "
            f"there are {', '.join(BY_NAME)}"
        )
    if len(io.shape) > raw_tensors.MAX_RANK:
        raise invalid(
            f"unexpected shape for input '{name}' for model '{model}': {len(io.shape)} dimensions; "
            f"at most {raw_tensors.MAX_RANK} are possible"
        )
    shape = tuple(io.shape)
    if shape and min(shape) < 0:
        fault = (
            f"unexpected shape for input '{name}' for model '{model}': {list(shape)} has a negative dimension; "
            "send the sizes of the values that come with it"
        )
        return _WireSpec(name, datatype, shape, -1, -1, fault)
    if raw_tensors.exceeds_memory(shape, datatype):
        fault = raw_tensors.too_large(model=model, name=name, shape=shape)
        return _WireSpec(name, datatype, shape, -1, -1, fault)
    count = math.prod(shape)
    return _WireSpec(name, datatype, shape, count, count * datatype.size if datatype.size else -1)


def _validated(
    spec: _WireSpec, model: str, body: bytes | memoryview, start: int, size: int
) -> Tensor:
    if spec.fault:
        return spec.faulty(spec.fault)
    return raw_tensors.read(body, start, size, spec, model=model)


def _typed(io: typing.Any, model: str) -> Tensor:
    spec = _input_spec(io, model)
    return spec.faulty(spec.fault) if spec.fault else typed_contents.read(io.contents, spec, model)


def _no_data(name: str, model: str) -> InferenceError:
    return invalid(
        f"unable to find data for input tensor '{name}' for model '{model}' in request. Send one entry of "
        "raw_input_contents for each input, in the order of the inputs, or its contents"
    )


def _in_region(io: typing.Any, place: Place, model: str) -> Tensor:
    if io.HasField("contents"):
        raise invalid(
            f"unexpected 'content' provided when using shared memory for input tensor '{io.name}' for model '{model}': send the values "
            "one way"
        )
    spec = _input_spec(io, model)
    if spec.fault:
        return spec.faulty(spec.fault)
    return region_tensor(spec.name, spec.datatype, spec.shape, place)


def _place(io: typing.Any) -> Place | None:
    """Where a tensor is in a client's shared memory; None if it is not there (row 5.17)."""
    sent = io.parameters
    region, offset, size = (
        sent.get(name)
        for name in ("shared_memory_region", "shared_memory_offset", "shared_memory_byte_size")
    )
    for name, value, kind in (
        ("shared_memory_region", region, "string_param"),
        ("shared_memory_offset", offset, "int64_param"),
        ("shared_memory_byte_size", size, "int64_param"),
    ):
        if value is None:
            continue
        if region is None:
            raise invalid(
                f"'{name}' can not be specified without 'shared_memory_region' parameter for tensor '{io.name}'"
            )
        if value.WhichOneof("parameter_choice") != kind:
            raise invalid(
                f"invalid value type for '{name}' parameter for tensor '{io.name}', expected {kind}."
            )
    if region is None:
        return None
    if size is None:
        raise invalid(
            f"'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor '{io.name}'"
        )
    return Place(region.string_param, 0 if offset is None else offset.int64_param, size.int64_param)


def _requested_output(io: typing.Any) -> RequestedOutput:
    parameters = io.parameters
    if not parameters:
        return RequestedOutput(io.name)
    classes, place = 0, _place(io)
    if "classification" in parameters:
        value = parameters["classification"]
        if value.WhichOneof("parameter_choice") != "int64_param":
            raise invalid(
                f"invalid value type for 'classification' parameter, expected int64_param (output '{io.name}')"
            )
        if value.int64_param <= 0:
            raise invalid(
                f"invalid value for 'classification' parameter, expected > 0, got {value.int64_param} (output '{io.name}')"
            )
        classes = value.int64_param
    if place is not None and classes:
        raise invalid(
            f"output can't set both 'shared_memory_region' and 'classification' (output '{io.name}'): the classes are in the response"
        )
    return RequestedOutput(io.name, classes, place)
