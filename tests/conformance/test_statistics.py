"""Statistics (8.1 to 8.11): counts are compared, times are not."""

import json

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, http
from tests.conformance.scenarios.settled import settled
from tests.conformance.scenarios.wire import Answer, Target, value


def _stats(target: Target, model: str) -> Answer:
    return target.http("GET", f"/v2/models/{model}/stats").answer()


def _counted(target: Target) -> Answer:
    """Two requests, of two rows and of one, and one that validation refuses."""
    before = json.loads(target.http("GET", "/v2/models/counted/stats").body)["model_stats"][0]
    for rows in (2, 1, 9):
        target.infer("counted", {"inputs": [value("DELAY_MS", "INT32", [rows, 1], [1] * rows)]})
    after = _stats(target, "counted")
    stat = after["json"]["model_stats"][0]
    return {
        "before": before["inference_count"],
        **after,
        "recent": stat["last_inference"] > 1_500_000_000_000,
    }


def _identities(target: Target) -> Answer:
    stat = _stats(target, "counted")["json"]["model_stats"][0]
    inference = stat["inference_stats"]
    success = inference["success"]["count"]
    return {
        "queue": inference["queue"]["count"] == success,
        "compute": all(
            inference[f"compute_{part}"]["count"] == success
            for part in ("input", "infer", "output")
        ),
        "rows": stat["inference_count"]
        == sum(b["batch_size"] * b["compute_infer"]["count"] for b in stat["batch_stats"]),
        "runs": stat["execution_count"]
        == sum(b["compute_infer"]["count"] for b in stat["batch_stats"]),
        "time": inference["success"]["ns"] >= inference["compute_infer"]["ns"] > 0,
    }


def _mode(target: Target, mode: str) -> int:
    return target.infer(
        "counted_failures", {"inputs": [value("MODE", "BYTES", [1], [mode])]}
    ).status


def _failed(target: Target) -> Answer:
    """One execution that raises, then one good request: what each adds."""
    found: Answer = {}
    last = _counts(target)
    for mode in ("raise", "good", "code:NOT_FOUND"):
        _mode(target, mode)
        now = settled(lambda: _counts(target), last)
        found[mode] = {name: now[name] - last[name] for name in now}
        last = now
    return found


def _counts(target: Target) -> dict[str, int]:
    stat = _stats(target, "counted_failures")["json"]["model_stats"][0]
    inference = stat["inference_stats"]
    found = {
        name: inference[name]["count"] for name in ("success", "fail", "queue", "compute_infer")
    }
    return found | {name: stat[name] for name in ("inference_count", "execution_count")}


def _all_names(target: Target) -> Answer:
    models = json.loads(target.http("GET", "/v2/models/stats").body)["model_stats"]
    return {
        "models": sorted(
            [m["name"], m["version"]] for m in models if not m["name"].startswith("broken")
        )
    }


_MEMORY = "*memory_usage*"
"""What a load takes differs, and 2.51 tracks no load on the CPU; its form is a scenario of its own."""

_TIMES = ("*.ns", "*last_inference", _MEMORY)


def _memory(target: Target) -> Answer:
    """Whether every entry of memory_usage has the members of row 8.7 and no others."""
    models = json.loads(target.http("GET", "/v2/models/stats").body)["model_stats"]
    return {
        "lists": all(isinstance(model["memory_usage"], list) for model in models),
        "entries": all(
            sorted(entry) == ["byte_size", "id", "type"]
            and entry["type"] in {"CPU", "CPU_PINNED", "GPU"}
            and entry["id"] >= 0 < entry["byte_size"]
            for model in models
            for entry in model["memory_usage"]
        ),
    }


SCENARIOS = [
    http(
        "statistics of an idle model",
        "8.1 8.2 8.3 8.6",
        "GET",
        "/v2/models/finalizing/stats",
        status=200,
        mask=(_MEMORY,),
    ),
    Scenario("memory usage", ("8.7",), _memory, expect={"lists": True, "entries": True}),
    http(
        "statistics of all versions",
        "8.1",
        "GET",
        "/v2/models/versions_all/stats",
        status=200,
        mask=(*_TIMES, "*.count", "*_count", "*.batch_stats*"),
    ),
    http(
        "statistics of one version",
        "8.1",
        "GET",
        "/v2/models/versions_latest/versions/2/stats",
        mask=_TIMES,
        status=200,
    ),
    Scenario("statistics of all models", ("8.1",), _all_names),
    http(
        "statistics of an unknown model",
        "8.8",
        "GET",
        "/v2/models/nope/stats",
        status=400,
        says="requested model 'nope' is not available",
    ),
    http(
        "statistics of an absent version",
        "8.8",
        "GET",
        "/v2/models/identity/versions/9/stats",
        status=400,
        says="requested model version is not available for model 'identity'",
    ),
    http(
        "statistics of a model that failed",
        "8.8",
        "GET",
        "/v2/models/broken_initialize/stats",
        status=400,
        says="requested model 'broken_initialize' is not available",
    ),
    Scenario(
        "counts after requests",
        ("8.2", "8.3", "8.4", "8.5"),
        _counted,
        mask=_TIMES,
        expect={
            "before": 0,
            "recent": True,
            "json.model_stats.0.inference_count": 3,
            "json.model_stats.0.execution_count": 2,
        },
    ),
    Scenario(
        "identities of the counts",
        ("8.4",),
        _identities,
        expect={"queue": True, "compute": True, "rows": True, "runs": True, "time": True},
    ),
    Scenario(
        "failures",
        ("8.11", "8.3"),
        _failed,
        expect={
            "raise.fail": 1,
            "raise.success": 0,
            "raise.execution_count": 0,
            "code:NOT_FOUND.fail": 1,
            "code:NOT_FOUND.success": 0,
        },
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_statistics_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
