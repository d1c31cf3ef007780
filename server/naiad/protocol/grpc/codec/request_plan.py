"""What the head of a ModelInferRequest says of its inputs and outputs, validated (rows 10.10-10.22): once per head, as `request_proto` remembers it. Pure."""

import math
import typing

from naiad.core.datatypes import BY_NAME
from naiad.core.record import Record
from naiad.core.regions import Place
from naiad.core.request import InferRequest, RequestedOutput
from naiad.core.tensor import Tensor, region_tensor
from naiad.errors import InferenceError, invalid
from naiad.protocol import raw_tensors
from naiad.protocol.grpc.codec import request_parameters, typed_contents
from naiad.protocol.grpc.codec.request_parameters import RequestParameters
from naiad.protocol.raw_tensors import InputSpec


class WireSpec(InputSpec, frozen=True):
    """An input without its values, as a message declares it.

    Attributes:
        size: how many bytes its elements take; -1 when that depends on them (BYTES).
        fault: why no array can have its shape; "" when one can.
    """

    size: int
    fault: str = ""


class Plan(Record, frozen=True):
    """Everything of a request except its id and its values.

    Attributes:
        inputs: those whose values come with the message.
        elsewhere: those in clients' shared memory, each with its position among all inputs.
        in_regions: see `InferRequest`.
    """

    inputs: list[WireSpec]
    outputs: list[RequestedOutput]
    parameters: RequestParameters
    elsewhere: tuple[tuple[int, Tensor], ...]
    in_regions: bool


class Head(typing.Protocol):
    """A parsed message without its raw tensors.

    Attributes:
        message: the protobuf.
    """

    message: typing.Any
    model_name: str
    model_version: int


def first_request(
    head: Head, request_id: str, body: bytes | memoryview, places: list[tuple[int, int]]
) -> tuple[InferRequest, Plan | None]:
    """Validate everything.

    Args:
        head: what was sent.
        request_id: of this request.
        body: has the values that are not in the head.
        places: where each raw tensor begins in it, and its size.

    Returns:
        The request, and the plan of further ones with this head: None if the head has values.

    Raises:
        InferenceError: INVALID_ARG (rows 10.10 to 10.22).
    """
    message, model = head.message, head.model_name
    sent = message.parameters
    parameters = request_parameters.read(sent) if sent else request_parameters.NONE
    raws = iter(places)
    inputs: list[Tensor] = []
    specs: list[WireSpec] = []
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
                raise no_data(io.name, model)
            inputs.append(validated(spec, model, body, start, size))
        elif places:
            raise invalid(
                f"contents field must not be specified when using raw_input_contents for '{io.name}' for model '{model}': "
                "send all inputs of a request the same way"
            )
        else:
            inputs.append(_typed(io, model))
    outputs = [_requested_output(io) for io in message.outputs]
    in_regions = bool(elsewhere) or any(each.place for each in outputs)
    plan = None
    if len(specs) + len(elsewhere) == len(inputs):
        plan = Plan(specs, outputs, parameters, tuple(elsewhere), in_regions)
    request = parameters.request(
        model, head.model_version, request_id, inputs, outputs.copy(), in_regions=in_regions
    )
    return request, plan


def _input_spec(io: typing.Any, model: str) -> WireSpec:
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
        return WireSpec(name, datatype, shape, -1, -1, fault)
    if raw_tensors.exceeds_memory(shape, datatype):
        fault = raw_tensors.too_large(model=model, name=name, shape=shape)
        return WireSpec(name, datatype, shape, -1, -1, fault)
    count = math.prod(shape)
    return WireSpec(name, datatype, shape, count, count * datatype.size if datatype.size else -1)


def validated(
    spec: WireSpec, model: str, body: bytes | memoryview, start: int, size: int
) -> Tensor:
    """The tensor of an input whose bytes are where they say; one with a `fault` if they do not fill its shape."""
    if spec.fault:
        return spec.faulty(spec.fault)
    return raw_tensors.read(body, start, size, spec, model=model)


def _typed(io: typing.Any, model: str) -> Tensor:
    spec = _input_spec(io, model)
    return spec.faulty(spec.fault) if spec.fault else typed_contents.read(io.contents, spec, model)


def no_data(name: str, model: str) -> InferenceError:
    """The error of an input without values."""
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
