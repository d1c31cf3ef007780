"""The metrics endpoint (8.12 to 8.31): counts are compared, times are not."""

import json
import math
import re
import threading
import time
from typing import Any

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import ABSENT, Scenario
from tests.conformance.scenarios.wire import Answer, Target, four, value


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


def _kept_families(target: Target) -> Answer:
    """TYPE and HELP of the families that a setting adds."""
    return {
        name: text
        for name, text in _families(target).items()
        if "summary" in name or "histogram" in name
    }


def _distributions(target: Target) -> Answer:
    """The series of summaries and the histogram: counts before and after two requests, and whether quantiles are numbers."""
    wanted = re.compile("summary|histogram")

    def found() -> dict[str, float]:
        return {
            f"{family} {json.dumps(labels, sort_keys=True)}": number
            for family, labels, number in _metrics(target)
            if wanted.search(family) and labels["model"] == "identity"
        }

    before = found()
    for _ in range(2):
        target.infer("identity", four([1, 2, 3, 4], [4]))
    after = found()
    shown: Answer = {}
    for key in after:
        if "quantile" in key:
            shown[key] = "NaN" if math.isnan(after[key]) else "a number"
        elif "_sum {" in key:
            shown[key] = after[key] >= before[key]
        else:
            shown[key] = after[key] - before[key]
    return shown


_SAMPLE = re.compile(r"^(?P<family>\w+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$")


SCENARIOS = [
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
        expect={
            'nv_inference_first_response_histogram_ms_count {"model": "identity", "version": "1"}': "there"
        },
        server="optioned",
        mask=("nv_model_load*",),
    ),
    Scenario(
        "families of summaries and of the first response",
        ("8.23", "8.25", "17.5"),
        _kept_families,
        expect={
            "TYPE nv_inference_request_summary_us": "summary",
            "TYPE nv_inference_first_response_histogram_ms": "histogram",
        },
        server="optioned",
    ),
    Scenario(
        "summaries after requests",
        ("8.23", "8.25", "17.5"),
        _distributions,
        expect={
            'nv_inference_queue_summary_us_count {"model": "identity", "version": "1"}': 2.0,
            'nv_inference_first_response_histogram_ms_count {"model": "identity", "version": "1"}': 2.0,
        },
        server="optioned",
    ),
    Scenario(
        "metrics are off",
        ("8.13", "17.5"),
        _closed,
        expect={"open": False},
        server="restricted",
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_metrics_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
