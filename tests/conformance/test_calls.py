"""Models that ask the server: other models, loads and unloads, metrics of their own (rows 15.20 to 15.26, 8.34)."""

import json
from functools import partial
from typing import Any

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.wire import Answer, Target, value

_NOT_READY = "Failed for execute the inference request. Model '{}' is not ready."

PROBES: tuple[tuple[str, str, str], ...] = (
    ("early", "15.20", "BLS is only supported during the 'execute' function."),
    ("exec", "15.20", ""),
    ("bytes-name", "15.20", ""),
    ("words", "15.20", ""),
    ("no-outputs", "15.20", ""),
    ("again", "15.20", ""),
    ("version", "15.20", ""),
    ("seen", "15.20", ""),
    ("seen-plain", "15.20", ""),
    ("seen-text", "15.20", ""),
    ("memory", "15.20 15.23", ""),
    ("trace", "15.20", ""),
    ("async", "15.20", ""),
    ("threads", "15.20", ""),
    ("unknown-model", "15.21", _NOT_READY.format("absent")),
    ("async-unknown-model", "15.21", _NOT_READY.format("absent")),
    ("unknown-version", "15.21", _NOT_READY.format("identity")),
    ("unknown-input", "15.21", "unexpected inference input 'WHAT' for model 'identity'"),
    ("unknown-output", "15.21", "unexpected inference output 'WHAT' for model 'identity'"),
    ("wrong-shape", "15.21", "unexpected shape for input 'IN' for model 'identity'. Expected [4], got [3]."),
    ("wrong-type", "15.21", "data-type is 'INT32', but model 'identity' expects 'FP32'"),
    ("fails", "15.21", "told to fail with NOT_FOUND"),
    ("raises", "15.21", ""),
    ("iterate", "15.21", ""),
    ("iterate-flagged", "15.21", ""),
    ("iterate-nothing", "15.21", ""),
    ("iterate-error", "15.21", "told to fail"),
    ("iterate-ordinary", "15.21", ""),
    ("iterate-unknown", "15.21", _NOT_READY.format("absent")),
    ("await-iterators", "15.21", ""),
    ("not-decoupled", "15.21", "Please use 'decoupled=True' argument to the 'exec' or 'async_exec' calls"),
    ("cancel", "15.21", ""),
    ("empty-input", "15.20", "should not be empty."),
    ("empty-output", "15.20", "should not be empty."),
    ("missing-inputs", "15.20", "inputs"),
    ("bad-correlation", "15.20", "Correlation ID must be integer or string"),
    ("bad-parameters", "15.20", "Expect parameters values to have type bool/int/str, found type <class 'float'>"),
    ("bad-parameter-name", "15.20", "Expect parameters keys to have type str, found type <class 'int'>"),
    ("parameters", "15.20", ""),
    ("deleted", "15.26", "Invalid metric operation as the corresponding 'MetricFamily' has been deleted."),
    ("no-labels", "15.26", ""),
    ("labels-list", "15.26", "Failed to create metric. Labels must be a dictionary."),
    ("buckets-counter", "15.26", "Failed to create metric. Unexpected buckets found."),
    ("buckets-none", "15.26", "Failed to create metric. Missing required buckets."),
    ("buckets-tuple", "15.26", "Failed to create metric. Buckets must be a list."),
    ("control", "15.24", ""),
    ("load-sent", "15.24 7.16", ""),
    ("load-sent-slash", "15.24 7.17", ""),
    ("load-files", "15.24", "files should be a dictionary of file paths and file contents"),
    ("unload-unknown", "15.24", ""),
    ("ready-unknown", "15.24", ""),
)  # fmt: skip

_EXPECTED: dict[str, dict[str, object]] = {
    "iterate-error": {"report.first.1.message": "told to fail", "report.again.1.message": "told to fail"},
    "cancel": {"report.0.OUT.0": 0, "report.1": {}},
}  # fmt: skip
"""What the row states of a probe's report where 2.51 does not do it."""

