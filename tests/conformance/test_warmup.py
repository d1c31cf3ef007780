"""Warmups (8.9, 11.41, 14.31 to 14.33): what models are given before they are ready, how it is counted, and what fails a load."""

import json
from functools import partial
from typing import Any

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.conformance.servers.warmed import GOOD, REFUSED

_SERVER = "warmed"
_RANDOM = "random"
_STRING_ID = "sequence_named_by_string_unbatched"
_TWO_INPUTS = ("strings", "random_strings", "file_of_strings")


def _told(target: Target, model: str) -> Answer:
    """What the model was given before the first request."""
    rows = [] if model.endswith("unbatched") else [1]
    inputs = [value("X", "FP32", [*rows, 3], [1, 2, 3])]
    if model in _TWO_INPUTS:
        inputs.append(value("S", "BYTES", [*rows, 2], ["s", "t"]))
    body: dict[str, Any] = {"inputs": inputs}
    if "sequence" in model:
        body["parameters"] = {"sequence_id": 1, "sequence_start": True, "sequence_end": True}
    reply = target.infer(model, body).answer()
    (report,) = reply["json"]["outputs"][0]["data"]
    before = json.loads(report)
    told = [
        each
        for batch in before
        for each in batch
        if not any("'1.0', '2.0'" in str(values) for values in each.values())
    ]
    if model == _RANDOM:
        for each in told:
            each["X"].pop()
    return {"told": told}


def _counts(target: Target, model: str) -> Answer:
    stat = target.http("GET", f"/v2/models/{model}/stats").answer()["json"]["model_stats"][0]
    inference = stat["inference_stats"]
    return {
        "inferences": stat["inference_count"] > 0,
        "executions": stat["execution_count"] > 0,
        "success": inference["success"]["count"] == stat["inference_count"],
        "time": inference["success"]["ns"] >= inference["compute_infer"]["ns"] > 0,
        "batches": sorted(each["batch_size"] for each in stat["batch_stats"]),
    }


def _exact(target: Target, model: str) -> Answer:
    stat = target.http("GET", f"/v2/models/{model}/stats").answer()["json"]["model_stats"][0]
    return {
        "inferences": stat["inference_count"],
        "executions": stat["execution_count"],
        "stats": {name: each["count"] for name, each in stat["inference_stats"].items()},
        "recent": stat["last_inference"] > 0,
    }


def _index(target: Target, model: str) -> Answer:
    entries = target.http("POST", "/v2/repository/index").answer()["json"]
    entry = next(each for each in entries if each["name"] == model)
    return {"state": entry.get("state"), "error": entry.get("reason", "")}


def _shown(target: Target) -> Answer:
    config = target.http("GET", "/v2/models/two_samples/config").answer()["json"]
    return {"warmup": config["model_warmup"]}


def _rows(model: str) -> tuple[str, ...]:
    return ("14.34",) if "sequence" in model else ("11.41", "14.31", "14.32")


SCENARIOS = [
    *(
        Scenario(f"warmup: {model}", _rows(model), partial(_told, model=model), server=_SERVER)
        for model in GOOD
        if model not in ("instances", _STRING_ID)
    ),
    Scenario("warmup counted: instances", ("8.9",), partial(_counts, model="instances"), server=_SERVER),
    Scenario("warmup numbers: instances", ("8.9",), partial(_exact, model="instances"), server=_SERVER),
    *(
        Scenario(
            f"warmup refused: {model}", ("14.32", "14.33"), partial(_index, model=model), says=says,
            expect={"state": "UNAVAILABLE"}, server=_SERVER,
        )
        for model, (says, _) in REFUSED.items()
    ),
    Scenario("warmup: a sequence named by a string loads", ("14.34",), partial(_index, model=_STRING_ID), server=_SERVER),
    Scenario("warmup: its config", ("11.41",), _shown, server=_SERVER),
]  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_warmup(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)
