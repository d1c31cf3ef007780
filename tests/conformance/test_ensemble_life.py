"""Ensembles with decoupled steps (14.10), their loads and unloads (7.26 to 7.28, 14.3), and ensembles in namespaces (7.37)."""

import json
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, http, infer
from tests.conformance.scenarios.streams import talk
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.conformance.servers.control import (
    change,
    entries,
    load,
    unload,
    wait_until_released,
)

_FOUR = [1.0, 2.0, 3.0, 4.0]
_ASKED = {"inputs": [value("X", "FP32", [4], _FOUR)]}


def _message(model: str, script: str, request_id: str = "a") -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name=model, id=request_id)
    message.inputs.add(name="S", datatype="BYTES", shape=[1])
    text = script.encode()
    message.raw_input_contents.append(struct.pack("<I", len(text)) + text)
    return message


def _shapes(target: Target, model: str, script: str) -> Answer:
    """How many numbers each response has; the final one may be with or behind the last of them."""
    answer = talk(target, _message(model, script))
    found = [each["infer_response"].get("outputs") for each in answer["responses"]]
    last = answer["responses"][-1]["infer_response"]["parameters"]["triton_final_response"]
    return {
        "code": answer["code"],
        "shapes": [each[0].get("shape", []) for each in found if each],
        "final": last["bool_param"],
    }


def _sizes(name: str, model: str, script: str) -> Scenario:
    return Scenario(
        f"ensemble stream: {name}",
        ("14.10",),
        lambda target: _shapes(target, model, script),
        expect={"code": "OK"},
        server="ensemble-streams",
    )


STREAMS = [
    _sizes("the only step", "alone", "1 2 3+end"),
    _sizes("the only step, the end apart", "alone", "1 2 3 end"),
    _sizes("the last step", "before", "1 2 3 end"),
    _sizes("the first step", "behind", "3 1 2 end"),
    _sizes("inside another ensemble", "nested", "3 1 2 end"),
    _sizes("one response", "behind", "4+end"),
    *(
        http(
            f"ensemble stream: config of {model}", "14.10 14.2", "GET", f"/v2/models/{model}/config", status=200,
            expect={"json.model_transaction_policy.decoupled": True}, mask=("json.ensemble_scheduling.max_inflight_requests",), server="ensemble-streams",
        )
        for model in ("alone", "nested")
    ),
    infer(
        "ensemble stream: over HTTP", "14.10 3.2", "behind",
        {"inputs": [value("S", "BYTES", [1], ["1+end"])]}, status=501,
        says="HTTP end point doesn't support models with decoupled transaction policy", server="ensemble-streams",
    ),
    Scenario(
        "ensemble stream: over gRPC without a stream", ("14.10", "10.9"),
        lambda target: target.call("ModelInfer", _message("behind", "1+end")).answer(),
        expect={"code": "UNIMPLEMENTED"}, says="doesn't support models with decoupled transaction policy", server="ensemble-streams",
    ),
]  # fmt: skip


@pytest.mark.parametrize("scenario", STREAMS, ids=lambda scenario: scenario.name)
def test_streams(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)


def _states(target: Target) -> str:
    """The models that are READY."""
    index = json.loads(target.http("POST", "/v2/repository/index").body)
    return " ".join(sorted(each["name"] for each in index if each.get("state") == "READY"))


def _unload_dependents(target: Target, name: str) -> int:
    status = change(
        target, "unload", name, json.dumps({"parameters": {"unload_dependents": True}})
    ).status
    for each in ("outer", "mixed", "chain", "two", "one"):
        wait_until_released(target, each)
    return status


def _story(*steps: str) -> Callable[[Target], Answer]:
    """Loads (`+name`), unloads (`-name`), unloads with dependents (`!name`) and requests (`?name`): the status of each, and what is READY then."""

    def told(target: Target) -> Answer:
        found: Answer = {}
        actions: dict[str, Callable[[Target, str], int]] = {
            "+": load,
            "-": unload,
            "!": _unload_dependents,
            "?": lambda target, name: target.infer(name, _ASKED).status,
        }
        try:
            for number, each in enumerate(steps):
                status = actions[each[0]](target, each[1:])
                found[f"{number} {each}"] = [status, _states(target)]
        finally:
            for name in ("outer", "broken", "mixed", "chain", "raises", "two", "one"):
                unload(target, name)
        return found

    return told


