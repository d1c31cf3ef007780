"""ModelStreamInfer (10.26 to 10.34), async execute (15.8), and what is counted of many responses (15.34, 8.6)."""

import json
import threading
import time
from typing import Any

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.streams import asked, cancels, events, ids, talk
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.support.waiting import wait_until


def _talk(
    name: str, rows: str, *requests: Any, expect: dict[str, Any] | None = None, **more: Any
) -> Scenario:
    server = more.pop("server", "streams")
    says = more.pop("says", None)
    return Scenario(
        f"stream: {name}",
        tuple(rows.split()),
        lambda target: talk(target, *requests, **more),
        says=says,
        expect={"code": "OK", **(expect or {})},
        server=server,
    )


def _ordered(target: Target) -> Answer:
    """Requests to a model that answers once, to a slow decoupled one between them, and to none."""
    answer = talk(
        target,
        asked("1+end", "a", model="senders"),
        asked("1 end", "d"),
        asked("1+end", "b", model="nope"),
        asked("1+end", "c", model="senders"),
    )
    return {
        "code": answer["code"],
        "ordered": ids(answer, "abc"),
        "decoupled": ids(answer, "d"),
    }


def _in_order_per_request(target: Target) -> Answer:
    answer = talk(target, asked("1 3 0 end", "a"), asked("0 3 1 end", "b"))
    sizes: dict[str, list[str]] = {"a": [], "b": []}
    for response in answer["responses"]:
        inner = response["infer_response"]
        sizes[inner["id"]] += inner["outputs"][0].get("shape", ["0"])
    return {"code": answer["code"], **sizes}


def _side_by_side(target: Target) -> Answer:
    """Two requests to one instance, the slow one first."""
    order: list[int] = []

    def ask(delay_ms: int) -> None:
        body = {"DELAY_MS": delay_ms}
        order.append(events(target, body, model="side_by_side")["events"][0]["OUT"])

    slow = threading.Thread(target=ask, args=(700,))
    begun = "busy for 700 ms!"
    before = target.process.output().count(begun)
    slow.start()
    wait_until(lambda: target.process.output().count(begun) > before)
    ask(10)
    slow.join()
    return {"order": order}


def _ordinary_async(target: Target) -> Answer:
    return target.infer("async", {"inputs": [value("DELAY_MS", "INT32", [1], [20])]}).answer()


def _counted(target: Target) -> Answer:
    """What a request with two responses and one with none add."""
    before = _stats(target)
    events(target, {"SCRIPT": "1 1 end"}, model="counted_stream")
    events(target, {"SCRIPT": "end"}, model="counted_stream")
    until = time.monotonic() + 3
    # A batch is counted when it comes back, which may be after the client has its last answer.
    while (
        min(
            (after := _stats(target))[name] - before[name]
            for name in ("success", "execution_count")
        )
        < 2
        and time.monotonic() < until
    ):
        time.sleep(0.05)
    return after


def _stats(target: Target) -> Answer:
    reply = target.http("GET", "/v2/models/counted_stream/stats")
    stat = json.loads(reply.body)["model_stats"][0]
    return {
        "inference_count": stat["inference_count"],
        "execution_count": stat["execution_count"],
        "success": stat["inference_stats"]["success"]["count"],
        "responses": {
            place: {name: found[name]["count"] for name in found}
            for place, found in stat["response_stats"].items()
        },
    }


def _final(place: int) -> str:
    return f"responses.{place}.infer_response.parameters.triton_final_response.bool_param"


def _version(place: int) -> str:
    return f"responses.{place}.infer_response.model_version"


BASICS = [
    _talk("one response", "10.26 10.29", asked("3+end", "a"), expect={_final(0): True}),
    _talk("several responses", "10.26 10.29 10.31", asked("3 1 end", "a"), expect={_final(0): False, _final(1): False}),
    _talk("of an ordinary model", "10.26 10.29 15.17", asked("1+end", "a", model="senders"), expect={_final(0): True}),
    _talk("no requests", "10.32"),
    _talk("no response", "10.30", asked("end", "a"), expect={"responses": []}),
    _talk("an empty final response that is asked for", "10.30", asked("1 end", "a", triton_enable_empty_final_response=True), expect={_final(0): False, _final(1): True, _version(1): "1"}),
    _talk("nothing but an empty final response", "10.30", asked("end", "a", triton_enable_empty_final_response=True), expect={_final(0): True, _version(0): "1"}),
    _talk("an empty final response that is not needed", "10.30", asked("1+end", "a", triton_enable_empty_final_response=True), expect={_final(0): True}),
    _talk("an empty final response that is not wanted", "10.30", asked("1 end", "a", triton_enable_empty_final_response=False)),
    _talk("an empty final response asked for with a string", "10.19 10.27", asked("1 end", "a", triton_enable_empty_final_response="x")),
    _talk("a reserved parameter", "10.19 10.27", asked("1 end", "a", triton_x=True)),
    _talk("parameters for the model", "10.26", asked("seen+end", "a", word="w", yes=True)),
]  # fmt: skip

ERRORS = [
    _talk("an error", "10.27 10.29", asked("error+end", "a"), asked("1+end", "b"), expect={"responses.0.error_message": "told to fail", _version(0): "1"}),
    _talk("an error in the middle", "10.27", asked("1 error 1 end", "a"), expect={_version(1): "1"}),
    _talk("a model that raises after a response", "10.27 15.7", asked("1 raise", "a"), expect={_version(1): "1"}),
    _talk("a model that is not there", "10.27", asked("1", "a", model="nope"), asked("1+end", "b")),
    _talk("an input that cannot be read", "10.27", asked("1", "a", model="clash"), asked("1+end", "b")),
    _talk(
        "the first error ends a stream that asked for statuses", "10.28",
        asked("1 error+end", "a"),
        metadata=(("triton_grpc_error", "true"),), server="fragile", says="told to fail", expect={"code": "NOT_FOUND"},
    ),
]  # fmt: skip

OTHERS = [
    Scenario(
        "stream: responses of models that answer once keep their order", ("10.31", "10.32"), _ordered,
        expect={"ordered.0": "a", "ordered.1": "b", "ordered.2": "c"}, server="fragile",
    ),
    Scenario("stream: responses to one request keep their order", ("10.31",), _in_order_per_request, server="streams"),
    Scenario(
        "stream: cancel", ("10.33", "15.29"), cancels,
        expect={"code": "CANCELLED", "cancelled": True, "alive": "OK"}, server="streams",
    ),
    _talk("a deadline", "10.33", asked("cancelled end", "a"), timeout_s=0.6, expect={"code": "DEADLINE_EXCEEDED"}, says="Deadline Exceeded"),
    _talk("without the key", "10.35", asked("1"), server="restricted", expect={"code": "UNAVAILABLE"}, says="This protocol is restricted, expecting header"),
    Scenario("async execute runs side by side", ("15.8",), _side_by_side, expect={"order.0": 10}, server="streams"),
    Scenario("async execute of an ordinary model", ("15.8",), _ordinary_async, expect={"status": 200}, server="streams"),
    Scenario(
        "statistics of many responses", ("15.34", "8.6"), _counted,
        expect={
            "success": 2, "responses.0.success": 1, "responses.1.success": 1, "responses.0.empty_response": 1, "responses.2.empty_response": 1,
        },
        server="streams",
    ),
]  # fmt: skip

SCENARIOS = [*BASICS, *ERRORS, *OTHERS]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_grpc_streams_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
