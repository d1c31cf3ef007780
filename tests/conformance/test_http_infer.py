"""Inference over HTTP: how requests are read and replies written (section 3), compression and forwarded headers."""

import json
from typing import Any

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, infer
from tests.conformance.scenarios.wire import FOUR, four, value, with_binary


def _with(*outputs: Any, **more: Any) -> dict[str, Any]:
    return {"inputs": _TWO, "outputs": list(outputs), **more}


_BINARY = {"inputs": [value("IN", "FP32", [4], None, binary_data_size=16)]}
_TWO = [value("IN0", "INT32", [1, 2], [1, 2]), value("IN1", "FP32", [1, 2], [0.5, 0.1])]
_ONE_FIELD = "Input must set only one of the following fields"


PLAIN = [
    infer(
        "a JSON request",
        "3.33 1.9",
        "identity",
        four(),
        expect={"type": "application/json", "json.outputs.0.data.0": 1.0},
    ),
    infer("id is echoed", "3.22", "identity", four(id="abc"), expect={"json.id": "abc"}),
    infer("an empty id is not echoed", "3.22", "identity", four(id="")),
    infer(
        "an id that is not a string",
        "3.7",
        "identity",
        four(id=5),
        status=500,
        says="Unable to parse 'id': attempt to access JSON non-string as string",
    ),
    infer(
        "a version in the URL",
        "1.6 3.33",
        "versions_all/versions/1",
        {"inputs": [value("DELAY_MS", "INT32", [1], [0])]},
        expect={"json.model_version": "1"},
        mask=("json.outputs*",),
    ),
    infer("nested data", "3.14", "identity", four([[1, 2], [3, 4]])),
    infer("data nested deeper than the shape", "3.14", "identity", four([[[1, 2, 3, 4]]])),
    infer("data nested unevenly", "3.14", "identity", four([1, [2, 3], 4])),
    infer(
        "matrix data is written flat",
        "3.33 3.14",
        "matrix",
        {"inputs": [value("IN", "FP32", [2, 2], [[1, 2], [3, 4]])]},
    ),
    infer("more members than are known", "3.33", "identity", four(extra={"a": [1]})),
]

OUTPUTS = [
    infer("one output asked for", "3.29", "two", _with({"name": "OUT1"})),
    infer(
        "two outputs asked for the other way round",
        "3.29",
        "two",
        _with({"name": "OUT1"}, {"name": "OUT0"}),
        expect={"json.outputs.0.name": "OUT0", "json.outputs.1.name": "OUT1"},
    ),
    infer("an empty list of outputs", "3.29", "two", _with()),
    infer(
        "an output that is unknown",
        "3.29",
        "identity",
        four(outputs=[{"name": "NOPE"}]),
        status=400,
        says="unexpected inference output 'NOPE'",
    ),
    infer(
        "an output twice",
        "3.20",
        "identity",
        four(outputs=[{"name": "OUT"}, {"name": "OUT"}]),
        status=400,
        says="output 'OUT' already exists in request",
    ),
    infer(
        "an input twice",
        "3.20",
        "identity",
        {"inputs": four()["inputs"] * 2},
        status=400,
        says="input 'IN' already exists in request",
    ),
    infer(
        "a binary output",
        "3.32 1.9",
        "identity",
        four(outputs=[{"name": "OUT", "parameters": {"binary_data": True}}]),
        expect={"type": "application/octet-stream", "binary": FOUR.hex()},
    ),
    infer(
        "binary and JSON outputs",
        "3.30 3.32",
        "two",
        _with({"name": "OUT0"}, {"name": "OUT1", "parameters": {"binary_data": True}}),
    ),
    infer(
        "all outputs binary by default",
        "3.30",
        "identity",
        four(parameters={"binary_data_output": True}),
        expect={"binary": FOUR.hex()},
    ),
    infer(
        "the default is not for outputs that are listed",
        "3.30",
        "two",
        _with({"name": "OUT1"}, parameters={"binary_data_output": True}),
        expect={"type": "application/json"},
    ),
    infer(
        "binary_data_output that is not a boolean",
        "3.23",
        "identity",
        four(parameters={"binary_data_output": 1}),
        status=500,
        says="Unable to parse 'binary_data_output'",
    ),
    infer(
        "binary_data that is not a boolean",
        "3.7",
        "identity",
        four(outputs=[{"name": "OUT", "parameters": {"binary_data": 1}}]),
        status=500,
        says="Unable to parse 'binary_data'",
    ),
    infer(
        "unknown parameters of an output",
        "3.26",
        "identity",
        four(outputs=[{"name": "OUT", "parameters": {"foo": 1}}]),
    ),
    infer(
        "an empty binary output is plain JSON",
        "3.32 3.36",
        "types",
        {
            "inputs": [value("IN_FP32", "FP32", [0], [])],
            "outputs": [{"name": "OUT_FP32", "parameters": {"binary_data": True}}],
        },
        expect={"type": "application/json", "json.outputs.0.parameters.binary_data_size": 0},
    ),
    infer(
        "an empty output in JSON", "3.36", "types", {"inputs": [value("IN_FP32", "FP32", [0], [])]}
    ),
    infer(
        "outputs that are not a list",
        "3.7",
        "identity",
        four(outputs={}),
        status=500,
        says="Unable to parse 'outputs'",
    ),
    infer(
        "an output without a name",
        "3.7",
        "identity",
        four(outputs=[{}]),
        status=500,
        says="attempt to access non-existing object member 'name'",
    ),
]

