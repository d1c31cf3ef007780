"""The same request in each form that a wire has for it: HTTP with binary data and gRPC with raw contents, HTTP with JSON and gRPC with typed contents.

An input is read as choices that make one request. The two forms of it must be usable alike, and mean the same to the engine.
Where the wires differ by specification, no request is made: `binary_data_output` is of HTTP alone, a timeout may be negative with gRPC
alone, FP16 and BF16 exist neither in JSON nor as typed contents, JSON has one NaN, and JSON data of a shape without elements is not
looked at (as Triton does).
"""

import dataclasses
import json
import math
import typing

import numpy as np

from naiad.core import datatypes
from naiad.core.datatypes import DataType, Kind
from naiad.core.messages import service_pb2
from naiad.core.request import LATEST, InferRequest
from naiad.errors import InferenceError
from naiad.protocol.grpc.codec.request_proto import RequestReader
from naiad.protocol.http.codec import typed_json
from naiad.protocol.http.codec.infer_json import Target
from tests.fuzz.choices import Choices
from tests.fuzz.http_infer import summary

WORDS = ("sequence_id", "priority", "timeout")

_LIMIT = 1 << 20
_SIZES = (1, 2, 0, 3, 4, 2**31, 2**62, 2**63 - 1)
_PARAMETERS = (
    "custom",
    "priority",
    "timeout",
    "sequence_id",
    "sequence_start",
    "sequence_end",
    "triton_x",
    "",
)
_TYPED = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents", "INT64": "int64_contents",
    "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents", "UINT64": "uint64_contents",
    "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip
_WIDER = {
    "INT8": np.int32, "INT16": np.int32, "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint32, "UINT16": np.uint32,
    "UINT32": np.uint32, "UINT64": np.uint64, "FP32": np.float32, "FP64": np.float64,
}  # fmt: skip

Parameter = bool | int | float | str


@dataclasses.dataclass(frozen=True)
class _Input:
    """One tensor: `values` are its elements where it goes as numbers, `raw` its bytes where it goes as bytes."""

    name: str
    datatype: DataType
    shape: tuple[int, ...]
    values: list[typing.Any]
    raw: bytes


def seeds() -> list[bytes]:
    """Any bytes are a request; these make different ones."""
    return [bytes(40), bytes(range(1, 60)), b"\3\1" * 30, b"\1\1\5abcde\2\0\1x" + bytes(range(50))]


def check(data: bytes) -> None:
    """Raise if two forms of one request are not read alike."""
    choices = Choices(data)
    as_numbers = choices.boolean()
    request_id = choices.text(4)
    inputs = [_input(choices, as_numbers=as_numbers) for _ in range(choices.integer(0, 3))]
    outputs = [choices.text(3) for _ in range(choices.integer(0, 2))]
    parameters = dict(_parameter(choices) for _ in range(choices.integer(0, 3)))
    http = _http(request_id, inputs, outputs, parameters, as_numbers=as_numbers)
    grpc = _grpc(request_id, inputs, outputs, parameters, as_numbers=as_numbers)
    if http is None or grpc is None:
        assert http is grpc, f"HTTP reads {_shown(http)}, gRPC {_shown(grpc)}"
    else:
        assert summary(http) == summary(grpc), f"HTTP reads {_shown(http)}, gRPC {_shown(grpc)}"


def _input(choices: Choices, *, as_numbers: bool) -> _Input:
    names = sorted(_TYPED) if as_numbers else [datatype.name for datatype in datatypes.ALL]
    datatype = datatypes.BY_NAME[choices.pick(names)]
    shape = tuple(choices.pick(_SIZES) for _ in range(choices.integer(0, 3)))
    count = math.prod(shape)
    count = count if count < 50 else choices.integer(0, 3)
    if choices.integer(0, 7) == 7 and (count or not as_numbers):
        count += choices.integer(0, 2)
    name = choices.text(4)
    if datatype is datatypes.BYTES:
        elements = [
            choices.text(3).encode() if as_numbers else choices.binary(3) for _ in range(count)
        ]
        raw = b"".join(len(element).to_bytes(4, "little") + element for element in elements)
        return _Input(name, datatype, shape, elements, raw)
    if as_numbers and datatype.kind is not Kind.BOOL:
        wide = np.dtype(_WIDER[datatype.name])
        drawn = np.frombuffer(
            choices.take(count * wide.itemsize).ljust(count * wide.itemsize, b"\0"), wide
        )
        if datatype.kind is Kind.FLOAT:
            drawn = np.where(np.isnan(drawn), wide.type(np.nan), drawn)
        return _Input(name, datatype, shape, drawn.tolist(), b"")
    raw = choices.take(count * datatype.size).ljust(count * datatype.size, b"\0")
    return _Input(name, datatype, shape, [bool(byte & 1) for byte in raw], raw)


def _parameter(choices: Choices) -> tuple[str, Parameter]:
    name = choices.pick(_PARAMETERS) or choices.text(4)
    kinds: tuple[Parameter, ...] = (
        choices.boolean(), choices.integer(0, 2**63 - 1), choices.text(4), 0.5, choices.integer(0, 9),
        -1 if name not in {"timeout", "sequence_id"} else 1,
    )  # fmt: skip
    return ("other" if name == "binary_data_output" else name), choices.pick(kinds)


def _http(
    request_id: str, inputs: list[_Input], outputs: list[str], parameters: dict[str, Parameter], *, as_numbers: bool
) -> InferRequest | None:  # fmt: skip
    root: dict[str, typing.Any] = {"id": request_id, "inputs": []}
    tail = b""
    for each in inputs:
        entry: dict[str, typing.Any] = {
            "name": each.name,
            "datatype": each.datatype.name,
            "shape": list(each.shape),
        }
        if as_numbers:
            entry["data"] = [
                value.decode() if isinstance(value, bytes) else value for value in each.values
            ]
        else:
            entry["parameters"] = {"binary_data_size": len(each.raw)}
            tail += each.raw
        root["inputs"].append(entry)
    if outputs:
        root["outputs"] = [{"name": name} for name in outputs]
    if parameters:
        root["parameters"] = parameters
    head = json.dumps(root).encode()
    try:
        decoded = typed_json.decode(head + tail, len(head), Target("m", LATEST, _LIMIT))
    except InferenceError:
        return None
    return _usable(decoded.request)


def _grpc(
    request_id: str, inputs: list[_Input], outputs: list[str], parameters: dict[str, Parameter], *, as_numbers: bool
) -> InferRequest | None:  # fmt: skip
    message = service_pb2.ModelInferRequest(model_name="m", id=request_id)
    for each in inputs:
        tensor = message.inputs.add(name=each.name, datatype=each.datatype.name, shape=each.shape)
        if as_numbers:
            tensor.contents.SetInParent()
            getattr(tensor.contents, _TYPED[each.datatype.name]).extend(each.values)
        else:
            message.raw_input_contents.append(each.raw)
    for name in outputs:
        message.outputs.add(name=name)
    for name, value in parameters.items():
        sent = message.parameters[name]
        if isinstance(value, bool):
            sent.bool_param = value
        elif isinstance(value, int):
            sent.int64_param = value
        elif isinstance(value, str):
            sent.string_param = value
        else:
            sent.double_param = value
    reader = RequestReader()
    try:
        request = reader.read(message.SerializeToString()).request()
    except InferenceError:
        return None
    return _usable(request)


def _usable(request: InferRequest) -> InferRequest | None:
    return None if any(each.fault is not None for each in request.inputs) else request


def _shown(request: InferRequest | None) -> str:
    return "nothing" if request is None else repr(summary(request))
