"""Classification (5.1 to 5.6, 10.22, 11.17): classes over HTTP and gRPC, of every type, with labels, also through ensembles."""

import json
import math
import struct
from functools import partial
from typing import Any

import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.grpc_scenarios import inference, request
from tests.conformance.scenarios.scenario import Scenario, infer
from tests.conformance.scenarios.streams import asked, talk
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.conformance.servers.classes import TYPES

_SERVER = "classes"
_FOUR = [0.25, 4.0, -1.0, 2.5]


def _asking(
    count: object,
    values: list[Any] | None = None,
    shape: list[int] | None = None,
    *,
    name: str = "IN",
    out: str = "OUT",
    **parameters: object,
) -> dict[str, object]:
    values = _FOUR if values is None else values
    entry = {"name": out, "parameters": {"classification": count, **parameters}}
    return {
        "inputs": [value(name, "FP32", shape or [len(values)], values)],
        "outputs": [entry],
    }


def _scenario(name: str, rows: str, model: str, asked: object, **more: Any) -> Scenario:
    return infer(f"classes: {name}", rows, model, asked, server=_SERVER, **more)


INFERENCES = [
    _scenario(
        "the highest two", "5.1 5.2", "named", _asking(2),
        expect={"json.outputs.0.datatype": "BYTES", "json.outputs.0.data.0": "4.000000:1"},
    ),
    _scenario(
        "labels", "5.4", "named", _asking(9),
        expect={"json.outputs.0.data.2": "0.250000:0:cat", "json.outputs.0.shape.0": 4},
    ),
    _scenario("beyond the list", "5.4", "named", _asking(6, [6, 5, 4, 3, 2, 1])),
    _scenario("an empty list", "5.4", "nothing", _asking(2)),
    _scenario("binary", "5.1", "named", _asking(2, binary_data=True)),
    _scenario(
        "binary by default", "5.1", "named",
        {**_asking(2), "parameters": {"binary_data_output": True}},
    ),
    _scenario("zero", "5.5", "named", _asking(0), expect={"json.outputs.0.datatype": "FP32"}),
    _scenario("negative", "5.5", "named", _asking(-1), status=500, says="Unable to set 'classification'"),
    _scenario("a string", "5.5", "named", _asking("2"), status=500, says="Unable to set 'classification'"),
    _scenario("a fraction", "5.5", "named", _asking(1.5), status=500, says="Unable to set 'classification'"),
    _scenario("true", "5.5", "named", _asking(True), status=500, says="Unable to set 'classification'"),
    _scenario(
        "with a region", "5.6", "named", _asking(1, shared_memory_region="r"), status=400,
        says="Output can't set both 'shared_memory_region' and 'classification'",
    ),
    _scenario(
        "a batch", "5.1", "rows", _asking(2, [*_FOUR, *reversed(_FOUR)], [2, 4]),
        expect={"json.outputs.0.shape.0": 2, "json.outputs.0.shape.1": 2},
    ),
    _scenario("a batch of one", "5.1", "rows", _asking(1, _FOUR, [1, 4])),
    _scenario("items of two dimensions", "5.2", "grids", _asking(3, list(range(12)), [2, 2, 3])),
    _scenario("two dimensions, no batch", "5.2", "grid", _asking(3, list(range(6)), [2, 3])),
    _scenario("ties", "5.2", "named", _asking(4, [1, 2, 2, 1])),
    _scenario("equal zeros", "5.2", "named", _asking(3, [0.0, -0.0, 0.0])),
    _scenario("sixteen ties", "5.2", "named", _asking(16, [float(n % 3) for n in range(16)])),
    _scenario("twenty zeros", "5.2", "named", _asking(20, [0.0] * 20)),
    _scenario("many zeros", "5.2", "named", _asking(300, [0.0] * 300)),
    _scenario("many ties", "5.2", "named", _asking(40, [float(n * 37 % 23) for n in range(500)])),
    _scenario("two values", "5.2", "named", _asking(5, [float(n % 2) for n in range(1000)])),
    _scenario("ties at the end of the list", "5.2", "named", _asking(3, [9, 8, *[7] * 30, 1])),
    _scenario("ascending pairs", "5.2", "named", _asking(4000, [float(n // 2) for n in range(4000)])),
    _scenario("descending pairs", "5.2", "named", _asking(100, [float(-n // 2) for n in range(3000)])),
    _scenario("many different values", "5.2", "named", _asking(5, [float(n * 37 % 211) for n in range(211)])),
    _scenario("all of many", "5.2", "named", _asking(300, [float(n * 37 % 211) for n in range(211)])),
    _scenario("decimals", "5.2", "named", _asking(4, [1e-7, 123456789.125, 0.1234567, 1e30])),
    _scenario("an ensemble has the labels of its step", "5.4", "inherits", _asking(3, _FOUR, [1, 4], name="X", out="Y")),
    _scenario("an ensemble of an ensemble", "5.4", "through", _asking(3, _FOUR, [1, 4], name="X", out="Y")),
    _scenario("only of the step that makes it", "5.4", "of_the_last", _asking(3, _FOUR, [1, 4], name="X", out="Y")),
    _scenario("an ensemble's own labels", "5.4", "own", _asking(3, _FOUR, [1, 4], name="X", out="Y")),
    _scenario(
        "an unknown output", "5.1 4.2", "named", _asking(1, out="N"), status=400,
        says="unexpected inference output 'N' for model 'named'",
    ),
    _scenario(
        "beside an ordinary output", "5.1", "kinds",
        {
            "inputs": [value("IN_FP32", "FP32", [2], [1, 2]), value("IN_INT32", "INT32", [2], [3, 4])],
            "outputs": [{"name": "OUT_FP32", "parameters": {"classification": 1}}, {"name": "OUT_INT32"}],
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize("scenario", INFERENCES, ids=lambda scenario: scenario.name)
def test_inference(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)


_VALUES: dict[str, list[Any]] = {
    "BOOL": [True, False, True],
    "UINT64": [0, 2**64 - 1, 7],
    "INT64": [0, -(2**63), 2**63 - 1],
    "INT8": [0, -128, 127],
    "FP64": [1e300, -0.5, 1 / 3],
}


def _of_type(kind: str) -> Scenario:
    values = _VALUES.get(kind, [1, 3, 2])
    entry = value(f"IN_{kind}", kind, [len(values)], values)
    headers: dict[str, str] = {}
    body: object = {
        "inputs": [entry],
        "outputs": [{"name": f"OUT_{kind}", "parameters": {"classification": 2}}],
    }
    if kind == "FP16":  # has no JSON form
        halves = struct.pack("<3e", 1, 3, 2)
        entry.pop("data")
        entry["parameters"] = {"binary_data_size": len(halves)}
        head = json.dumps(body).encode()
        headers = {"Inference-Header-Content-Length": str(len(head))}
        body = head + halves
    refused = kind in ("BOOL", "FP16")
    return infer(
        f"classes of {kind}", "5.5" if refused else "5.2", "kinds", body, headers,
        status=400 if refused else 200,
        says=f"class result not available for output due to unsupported type '{kind}'" if refused else None,
        server=_SERVER,
    )  # fmt: skip


KINDS = [_of_type(kind) for kind in TYPES if kind != "STRING"]  # which 2.51 does not survive


@pytest.mark.parametrize("scenario", KINDS, ids=lambda scenario: scenario.name)
def test_types(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)


def _message(count: Any, raw: bytes, shape: tuple[int, ...], model: str = "named") -> Any:
    name = "X" if model == "inherits" else "IN"
    message = request(model, raw=raw, shape=shape, name=name)
    output = message.outputs.add(name="Y" if model == "inherits" else "OUT")
    kind = "string_param" if isinstance(count, str) else "int64_param"
    setattr(output.parameters["classification"], kind, count)
    return message


def _floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


_NAN = math.nan
RPCS = [
    inference("gRPC classes: the highest", "10.22", _message(2, _floats(*_FOUR), (4,)), server=_SERVER),
    inference("gRPC classes: a batch", "10.22", _message(2, _floats(*_FOUR, *_FOUR), (2, 4), "rows"), server=_SERVER),
    inference("gRPC classes: an ensemble", "10.22 5.4", _message(9, _floats(*_FOUR), (1, 4), "inherits"), server=_SERVER),
    inference("gRPC classes: not a number", "5.2", _message(9, _floats(1, _NAN, 2, 0), (4,)), server=_SERVER),
    inference("gRPC classes: not a number first", "5.2", _message(9, _floats(_NAN, 1, 2), (3,)), server=_SERVER),
    inference("gRPC classes: negative, not a number", "5.2", _message(9, _floats(3, math.copysign(_NAN, -1), 2), (3,)), server=_SERVER),
    inference("gRPC classes: not a number among forty", "5.2", _message(40, _floats(*[_NAN if n % 7 == 3 else n * 11 % 40 for n in range(40)]), (40,)), server=_SERVER),
    inference("gRPC classes: a number among nothing", "5.2", _message(30, _floats(*[_NAN] * 12, 1.0, *[_NAN] * 17), (30,)), server=_SERVER),
    inference("gRPC classes: infinities", "5.2", _message(9, _floats(math.inf, 1, -math.inf), (3,)), server=_SERVER),
    inference(
        "gRPC classes: zero", "10.22", _message(0, _floats(*_FOUR), (4,)), server=_SERVER,
        code="INVALID_ARGUMENT", says="invalid value for 'classification' parameter",
    ),
    inference(
        "gRPC classes: negative", "10.22", _message(-3, _floats(*_FOUR), (4,)), server=_SERVER,
        code="INVALID_ARGUMENT", says="invalid value for 'classification' parameter",
    ),
    inference(
        "gRPC classes: a string", "10.22", _message("2", _floats(*_FOUR), (4,)), server=_SERVER,
        code="INVALID_ARGUMENT", says="invalid value type for 'classification' parameter, expected int64_param",
    ),
]  # fmt: skip


@pytest.mark.parametrize("scenario", RPCS, ids=lambda scenario: scenario.name)
def test_rpc(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)


def _streamed(target: Target, model: str) -> Answer:
    if model == "named":
        return talk(target, _message(2, _floats(*_FOUR), (4,)))
    message: pb.ModelInferRequest = asked("3 1 5+end", model=model)
    message.outputs.add(name="OUT").parameters["classification"].int64_param = 2
    return talk(target, message)


def _refusal(target: Target, model: str) -> Answer:
    index = json.loads(target.http("POST", "/v2/repository/index").body)
    (entry,) = (each for each in index if each["name"] == model)
    return {"state": entry.get("state", ""), "error": entry.get("reason", "")}


OTHERS = [
    *(
        Scenario(f"classes: a stream of {model}", ("10.22",), partial(_streamed, model=model), server=_SERVER)
        for model in ("named", "decoupled")
    ),
    *(
        Scenario(
            f"label file: {model}", ("11.17",), partial(_refusal, model=model), says=says,
            expect={"state": "UNAVAILABLE"}, server=_SERVER,
        )
        for model, says in (
            ("missing_file", "failed to open text file for read "),
            ("outside", "is outside model directory"),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("scenario", OTHERS, ids=lambda scenario: scenario.name)
def test_others(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)
