"""Statistics (8.1 to 8.11) and the metrics endpoint (8.12 to 8.31): counts are compared, times are not."""

import json
import re
import threading
import time
from typing import Any

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenario import ABSENT, Scenario, http
from tests.conformance.wire import Answer, Target, four, value


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
        now = _settled(target, last)
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


def _settled(target: Target, last: dict[str, int]) -> dict[str, int]:
    """The counts once they rest: Triton counts after it has answered."""
    before, now = last, _counts(target)
    end = time.monotonic() + 5
    while (now == last or now != before) and time.monotonic() < end:
        time.sleep(0.05)
        before, now = now, _counts(target)
    return now


def _all_names(target: Target) -> Answer:
    models = json.loads(target.http("GET", "/v2/models/stats").body)["model_stats"]
    return {
        "models": sorted(
            [m["name"], m["version"]] for m in models if not m["name"].startswith("broken")
        )
    }


def _metrics(target: Target) -> list[tuple[str, dict[str, str], float]]:
    text = target.http("GET", "/metrics", port=target.process.ports.metrics).body.decode()
    found = []
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is not None:
            labels = dict(re.findall(r'(\w+)="([^"]*)"', match["labels"] or ""))
            found.append((match["family"], labels, float(match["value"])))
    return found


def _families(target: Target) -> Answer:
    """TYPE and HELP of each of Triton's families."""
    text = target.http("GET", "/metrics", port=target.process.ports.metrics).body.decode()
    lines = [line.split(" ", 3) for line in text.splitlines() if line.startswith("# ")]
    return {f"{kind} {family}": rest for _, kind, family, rest in lines if family.startswith("nv_")}


def _of(target: Target, model: str, *, values: bool) -> Answer:
    """All of a model's nv_ series, with their labels; values too, but for durations."""
    found: Answer = {}
    for family, labels, number in _metrics(target):
        if family.startswith("nv_") and labels.get("model") == model:
            key = f"{family} {json.dumps(labels, sort_keys=True)}"
            found[key] = number if values and "duration" not in family else "there"
    return found


def _reasons(target: Target) -> Answer:
    """Which failure counter an error of the model, a full queue and a client's mistake move."""

    def snapshot() -> dict[str, float]:
        return {
            f"{labels['model']} {labels['reason']}": number
            for family, labels, number in _metrics(target)
            if family == "nv_inference_request_failure"
            and labels["model"] in {"misbehave", "identity"}
        }

    before = snapshot()
    target.infer("misbehave", {"inputs": [value("MODE", "BYTES", [1], ["raise"])]})
    target.infer("identity", four([1, 2, 3], [3]))
    after = snapshot()
    return {key: after[key] - before[key] for key in after}


def _lines(target: Target) -> Answer:
    """The series without labels. Their values are the machine's."""
    return {
        family: "there"
        for family, labels, _ in _metrics(target)
        if not labels and family.startswith("nv_")
    }


def _path(target: Target, method: str, path: str) -> Answer:
    reply = target.http(method, path, port=target.process.ports.metrics)
    return {
        "status": reply.status,
        "type": reply.headers.get("content-type") if reply.body and reply.status == 200 else None,
        "empty": not reply.body,
    }


def _after(target: Target) -> Answer:
    before = _of(target, "words", values=True)
    for _ in range(2):
        target.infer("words", {"inputs": [value("IN", "BYTES", [3, 1], ["a", "b", "c"])]})
    after: dict[str, Any] = _of(target, "words", values=True)
    return {
        key: after[key] - before[key] if isinstance(after[key], float) else after[key]
        for key in after
        if "load" not in key
    }


def _pending(target: Target) -> Answer:

    def pending() -> float:
        return sum(
            n
            for family, labels, n in _metrics(target)
            if family == "nv_inference_pending_request_count" and labels["model"] == "default_queue"
        )

    # Each runs for long enough that the others are seen to wait also on a busy machine.
    threads = [
        threading.Thread(target=target.report, args=("default_queue", 1000), kwargs={"batch": True})
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    most = 0.0
    while most < 2 and any(thread.is_alive() for thread in threads):
        most = max(most, pending())
        time.sleep(0.02)
    for thread in threads:
        thread.join()
    return {"waiting": most, "after": pending()}


def _closed(target: Target) -> Answer:
    try:
        target.http("GET", "/metrics", port=target.process.ports.metrics, timeout_s=2)
    except OSError:
        return {"open": False}
    return {"open": True}


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


STATISTICS = [
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


_SAMPLE = re.compile(r"^(?P<family>\w+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$")


METRICS = [
    Scenario(
        "metrics families",
        ("8.14", "8.15", "8.18", "8.19", "8.20", "8.28", "8.31"),
        _families,
        expect={
            "TYPE nv_model_load_duration_secs": "gauge",
            "TYPE nv_cache_num_hits_per_model": ABSENT,
        },
        mask=("*nv_gpu*", "*nv_energy*"),
    ),
    Scenario(
        "metrics of an idle model",
        ("8.14", "8.15", "8.30", "8.31"),
        lambda target: _of(target, "finalizing", values=True),
        mask=("nv_model_load*",),
    ),
    Scenario(
        "metrics of tagged model",
        ("8.30", "11.39"),
        lambda target: _of(target, "config_mixed", values=True),
        expect={
            'nv_cache_num_hits_per_model {"_team": "blue", "model": "config_mixed", "version": "1"}': ABSENT
        },
        mask=("nv_model_load*",),
    ),
    Scenario(
        "metrics of several versions",
        ("8.30",),
        lambda target: _of(target, "versions_all", values=False),
        expect={
            f'nv_model_load_duration_secs {{"model": "versions_all", "version": "{version}"}}': "there"
            for version in (1, 2)
        },
    ),
    Scenario("metrics after requests", ("8.14", "8.18"), _after),
    Scenario(
        "metrics: reasons of failures",
        ("8.15", "8.16"),
        _reasons,
        expect={"misbehave BACKEND": 1.0, "identity OTHER": 0.0},
    ),
    Scenario("metrics without a model", ("8.20", "8.28"), _lines),
    Scenario(
        "metrics: pending requests",
        ("8.19",),
        _pending,
        expect={"waiting": 2.0, "after": 0.0},
    ),
    Scenario(
        "metrics path",
        ("8.12", "1.9"),
        lambda target: _path(target, "GET", "/metrics"),
        expect={"status": 200, "type": "text/plain; charset=utf-8"},
    ),
    Scenario(
        "metrics path with a slash",
        ("8.12",),
        lambda target: _path(target, "GET", "/metrics/"),
        expect={"status": 200},
    ),
    Scenario(
        "another path of the metrics port",
        ("8.12",),
        lambda target: _path(target, "GET", "/other"),
        expect={"status": 200, "empty": True},
    ),
    Scenario(
        "POST metrics",
        ("8.12",),
        lambda target: _path(target, "POST", "/metrics"),
        expect={"status": 405},
    ),
    Scenario(
        "CPU metrics are off",
        ("8.28", "17.5"),
        lambda target: {key: "there" for key in _lines(target) if "cpu" in key},
        server="optioned",
    ),
    Scenario(
        "latency counters are off",
        ("8.18", "17.5"),
        lambda target: _of(target, "identity", values=False),
        server="optioned",
        mask=("nv_model_load*",),
    ),
    Scenario(
        "metrics are off",
        ("8.13", "17.5"),
        _closed,
        expect={"open": False},
        server="restricted",
    ),
]


SCENARIOS = [*STATISTICS, *METRICS]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_both_servers_give_the_same_answer(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