REFUSED: tuple[tuple[str, str, str], ...] = (
    ("negative", "15.26", "COUNTER can only be incremented monotonically by non-negative values."),
    ("set-counter", "15.26", "TRITONSERVER_METRIC_KIND_COUNTER does not support Set"),
    ("observe-counter", "15.26", "TRITONSERVER_METRIC_KIND_COUNTER does not support Observe"),
    ("observe-gauge", "15.26", "TRITONSERVER_METRIC_KIND_GAUGE does not support Observe"),
    ("increment-histogram", "15.26", "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Increment"),
    ("set-histogram", "15.26", "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Set"),
    ("value-histogram", "15.26", "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Value"),
    ("other-kind", "15.26", "Family name already exists with different type"),
    ("labels-numbers", "15.26", "Error when creating Metric: "),
    ("buckets-falling", "15.26", "Bucket Boundaries must be strictly sorted"),
    ("load-unknown", "15.24", "failed to load 'absent', failed to poll from model repository"),
    ("load-broken", "15.24", "load failed for model 'raising': version 1 is at UNAVAILABLE state: "),
    ("load-sent-outside", "15.24 7.17", "failed to load 'sent', failed to poll from model repository"),
    ("load-sent-no-config", "15.24 7.16", "failed to load 'sent', failed to poll from model repository"),
    ("load-sent-wrong-config", "15.24 7.15", "failed to load 'sent', failed to poll from model repository"),
    ("ready-version", "15.24", "failed to get model version from specified version string 'x'"),
    ("ready-negative", "15.24", "version should be an integral value > 0"),
)  # fmt: skip
"""What the server refuses: 2.51 says the same, but aborts now and then while it does (boost's lock_exception), so only Naiad is asked,
by the wire tests."""


def _report(target: Target, probe: str) -> Any:
    reply = target.infer("calling", {"inputs": [value("PROBE", "BYTES", [1], [probe])]})
    assert reply.status == 200, reply.body
    return json.loads(json.loads(reply.body)["outputs"][0]["data"][0])


def _probe(target: Target, probe: str, says: str) -> Answer:
    return {"report": _shortened(_report(target, probe), says)}


def _shortened(found: Any, says: str) -> Any:
    """The report, its texts only as far as the row gives them."""
    if isinstance(found, dict):
        return {
            key: says
            if key in {"text", "message"} and says and says in each
            else _shortened(each, says)
            for key, each in found.items()
        }
    return [_shortened(each, says) for each in found] if isinstance(found, list) else found


def _page(target: Target) -> list[str]:
    page = target.http("GET", "/metrics", port=target.process.ports.metrics).body.decode()
    lines = page.splitlines()
    return sorted(
        line
        for line in lines
        if "calling_" in line and "_wrong_" not in line and "_family_" not in line
    )


def _metrics(target: Target) -> Answer:
    values = [_report(target, probe) for probe in ("counter", "gauge", "histogram")]
    return {"values": values, "page": _page(target)}


def _counted(target: Target) -> Answer:
    """What two calls, one of which fails, add to the statistics of the model that is asked."""
    before = _successes(target)
    for probe in ("again", "wrong-shape"):
        _report(target, probe)
    after = _successes(target)
    return {key: after[key] - before[key] for key in after}


def _successes(target: Target) -> dict[str, int]:
    reply = target.http("GET", "/v2/models/identity/stats")
    (found,) = json.loads(reply.body)["model_stats"]
    counted = found["inference_stats"]
    return {key: int(counted[key]["count"]) for key in ("success", "fail")} | {
        key: int(found[key]) for key in ("inference_count", "execution_count")
    }


SCENARIOS = [
    *(
        Scenario(
            f"calls: {probe}",
            tuple(rows.split()),
            partial(_probe, probe=probe, says=says),
            expect=_EXPECTED.get(probe, {}),
            mask=("report.execution",),
            server="calls",
        )
        for probe, rows, says in PROBES
    ),
    Scenario("calls: metrics on the page", ("8.34", "15.26"), _metrics, server="calls"),
    Scenario(
        "calls: statistics",
        ("15.20", "8.3"),
        _counted,
        expect={"success": 2, "fail": 0},
        server="calls",
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_calls_of_models_to_the_server_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