BINARY = (
    [
        infer("a binary input", "3.9 3.3", "identity", *with_binary(_BINARY, FOUR)),
        infer(
            "two binary inputs in order",
            "3.9",
            "two",
            *with_binary(
                {
                    "inputs": [
                        value("IN1", "FP32", [1, 2], None, binary_data_size=8),
                        value("IN0", "INT32", [1, 2], None, binary_data_size=8),
                    ]
                },
                FOUR[:8],
                b"\1\0\0\0\2\0\0\0",
            ),
        ),
        infer(
            "binary and JSON inputs",
            "3.9",
            "two",
            *with_binary(
                {
                    "inputs": [
                        value("IN0", "INT32", [1, 2], [5, 6]),
                        value("IN1", "FP32", [1, 2], None, binary_data_size=8),
                    ]
                },
                FOUR[:8],
            ),
        ),
        infer(
            "binary data that is too short",
            "3.10",
            "identity",
            *with_binary(_BINARY, FOUR[:8]),
            status=400,
            says="expecting 8 additional bytes for model",
        ),
        infer(
            "binary data that is left over",
            "3.10",
            "identity",
            *with_binary(_BINARY, FOUR, b"xx"),
            status=400,
            says="unexpected additional input data for model",
        ),
        infer(
            "an empty binary tensor",
            "3.10",
            "types",
            *with_binary({"inputs": [value("IN_FP32", "FP32", [0], None, binary_data_size=0)]}),
        ),
        infer(
            "binary data size without a header length",
            "3.10",
            "identity",
            _BINARY,
            status=400,
            says="expecting 16 additional bytes for model",
        ),
        infer(
            "a negative binary data size",
            "3.10",
            "identity",
            *with_binary({"inputs": [value("IN", "FP32", [4], None, binary_data_size=-1)]}),
            status=500,
            says="Unable to parse 'binary_data_size'",
        ),
        infer(
            "a binary data size that is not a number",
            "3.10",
            "identity",
            *with_binary({"inputs": [value("IN", "FP32", [4], None, binary_data_size="x")]}),
            status=500,
            says="Unable to parse 'binary_data_size'",
        ),
        infer(
            "no source of data",
            "3.8",
            "identity",
            {"inputs": [value("IN", "FP32", [4], None)]},
            status=400,
            says=_ONE_FIELD,
        ),
        infer(
            "two sources of data",
            "3.8",
            "identity",
            {"inputs": [value("IN", "FP32", [4], [1, 2, 3, 4], binary_data_size=16)]},
            status=400,
            says=_ONE_FIELD,
        ),
        infer(
            "data and a region",
            "3.8",
            "identity",
            {
                "inputs": [
                    value(
                        "IN",
                        "FP32",
                        [4],
                        [1, 2, 3, 4],
                        shared_memory_region="a",
                        shared_memory_byte_size=16,
                    )
                ]
            },
            status=400,
            says=_ONE_FIELD,
        ),
        infer(
            "unknown parameters of an input",
            "3.26",
            "identity",
            {"inputs": [value("IN", "FP32", [4], [1, 2, 3, 4], foo=1)]},
        ),
    ]
    + [
        infer(
            f"header length {length!r}",
            "3.3",
            "identity",
            json.dumps(four()),
            {"Inference-Header-Content-Length": length},
            status=400,
            says=says,
        )
        for length, says in (
            ("-1", "inference header size should be in range"),
            ("999", "inference header size should be in range"),
            ("2147483648", "got: 2147483648"),
            ("x", "Unable to parse"),
            ("", "Unable to parse"),
        )
    ]
    + [
        infer(
            "header length of the whole body",
            "3.3",
            "identity",
            json.dumps(four()),
            {"Inference-Header-Content-Length": str(len(json.dumps(four())))},
        ),
    ]
)

_RAW = {"Inference-Header-Content-Length": "0"}
RAW = [
    infer(
        "raw mode",
        "3.4 3.5",
        "identity",
        FOUR,
        _RAW,
        expect={"type": "application/octet-stream", "binary": FOUR.hex()},
    ),
    infer(
        "raw mode with batching", "3.4", "batched", FOUR, _RAW, expect={"json.outputs.0.shape.0": 1}
    ),
    infer(
        "raw mode deduces the variable dimension",
        "3.4",
        "matrix",
        FOUR,
        _RAW,
        expect={"json.outputs.0.shape.0": 2},
    ),
    infer(
        "raw mode with two inputs",
        "3.4",
        "two",
        FOUR,
        _RAW,
        status=400,
        says="Raw request must only have 1 input",
    ),
    infer(
        "raw mode with two variable dimensions",
        "3.4",
        "wild",
        FOUR,
        _RAW,
        status=400,
        says="more than one variable-sized dimension",
    ),
    infer(
        "raw mode with a length that does not fit",
        "3.4",
        "identity",
        FOUR[:8],
        _RAW,
        status=400,
        says="Expected 16, got 8",
    ),
    infer(
        "raw mode of one string",
        "3.5",
        "words_one",
        b"hello",
        _RAW,
        expect={"binary": "0500000068656c6c6f"},
    ),
    infer(
        "raw mode of strings of variable number",
        "3.5",
        "words",
        b"hello",
        _RAW,
        status=400,
        says="must have input shape [1]",
    ),
]


SCENARIOS = [*PLAIN, *OUTPUTS, *BINARY, *RAW]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_http_inference_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
