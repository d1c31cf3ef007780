"""Ensembles (11.29, 11.30, 14.1 to 14.13): what they answer, what their config and statistics show, and what is refused with which reason."""

import json
from functools import partial

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, http, infer
from tests.conformance.scenarios.settled import settled
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.conformance.servers.ensembles import GOOD, REFUSED

_SERVER = "ensembles"
_FOUR = [1.0, 2.0, 3.0, 4.0]


def _x(rows: int = 0) -> dict[str, object]:
    shape = [rows, 4] if rows else [4]
    return value("X", "FP32", shape, _FOUR * max(rows, 1))


def _asking(*outputs: str, **more: object) -> dict[str, object]:
    return {
        "id": "7",
        "inputs": [_x()],
        **({"outputs": [{"name": name} for name in outputs]} if outputs else {}),
        **more,
    }


INFERENCES = [
    infer("ensemble: a chain", "14.1 14.11", "chain", _asking(), server=_SERVER),
    infer("ensemble: nested", "14.1", "nested", _asking(), server=_SERVER),
    infer("ensemble: one output", "14.9", "parts", _asking("Y"), server=_SERVER),
    infer("ensemble: another output", "14.9", "parts", _asking("Z"), server=_SERVER),
    infer(
        "ensemble: a batch", "14.5", "batches", {"inputs": [_x(3)]}, server=_SERVER,
        expect={"json.outputs.0.shape.0": 3},
    ),
    infer(
        "ensemble: too large a batch", "14.5", "batches", {"inputs": [_x(5)]}, server=_SERVER,
        status=400, says="inference request batch-size must be <= 4 for 'batches'",
    ),
    infer("ensemble: an optional input is absent", "14.7", "optional", _asking(), server=_SERVER),
    infer(
        "ensemble: an optional input is there", "14.7", "optional",
        {"inputs": [_x(), value("W", "FP32", [4], _FOUR)]}, server=_SERVER,
    ),
    infer(
        "ensemble: a sequence", "14.11", "chain",
        _asking(parameters={"sequence_id": 5, "sequence_start": True}), server=_SERVER,
    ),
    infer(
        "ensemble: a sequence with a name", "14.11", "chain",
        _asking(parameters={"sequence_id": "five", "sequence_end": True}), server=_SERVER,
    ),
    infer("ensemble: a version of a step", "14.4", "pinned", _asking(), server=_SERVER),
    infer(
        "ensemble: an unknown output", "4.2", "chain", _asking("N"), server=_SERVER,
        status=400, says="unexpected inference output 'N' for model 'chain'",
    ),
    infer(
        "ensemble: a step that fails", "14.6", "failing",
        {"inputs": [value("MODE", "BYTES", [1], ["raise"])]}, server=_SERVER,
        status=500, says="in ensemble 'failing', Failed to process the request(s) for model ",
    ),
    infer(
        "ensemble: a step that answers with an error", "14.6", "failing",
        {"inputs": [value("MODE", "BYTES", [1], ["code:NOT_FOUND"])]}, server=_SERVER,
        status=404, says="in ensemble 'failing', ",
    ),
]  # fmt: skip


@pytest.mark.parametrize("scenario", INFERENCES, ids=lambda scenario: scenario.name)
def test_inference(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)


def _all_outputs(target: Target, outputs: tuple[str, ...]) -> Answer:
    """The reference has them in any order."""
    answer = target.infer("parts", _asking(*outputs)).answer()
    found = answer["json"].pop("outputs")
    return {**answer, "outputs": {each["name"]: each for each in found}}


_NEWER = ("json.ensemble_scheduling.max_inflight_requests",)  # than 2.51


def _stats(target: Target, model: str) -> dict[str, int]:
    text = target.http("GET", f"/v2/models/{model}/stats").body
    stat = json.loads(text)["model_stats"][0]
    inference = stat["inference_stats"]
    return {
        "inferences": stat["inference_count"],
        "executions": stat["execution_count"],
        **{key: inference[key]["count"] for key in ("success", "fail", "queue", "compute_infer")},
        **{f"batches {each['batch_size']}": each["compute_infer"]["count"] for each in stat["batch_stats"]},
    }  # fmt: skip


def _counted(target: Target, models: tuple[str, ...], model: str, request: object) -> Answer:
    before = {name: _stats(target, name) for name in models}
    target.infer(model, request)
    after = settled(lambda: {name: _stats(target, name) for name in models}, before)
    return {
        name: {key: number - before[name].get(key, 0) for key, number in counts.items()}
        for name, counts in after.items()
    }


def _statistics(name: str, request: object, *models: str) -> Scenario:
    """What a request to the first model adds to the counters of each."""
    return Scenario(
        name=f"ensemble: statistics of {name}",
        rows=("14.13",),
        ask=lambda target: _counted(target, models, models[0], request),
        server=_SERVER,
    )


def _refused(target: Target, model: str) -> Answer:
    index = json.loads(target.http("POST", "/v2/repository/index").body)
    reasons = [entry.get("reason", "") for entry in index if entry["name"] == model]
    served = target.http("GET", f"/v2/models/{model}/ready").status == 200
    told = [line for line in target.process.output().splitlines() if model in line]
    return {"served": served, "error": "\n".join([*filter(None, reasons), *told])}


OTHERS = [
    *(
        Scenario(
            f"ensemble: all outputs, {len(outputs)} named", ("14.1",), partial(_all_outputs, outputs=outputs),
            server=_SERVER,
        )
        for outputs in ((), ("Y", "Z"))
    ),
    *(
        http(
            f"ensemble{what or '/metadata'}: {model}", "11.29 2.15", "GET", f"/v2/models/{model}{what}", status=200,
            mask=_NEWER, server=_SERVER,
        )
        for what in ("", "/config")
        for model in GOOD
    ),
    _statistics("a chain", _asking(), "chain", "one"),
    _statistics("a batch", {"inputs": [_x(3)]}, "batches", "rows"),
    _statistics("nested", _asking(), "nested", "chain", "one"),
    _statistics("a failure", {"inputs": [value("MODE", "BYTES", [1], ["raise"])]}, "failing"),
    *(
        Scenario(
            f"ensemble refused: {model}", ("14.2", "11.29"), partial(_refused, model=model), says=says,
            expect={"served": False}, server=_SERVER,
        )
        for model, (says, _) in REFUSED.items()
    ),
]  # fmt: skip


@pytest.mark.parametrize("scenario", OTHERS, ids=lambda scenario: scenario.name)
def test_others(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)
