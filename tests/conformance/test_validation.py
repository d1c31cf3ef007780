"""What the core says about a request's tensors (section 4)."""

from typing import Any

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, infer
from tests.conformance.scenarios.wire import FOUR, Answer, Target, four, strings, value, with_binary


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


def _given(target: Target, *names: str) -> Answer:
    """The inputs that the model finds when these are sent."""
    request = {"inputs": [value(name, "INT32", [1], [1]) for name in names]}
    found: Answer = target.infer("optional", request).report()["report"]["inputs"]
    return found


def _shapes(target: Target) -> Answer:
    request = {
        "inputs": [value("IN", "FP32", [2, 4], [1] * 8), value("ONE", "INT32", [2, 1], [1, 2])]
    }
    found: Answer = target.infer("reshaped_seen", request).report()["report"]["inputs"]
    return found


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
        "missing required input(s) ['NEED']",
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
        "a dimension that is not an integer",
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
        says="to exceed maximum size of 9223372036854775807",
    ),
    # A shape whose byte size overflows is not asked: it ends the reference, or its stub.
    infer("an input of no elements in a batch", "4.4 3.36", "two", _two([1, 2], [1, 0])),
    infer("a request of several rows", "4.5", "batched", four([1] * 16, [4, 4])),
    Scenario(
        "an optional input absent",
        ("4.10", "15.35"),
        lambda target: _given(target, "NEED"),
        expect={"NEED.0": "int32"},
    ),
    Scenario(
        "an optional input given",
        ("4.10",),
        lambda target: _given(target, "NEED", "MIGHT"),
        expect={"MIGHT.0": "int32"},
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
        _shapes,
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


SCENARIOS = [*SHAPES, *BINARY]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_validation_of_tensors_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
