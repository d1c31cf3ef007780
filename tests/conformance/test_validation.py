"""What the core says about a request's tensors (section 4), JSON elements of every datatype, and request parameters."""

import json
from typing import Any

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenario import Scenario, infer
from tests.conformance.wire import FOUR, Answer, Target, four, strings, value, with_binary


def _one(datatype: str, data: list[Any], shape: list[int] | None = None) -> dict[str, Any]:
    name = "IN_STRING" if datatype == "BYTES" else f"IN_{datatype}"
    return {"inputs": [value(name, datatype, [len(data)] if shape is None else shape, data)]}


def _two(first: list[int], second: list[int]) -> dict[str, Any]:
    sizes = [1, 1]
    for place, shape in enumerate((first, second)):
        for dim in shape:
            sizes[place] *= dim
    return {
        "inputs": [
            value("IN0", "INT32", first, [1] * sizes[0]),
            value("IN1", "FP32", second, [1] * sizes[1]),
        ]
    }


# name, rows, model, request, fragment
_REJECTED: list[tuple[str, str, str, Any, str]] = [
    (
        "an input too many",
        "4.1",
        "identity",
        {"inputs": [*four()["inputs"], value("B", "FP32", [1], [1])]},
        "expected 1 inputs but got 2 inputs for model",
    ),
    (
        "an input too few",
        "4.1",
        "two",
        {"inputs": [value("IN0", "INT32", [1, 2], [1, 2])]},
        "expected 2 inputs but got 1 inputs for model",
    ),
    (
        "the missing input is named",
        "4.1",
        "two",
        {"inputs": [value("IN0", "INT32", [1, 2], [1, 2])]},
        "'IN1'",
    ),
    (
        "no inputs",
        "4.1",
        "identity",
        {"inputs": []},
        "expected 1 inputs but got 0 inputs for model",
    ),
    (
        "no inputs where some are optional",
        "4.1 4.10",
        "optional",
        {"inputs": []},
        "expected number of inputs between 1 and 3",
    ),
    (
        "a needed input missing beside an optional one",
        "4.1 4.10",
        "optional",
        {"inputs": [value("MAY", "INT32", [1], [1])]},
        "NEED",
    ),
    (
        "an unknown input",
        "4.2",
        "identity",
        {"inputs": [value("WRONG", "FP32", [4], [1, 2, 3, 4])]},
        "unexpected inference input 'WRONG' for model",
    ),
    (
        "another datatype",
        "4.3",
        "identity",
        {"inputs": [value("IN", "INT32", [4], [1, 2, 3, 4])]},
        "data-type is 'INT32', but model 'identity' expects 'FP32'",
    ),
    (
        "another rank",
        "4.4",
        "identity",
        four(shape=[2, 2]),
        "unexpected shape for input 'IN' for model 'identity'. Expected [4], got [2,2]",
    ),
    ("another dimension", "4.4", "identity", four([1, 2, 3], [3]), "Expected [4], got [3]"),
    (
        "a fixed dimension beside a variable one",
        "4.4",
        "matrix",
        {"inputs": [value("IN", "FP32", [2, 3], [1] * 6)]},
        "Expected [-1,2], got [2,3]",
    ),
    (
        "another dimension with batching",
        "4.4",
        "batched",
        four([1] * 5, [1, 5]),
        "Expected [-1,4], got [1,5]",
    ),
    ("the hint about the batch dimension", "4.4", "batched", four(shape=[4]), "max_batch_size"),
    (
        "a batch too large",
        "4.5",
        "batched",
        four([1] * 20, [5, 4]),
        "inference request batch-size must be <= 4 for 'batched'",
    ),
    ("batch sizes that differ", "4.6", "two", _two([1, 2], [2, 1]), "'IN0'"),
    ("no batch dimension at all", "4.6", "batched", four([1], []), "'IN'"),
    ("no batch dimension of one input", "4.6", "two", _two([1, 2], []), "'IN1'"),
    (
        "the reshaped shape instead of dims",
        "4.12",
        "reshaped",
        four(shape=[1, 2, 2]),
        "Expected [-1,4], got [1,2,2]",
    ),
    (
        "a message begins with the request's id",
        "1.3",
        "identity",
        four([1, 2, 3], [3], id="abc"),
        "[request id: abc] ",
    ),
    (
        "a message begins so without an id",
        "1.3",
        "identity",
        four([1, 2, 3], [3]),
        "[request id: <id_unknown>] ",
    ),
]

