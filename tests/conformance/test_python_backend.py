"""The python backend: execute's contract, errors of each code, and pb_utils as a model finds it (section 15)."""

import time
from functools import partial
from typing import Any

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, infer
from tests.conformance.scenarios.wire import Answer, Target, value


def _mode(mode: str) -> dict[str, Any]:
    return {"inputs": [value("MODE", "BYTES", [1], [mode])], "id": "m"}


def _probe(target: Target, name: str) -> Answer:
    return target.infer("toolbox", {"inputs": [value("PROBE", "BYTES", [1], [name])]}).report()


def _logged(target: Target) -> Answer:
    before = len(target.process.output())
    target.infer("misbehave", _mode("log:checked"))
    # The reference's stub hands lines to the server on a thread of its own: the answer may come before the last of them.
    end = time.monotonic() + 5
    lines: list[str] = []
    while not any("by argument" in line for line in lines) and time.monotonic() < end:
        time.sleep(0.01)
        lines = [
            line for line in target.process.output()[before:].splitlines() if "checked" in line
        ]
    levels = {
        level: any(line.startswith(level) for line in lines if wanted in line)
        for wanted, level in (
            ("level info", "I"),
            ("level warn", "W"),
            ("level error", "E"),
            ("of no level", "I"),
            ("by argument", "W"),
        )
    }
    return {"levels": levels, "verbose": any("level verbose" in line for line in lines)}


def _finalized(target: Target) -> Answer:
    return {"initialized": "finalizing: initialize was called" in target.process.output()}


_CODES = (
    ("UNKNOWN", 400, "UNKNOWN"),
    ("INTERNAL", 500, "INTERNAL"),
    ("NOT_FOUND", 404, "NOT_FOUND"),
    ("INVALID_ARG", 400, "INVALID_ARGUMENT"),
    ("UNAVAILABLE", 503, "UNAVAILABLE"),
    ("UNSUPPORTED", 501, "UNIMPLEMENTED"),
    ("ALREADY_EXISTS", 400, "ALREADY_EXISTS"),
    ("CANCELLED", 400, "CANCELLED"),
)
GRPC_CODES = {name: code for name, _, code in _CODES}

EXECUTE = (
    [
        infer(f"execute: {mode}", rows, "misbehave", _mode(mode), status=status, says=says)
        for rows, mode, status, says in (
            ("15.6", "good", 200, None),
            ("15.7", "raise", 500, "execute went wrong on purpose"),
            ("15.6", "not-a-list", 500, "Expected a list in the execute return"),
            ("15.6", "too-many", 500, "Number of InferenceResponse objects do not match"),
            ("15.6", "too-few", 500, "Number of InferenceResponse objects do not match"),
            ("15.6", "not-a-response", 500, "Expected an 'InferenceResponse' object"),
            ("15.14 15.15", "error:x", 500, "told to fail with x"),
            ("4.17", "unknown-output", 200, None),
            ("4.17", "no-outputs", 200, None),
            ("4.17", "wrong-type", 200, None),
            ("4.17", "wrong-shape", 200, None),
            (
                "3.37 15.13",
                "bad-parameters",
                500,
                "Failed to process the request(s) for model 'misbehave_0', message: ",
            ),
            ("15.25", "log:x", 200, None),
        )
    ]
    + [
        infer(
            "execute: parameters",
            "3.37 15.13",
            "misbehave",
            _mode("parameters"),
            expect={
                "json.parameters.flag": True,
                "json.parameters.count": 7,
                "json.parameters.low": -3,
                "json.parameters.text": "héllo",
            },
        ),
        infer(
            "execute raises",
            "15.7 1.1",
            "misbehave",
            _mode("raise"),
            status=500,
            says="Failed to process the request(s) for model",
        ),
    ]
    + [
        infer(
            f"TritonError {name}",
            "15.14 15.15 1.1",
            "misbehave",
            _mode(f"code:{name}"),
            status=status,
            says=f"told to fail with {name}",
        )
        for name, status, _ in _CODES
    ]
)


_PROBES = {
    "tensor": "15.11",
    "tensor-dtypes": "15.11",
    "bytes-tensor": "15.11",
    "dlpack": "15.11",
    "triton-dtype": "15.11",
    "empty-name": "15.11",
    "string-dlpack": "15.11",
    "non-contiguous": "15.11",
    "error-not-triton": "15.13",
    "request": "15.12",
    "response": "15.13 15.14",
    "helpers": "15.28 15.35",
    "types": "15.28",
    "serialize": "15.28",
    "arguments": "15.2 15.28",
    "config": "15.2",
    "sibling": "15.1",
}

_EXPECTED: dict[str, dict[str, object]] = {
    "response": {"report.outputs.0": "A", "report.message": "no", "report.parameters.k": 1},
    "triton-dtype": {"report": 11},
}
"""What the row states of a probe's report where 2.51 does not do it."""
TOOLBOX = [
    Scenario(
        f"pb_utils: {name}",
        tuple(rows.split()),
        partial(_probe, name=name),
        expect={"status": 200, **_EXPECTED.get(name, {})},
    )
    for name, rows in _PROBES.items()
]


OTHERS = [
    Scenario(
        "log lines of a model",
        ("15.25",),
        _logged,
        expect={"levels.I": True, "levels.W": True, "levels.E": True, "verbose": False},
    ),
    Scenario(
        "initialize is called once at load",
        ("15.2", "15.25"),
        _finalized,
        expect={"initialized": True},
    ),
    Scenario(
        "another model file",
        ("11.6", "15.1"),
        lambda target: {"version": target.report("named_file")["report"]["version"]},
        expect={"version": "1"},
    ),
]

SCENARIOS = [*EXECUTE, *TOOLBOX, *OTHERS]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_python_backend_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