def _life(name: str, rows: str, *steps: str, expect: dict[str, Any] | None = None) -> Scenario:
    return Scenario(
        f"ensemble life: {name}",
        tuple(rows.split()),
        _story(*steps),
        expect=expect or {},
        server="ensemble-life",
    )


LIFE = [
    _life("a load", "7.27", "+chain", "?chain", expect={"0 +chain.1": "chain one"}),
    _life("a load of an ensemble of ensembles", "7.27", "+outer", "?outer"),
    _life("an unload leaves its models", "7.26", "+chain", "-chain", "?chain"),
    _life("an unload with its models", "7.26", "+chain", "!chain", expect={"1 !chain.1": ""}),
    _life("an unload with all below", "7.26", "+outer", "!outer", expect={"1 !outer.1": ""}),
    _life("a model that was loaded by name stays", "7.26", "+one", "+chain", "!chain", expect={"2 !chain.1": "one"}),
    _life("a model that another ensemble needs stays", "7.26", "+chain", "+mixed", "!chain"),
    _life("a model of a step is unloaded", "7.28", "+chain", "-one", "?chain"),
    _life("and loaded again", "7.28", "+chain", "-one", "+one", "?chain"),
    _life("a model below another ensemble is unloaded", "7.28", "+outer", "-one", "?outer"),
    _life("an ensemble twice", "7.12 7.27", "+chain", "+chain", "?chain"),
    _life("a model of a step is loaded again", "7.27", "+chain", "+one", "?chain"),
    _life("a model of a step that fails", "7.27 14.3", "+broken", "?broken"),
    _life("a model that is nowhere", "14.3", "+lost"),
    _life("an unload of a model with dependents", "7.26", "+chain", "!one"),
]  # fmt: skip


@pytest.mark.parametrize("scenario", LIFE, ids=lambda scenario: scenario.name)
def test_life(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)


def _reason(target: Target, name: str) -> Answer:
    reply = change(target, "load", name)
    unload(target, name)
    unload(target, "one")
    return {"status": reply.status, "error": json.loads(reply.body)["error"]}


FAILURES = [
    Scenario(
        f"ensemble life: why {name} fails", ("14.3",), partial(_reason, name=name), says=says,
        expect={"status": 400}, server="ensemble-life",
    )
    for name, says in (
        ("broken", "ensemble 'broken' depends on 'raises' which has no loaded version"),
        ("lost", "ensemble lost contains models that are not available or ambiguous: nowhere"),
    )
]  # fmt: skip


@pytest.mark.parametrize("scenario", FAILURES, ids=lambda scenario: scenario.name)
def test_why_a_load_fails(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)


def _classes(count: int = 1) -> dict[str, Any]:
    return {**_ASKED, "outputs": [{"name": "Y", "parameters": {"classification": count}}]}


NAMESPACES = [
    infer(f"ensemble namespaces: {name}", "7.37 14.3", name, _classes(), status=200, server="ensemble-namespaces",
          expect={"json.outputs.0.data.0": f"4.000000:3:{label}"})
    for name, label in (
        ("e_first", "first"), ("e_second", "second"), ("e_across", "only second"), ("e_mixed", "only second"),
    )
] + [
    infer("ensemble namespaces: an ensemble of both", "7.37", "e_both", _classes(), status=400,
          says="model namespace must be provided to resolve ambiguity", server="ensemble-namespaces"),
    http("ensemble namespaces: the model of both", "7.37", "GET", "/v2/models/both", status=400,
         says="model namespace must be provided to resolve ambiguity", server="ensemble-namespaces"),
    Scenario("ensemble namespaces: index", ("7.37",), lambda target: {
        "entries": sorted(f"{each['name']} {each['state']}" for name in ("e_first", "e_second", "e_both", "e_across")
                          for each in entries(target, name))}, server="ensemble-namespaces"),
]  # fmt: skip


@pytest.mark.parametrize("scenario", NAMESPACES, ids=lambda scenario: scenario.name)
def test_namespaces(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)