SHAPES = [
    infer(name, rows, model, request, status=400, says=says)
    for name, rows, model, request, says in _REJECTED
] + [
    infer(
        "too little data",
        "3.15",
        "identity",
        four([1, 2, 3]),
        status=500,
        says="hape does not match true shape",
    ),
    infer(
        "too much data",
        "3.15",
        "identity",
        four([1, 2, 3, 4, 5]),
        status=500,
        says="hape does not match true shape",
    ),
    infer(
        "a negative dimension",
        "3.18",
        "identity",
        four(shape=[-4]),
        status=500,
        says="Unable to parse 'shape': attempt to access JSON non-unsigned-integer",
    ),
    infer(
        "a dimension that is no integer",
        "3.18",
        "identity",
        '{"inputs":[{"name":"IN","datatype":"FP32","shape":[4.0],"data":[1,2,3,4]}]}',
        status=500,
        says="Unable to parse 'shape'",
    ),
    infer(
        "a dimension above uint64",
        "3.18",
        "wild",
        {"inputs": [value("IN", "FP32", [2**64, 1], [1])]},
        status=500,
        says="Unable to parse 'shape'",
    ),
    infer(
        "a shape whose product overflows",
        "3.18",
        "wild",
        {"inputs": [value("IN", "FP32", [2**62, 2], [1])]},
        status=400,
    ),
    # A shape whose byte size overflows is not asked: it ends the reference, or its stub.
    infer("an input of no elements in a batch", "4.4 3.36", "two", _two([1, 2], [1, 0])),
    infer("a request of several rows", "4.5", "batched", four([1] * 16, [4, 4])),
    infer(
        "an optional input absent",
        "4.10 15.35",
        "optional",
        {"inputs": [value("NEED", "INT32", [1], [1])]},
    ),
    infer(
        "an optional input given",
        "4.10",
        "optional",
        {"inputs": [value("NEED", "INT32", [1], [1]), value("MIGHT", "INT32", [1], [1])]},
    ),
    infer("all inputs are optional", "4.10", "types", {"inputs": []}),
    infer(
        "a reshape is invisible",
        "4.12",
        "reshaped",
        four(shape=[1, 4]),
        expect={"json.outputs.0.shape.1": 4},
    ),
    Scenario(
        "the model sees the reshaped shape",
        ("4.12", "11.12"),
        lambda target: _shapes(target),
        expect={"IN.1.1": 2, "ONE.1.0": 2},
    ),
    infer(
        "a priority without levels",
        "4.14 3.23",
        "report",
        {"inputs": [value("DELAY_MS", "INT32", [1], [0])], "parameters": {"priority": 9}},
        mask=("json.outputs*",),
    ),
]

BINARY = [
    infer(
        "a byte size too small",
        "4.8",
        "identity",
        *with_binary({"inputs": [value("IN", "FP32", [4], None, binary_data_size=8)]}, FOUR[:8]),
        status=400,
        says="input byte size mismatch for input 'IN' for model 'identity'. Expected 16, got 8",
    ),
    infer(
        "a byte size too large",
        "4.8",
        "identity",
        *with_binary(
            {"inputs": [value("IN", "FP32", [4], None, binary_data_size=20)]}, FOUR, b"1234"
        ),
        status=400,
        says="Expected 16, got 20",
    ),
    infer(
        "no bytes",
        "4.8 3.10",
        "identity",
        *with_binary({"inputs": [value("IN", "FP32", [4], None, binary_data_size=0)]}),
        status=400,
        says="Expected 16, got 0",
    ),
] + [
    infer(
        f"strings: {name}",
        "3.13 4.9",
        "types",
        *with_binary(
            {
                "inputs": [value("IN_STRING", "BYTES", [count], None, binary_data_size=len(data))],
                "outputs": [{"name": "OUT_STRING", "parameters": {"binary_data": True}}],
            },
            data,
        ),
        status=status,
        says=says,
    )
    for name, count, data, status, says in (
        ("two, one of them empty", 2, strings(b"ab", b""), 200, None),
        ("with a NUL and no UTF-8", 1, strings(b"\0\xff\xfe"), 200, None),
        ("none", 0, b"", 200, None),
        ("one too few", 2, strings(b"a"), 400, "expected 2 string elements"),
        ("one too many", 1, strings(b"a", b"b"), 400, "unexpected number of string elements 2"),
        (
            "a length beyond the data",
            1,
            b"\5\0\0\0ab",
            400,
            "expecting string of length 5 but only 2 bytes available",
        ),
        ("a length cut short", 1, b"\5\0", 400, "incomplete string length indicator"),
        ("a huge length", 1, b"\xff\xff\xff\xffab", 400, "incomplete string data"),
    )
]

