"""Warmups (8.9, 11.41, 14.31 to 14.33): what models are given before they are ready, how it is counted, and what fails a load."""

import json

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.conformance.servers.warmed import GOOD, REFUSED

_SERVER = "warmed"
_RANDOM = "random"


def _told(target: Target, model: str) -> Answer:
    """What the model was given before the first request."""
    rows = [] if model == "unbatched" else [1]
    inputs = [value("X", "FP32", [*rows, 3], [1, 2, 3])]
    if "strings" in model:
        inputs.append(value("S", "BYTES", [*rows, 2], ["s", "t"]))
    reply = target.infer(model, {"inputs": inputs}).answer()
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


@pytest.mark.parametrize("model", [name for name in GOOD if name != "instances"])
def test_what_a_model_is_given(ask: Ask, model: str) -> None:
    ask(Scenario(f"warmup: {model}", ("11.41", "14.31", "14.32"), lambda t: _told(t, model), server=_SERVER))  # fmt: skip


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


@pytest.mark.parametrize("model", ["instances"])
def test_what_is_counted(ask: Ask, model: str) -> None:
    ask(Scenario(f"warmup counted: {model}", ("8.9",), lambda t: _counts(t, model), server=_SERVER))


def _exact(target: Target, model: str) -> Answer:
    stat = target.http("GET", f"/v2/models/{model}/stats").answer()["json"]["model_stats"][0]
    return {
        "inferences": stat["inference_count"],
        "executions": stat["execution_count"],
        "stats": {name: each["count"] for name, each in stat["inference_stats"].items()},
        "recent": stat["last_inference"] > 0,
    }


@pytest.mark.parametrize("model", ["instances"])
def test_numbers(ask: Ask, model: str) -> None:
    ask(Scenario(f"warmup numbers: {model}", ("8.9",), lambda t: _exact(t, model), server=_SERVER))


def _index(target: Target, model: str) -> Answer:
    entries = target.http("POST", "/v2/repository/index").answer()["json"]
    entry = next(each for each in entries if each["name"] == model)
    return {"state": entry.get("state"), "error": entry.get("reason", "")}


@pytest.mark.parametrize("model", REFUSED)
def test_what_fails_a_load(ask: Ask, model: str) -> None:
    says, _ = REFUSED[model]
    ask(
        Scenario(
            f"warmup refused: {model}", ("14.32", "14.33"), lambda t: _index(t, model), says=says,
            expect={"state": "UNAVAILABLE"}, server=_SERVER,
        )
    )  # fmt: skip


def test_the_config_shows_the_samples(ask: Ask) -> None:
    def shown(target: Target) -> Answer:
        config = target.http("GET", "/v2/models/two_samples/config").answer()["json"]
        return {"warmup": config["model_warmup"]}

    ask(Scenario("warmup: its config", ("11.41",), shown, server=_SERVER))
