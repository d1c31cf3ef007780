"""JSON elements of every datatype, and request parameters, in and out (3.14 to 3.17, 3.23 to 3.27, 3.34 to 3.36)."""

import json
from functools import partial
from typing import Any

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, infer
from tests.conformance.scenarios.wire import Answer, Target, value, with_binary


def _one(datatype: str, data: list[Any], shape: list[int] | None = None) -> dict[str, Any]:
    name = "IN_STRING" if datatype == "BYTES" else f"IN_{datatype}"
    return {"inputs": [value(name, datatype, [len(data)] if shape is None else shape, data)]}


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


_RESERVED = "parameter keys starting with 'triton_' are reserved"
PARAMETERS = [
    Scenario(
        f"parameters {json.dumps(parameters)}",
        tuple(rows.split()),
        partial(_seen, parameters=parameters),
        says=says,
        expect={"status": status},
    )
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

SCENARIOS = [*DATATYPES, *PARAMETERS]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_datatypes_and_parameters_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