_NUMBER = "attempt to access JSON non-number as double"
_SIGNED = "attempt to access JSON non-signed-integer as signed-integer"
_UNSIGNED = "attempt to access JSON non-unsigned-integer as unsigned-integer"
DATATYPES = (
    [
        infer(f"{datatype} {data}", rows, "types", _one(datatype, data))
        for rows, datatype, data in (
            ("3.14", "BOOL", [True, False]),
            ("3.14", "INT8", [1, -128]),
            ("3.14", "INT16", [1, -32768]),
            ("3.14", "INT32", [1, -(2**31)]),
            ("3.14", "INT64", [2**62, -(2**63)]),
            ("3.14", "UINT8", [255]),
            ("3.14", "UINT16", [65535]),
            ("3.14", "UINT32", [2**32 - 1]),
            ("3.14", "UINT64", [2**64 - 1]),
            ("3.34", "FP32", [1, 0.1, 1e38, -0.0]),
            ("3.34", "FP64", [1, 0.1, 1e300, 1 / 3]),
            ("3.36", "BYTES", ["a", "b\0c", "é", ""]),
            ("3.17", "INT8", [300, -129]),
            ("3.17", "INT16", [40000]),
            ("3.17", "INT32", [2**40]),
            ("3.17", "UINT8", [256]),
            ("3.17", "UINT16", [65536]),
            ("3.17", "UINT32", [2**32]),
            ("3.35", "FP32", [1e39]),
        )
    ]
    + [
        infer(
            f"{datatype} {data} is refused",
            "3.17",
            "types",
            _one(datatype, data),
            status=500,
            says=says,
        )
        for datatype, data, says in (
            ("BOOL", [1, 0], "attempt to access JSON non-boolean as boolean"),
            ("BOOL", ["true"], "attempt to access JSON non-boolean as boolean"),
            ("INT32", [1.0], _SIGNED),
            ("INT32", [True], _SIGNED),
            ("INT64", [2**63], _SIGNED),
            ("UINT8", [-1], _UNSIGNED),
            ("UINT64", [-1], _UNSIGNED),
            ("FP32", ["a"], _NUMBER),
            ("FP32", [True], _NUMBER),
            ("FP64", [None], _NUMBER),
            ("BYTES", [1], "attempt to access JSON non-string as string"),
        )
    ]
    + [
        infer(
            "NaN and infinities",
            "3.35",
            "types",
            '{"inputs":[{"name":"IN_FP32","datatype":"FP32","shape":[3],"data":[NaN,Infinity,-Infinity]}]}',
        ),
        infer(
            "nan in lower case",
            "3.35",
            "types",
            '{"inputs":[{"name":"IN_FP32","datatype":"FP32","shape":[1],"data":[nan]}]}',
            status=500,
            says="failed to parse the request JSON buffer",
        ),
        infer(
            "FP16 in JSON",
            "3.16",
            "types",
            _one("FP16", [1.0]),
            status=400,
            says="receiving FP16 data via JSON is not supported",
        ),
        infer(
            "FP16 out in JSON",
            "3.16",
            "half",
            *with_binary(
                {"inputs": [value("IN", "FP16", [2], None, binary_data_size=4)]}, b"\0<\0@"
            ),
            status=400,
            says="sending FP16 data via JSON is not supported",
        ),
        infer(
            "FP16 in binary",
            "3.16",
            "half",
            *with_binary(
                {
                    "inputs": [value("IN", "FP16", [2], None, binary_data_size=4)],
                    "outputs": [{"name": "OUT", "parameters": {"binary_data": True}}],
                },
                b"\0<\0@",
            ),
            expect={"binary": "003c0040"},
        ),
        infer(
            "special FP32 values out",
            "3.35 3.34",
            "misbehave",
            {"inputs": [value("MODE", "BYTES", [1], ["special"])]},
        ),
        infer(
            "special FP64 values out",
            "3.35 3.34",
            "misbehave",
            {"inputs": [value("MODE", "BYTES", [1], ["special64"])]},
        ),
    ]
)


def _shapes(target: Target) -> Answer:
    request = {
        "inputs": [value("IN", "FP32", [2, 4], [1] * 8), value("ONE", "INT32", [2, 1], [1, 2])]
    }
    found: Answer = target.infer("reshaped_seen", request).report()["report"]["inputs"]
    return found


def _seen(target: Target, parameters: dict[str, Any]) -> Answer:
    """What the model sees of a request with these parameters, less what is not about parameters."""
    request = {
        "id": "r",
        "inputs": [value("DELAY_MS", "INT32", [1], [0])],
        "parameters": parameters,
        "outputs": [{"name": "REPORT"}],
    }
    answer = target.infer("report", request).report()
    if "report" not in answer:
        return answer
    kept = ("id", "correlation", "flags", "timeout", "parameters", "outputs")
    return {"status": answer["status"], **{key: answer["report"][key] for key in kept}}


_RESERVED = "parameter keys starting with 'triton_' are reserved"
PARAMETERS = [
    Scenario(
        f"parameters {json.dumps(parameters)}",
        tuple(rows.split()),
        lambda target, p=parameters: _seen(target, p),
        says=says,
        expect={"status": status},
    )  # type: ignore[misc]  # mypy infers no default
    for rows, parameters, status, says in (
        ("3.26", {"a": 1, "b": -2, "c": "x", "d": True, "e": 1.5}, 200, None),
        ("3.26", {"unicode": "é", "": 1}, 200, None),
        ("3.26", {"big": 2**63}, 200, None),
        ("3.26", {"headers": 1}, 200, None),
        ("3.26", {"a": []}, 400, "parameter 'a' has invalid type"),
        ("3.26", {"a": {}}, 400, "parameter 'a' has invalid type"),
        ("3.26", {"a": None}, 400, "parameter 'a' has invalid type"),
        ("3.27", {"triton_x": 1}, 400, _RESERVED),
        ("3.27", {"triton_enable_empty_final_response": True}, 400, _RESERVED),
        ("3.23", {"timeout": 5}, 200, None),
        ("3.23", {"timeout": -5}, 500, "Unable to parse 'timeout'"),
        ("3.23", {"timeout": "5"}, 500, "Unable to parse 'timeout'"),
        ("3.23", {"timeout": 1.5}, 500, "Unable to parse 'timeout'"),
        ("3.23", {"priority": 1}, 200, None),
        ("3.23", {"priority": -1}, 500, "Unable to parse 'priority'"),
        ("3.23", {"priority": "1"}, 500, "Unable to parse 'priority'"),
        ("3.23", {"sequence_id": 5}, 200, None),
        ("3.23", {"sequence_id": "s"}, 200, None),
        ("3.23", {"sequence_id": -1}, 500, "Unable to parse 'sequence_id'"),
        ("3.23", {"sequence_id": 1.5}, 500, "Unable to parse 'sequence_id'"),
        ("3.23", {"sequence_start": True, "sequence_end": True}, 200, None),
        ("3.23", {"sequence_start": 1}, 500, "Unable to parse 'sequence_start'"),
        ("3.23", {"sequence_end": "x"}, 500, "Unable to parse 'sequence_end'"),
    )
]

SCENARIOS = [*SHAPES, *BINARY, *DATATYPES, *PARAMETERS]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_both_servers_give_the_same_answer(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
