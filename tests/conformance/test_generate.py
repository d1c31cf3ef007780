"""The generate endpoints (section 6, 1.16), decoupled models over HTTP (3.2), and senders behind them (15.9, 15.16, 15.17, 15.29)."""

import json
from functools import partial
from typing import Any

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, http, infer
from tests.conformance.scenarios.streams import disconnects, events, generate
from tests.conformance.scenarios.wire import Answer, Target, value

_WRONG_COUNT = "generate expects model to produce exactly 1 response, use generate stream"


def _generate(
    name: str,
    rows: str,
    body: Any,
    *,
    status: int = 200,
    says: str | None = None,
    model: str = "stream",
    expect: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> Scenario:
    return Scenario(
        f"generate: {name}",
        tuple(rows.split()),
        partial(generate, body=body, model=model, headers=headers),
        says=says,
        expect={"status": status, **(expect or {})},
        server="streams",
    )


def _stream(
    name: str,
    rows: str,
    body: Any,
    *,
    status: int = 200,
    says: str | None = None,
    model: str = "stream",
    expect: dict[str, Any] | None = None,
) -> Scenario:
    return Scenario(
        f"generate_stream: {name}",
        tuple(rows.split()),
        partial(events, body=body, model=model),
        says=says,
        expect={"status": status, **(expect or {})},
        server="streams",
    )


def _script(script: str, **more: Any) -> dict[str, Any]:
    return {"SCRIPT": script, **more}


def _with_version(target: Target) -> Answer:
    path = "/v2/models/stream/versions/1/generate"
    return target.http("POST", path, json.dumps(_script("1+end"))).answer()


COUNTS = [
    _generate("one response", "6.1 6.7 6.8", _script("1+end"), expect={"json.OUT": 0}),
    _generate("several elements", "6.1 6.7", _script("3+end"), expect={"json.OUT.2": 2}),
    _generate("no elements", "6.7", _script("0+end")),
    _generate("one response, then the end", "6.8 15.16", _script("1 end"), expect={"json.OUT": 0}),
    _generate("no response", "6.8", _script("end"), says=_WRONG_COUNT),
    _generate("two responses", "6.8", _script("3 3 end"), says=_WRONG_COUNT),
    _generate("a response, then an error", "6.8", _script("1 error end"), says=_WRONG_COUNT),
    _generate("an error", "6.9", _script("error+end"), status=404, says="told to fail"),
    _generate("an error, then a response", "6.8 6.9", _script("error 1 end"), status=404, says=_WRONG_COUNT),
    _generate("of an ordinary model", "6.1 15.17", _script("3+end"), model="senders"),
    _generate("of an ordinary model, the flag apart", "15.17", _script("1 end"), model="senders"),
    _generate("of an ordinary model that returns", "6.1 15.17", _script("return"), model="senders"),
    _generate("response parameters", "6.1", _script("parameters+end"), expect={"json.number": 3}),
]  # fmt: skip

SEEN = "seen+end"
MAPPING = [
    _generate(
        "parameters and an id", "6.2",
        _script(SEEN, id="x7", a=1, b=2.5, c="s", d=True, priority=1, timeout=5, sequence_id=3, triton_x=1),
        expect={"json.id": "x7"},
    ),
    _generate("nested parameters", "6.2 6.5", _script(SEEN, parameters={"a": 1, "PAIRS": [1, 2, 3, 4]})),
    _generate("parameters no object", "6.3", _script(SEEN, parameters=3), status=500, says="Expected JSON object for keyword: 'parameters'"),
    _generate("parameters inside parameters", "6.3 6.4", _script(SEEN, parameters={"parameters": {}}), status=400, says="has invalid type"),
    _generate("an input called parameters", "6.3", {"parameters": {"a": 1}}, model="clash", status=400, says="for nested schema also given as input tensor name"),
    *(
        _generate(f"a parameter {title}", "6.4", _script(SEEN, a=content), status=400, says="parameter 'a' has invalid type")
        for title, content in (("that is a list", [1]), ("that is an object", {"b": 1}), ("that is null", None))
    ),
    _generate("an object for a string", "6.4", {"SCRIPT": {}}, status=500, says="attempt to access JSON non-string as string"),
    _generate("a number for a string", "6.4", {"SCRIPT": 5}, status=500, says="attempt to access JSON non-string as string"),
    _generate("a fraction for an integer", "6.4", _script(SEEN, PAIRS=[1, 2.5]), status=500, says="non-signed-integer as signed-integer"),
    _generate("an id that is a number", "6.2", _script(SEEN, id=7), status=500, says="Unable to parse 'id'"),
    _generate("a list of one", "6.5", {"SCRIPT": [SEEN]}),
    _generate("values for an inner variable dimension", "6.5", _script(SEEN, WIDE=[1, 2, 3, 4])),
    _generate("no values", "6.5", _script(SEEN, WIDE=[])),
    _generate("values that do not divide", "6.5", _script(SEEN, PAIRS=[1, 2, 3]), status=400, says="The schema can not convert input"),
    _generate("one value for two", "6.5", _script(SEEN, PAIRS=5), status=400, says="The schema can not convert input"),
    _generate("two values for one", "6.5", {"SCRIPT": [SEEN, "b"]}, status=400, says="The schema can not convert input"),
    _generate("nested lists", "6.5", _script(SEEN, PAIRS=[[1, 2], [3, 4]]), status=500, says="Shape does not match true shape of 'data' field"),
    _generate("a model that batches", "6.5", _script(SEEN, PAIRS=[1, 2, 3, 4], WIDE=[1, 2]), model="batched_stream"),
    _generate("an input twice", "6.6", '{"SCRIPT": "seen+end", "SCRIPT": "end"}', status=400, says="input 'SCRIPT' already exists in request"),
    _generate("an input twice, once nested", "6.6", '{"SCRIPT": "seen+end", "PAIRS": [1, 2], "parameters": {"PAIRS": [1, 2]}}', status=400, says="input 'PAIRS' already exists in request"),
    _generate("no input", "6.2", {}, status=400, says="expected number of inputs between"),
    _generate("no object", "6.2", "[]", status=500, says="attempt to get members for non-object"),
    _generate("an empty body", "1.10", "", status=500, says="The document is empty"),
    _generate("a body that is not JSON", "1.10 6.12", "invalid", status=500, says="failed to parse the request JSON buffer"),
    _generate("an unknown model", "6.12", _script("1"), model="nope", status=404, says="is not found"),
    _generate("a compressed body", "1.16 6.14", b"\x1f\x8b", status=400, says="Unsupported content-encoding, only 'identity'", headers={"Content-Encoding": "gzip"}),
    _generate("the encoding identity", "1.16", _script("1+end"), headers={"Content-Encoding": "identity"}),
    _generate("load metrics are asked for", "6.16", _script("1+end"), headers={"endpoint-load-metrics-format": "json"}, expect={"header endpoint-load-metrics": None}),
    Scenario("generate: a version", ("6.1", "1.6"), _with_version, expect={"status": 200}, server="streams"),
    http("generate: GET", "6.1 1.4", "GET", "/v2/models/stream/generate", status=405, says="Method Not Allowed", server="streams"),
]  # fmt: skip

STREAMS = [
    _stream("responses", "6.10 1.9 15.16", _script("3 1 0 end"), expect={"type": "text/event-stream; charset=utf-8", "events.1.OUT": 0}),
    _stream("the flag with the last response", "6.10 15.16", _script("1 3+end")),
    _stream("no response", "6.10", _script("end"), expect={"events": []}),
    _stream("the id in each response", "6.10 6.2", _script("1 1 end", id="r"), expect={"events.1.id": "r"}),
    _stream("an error in the middle", "6.10", _script("1 error 1 end"), expect={"events.1.error": "told to fail"}),
    _stream("an error first", "6.10", _script("error 1 end"), status=404),
    _stream("a model that raises after a response", "6.10 15.7", _script("1 raise")),
    _stream("a model that raises first", "6.10 15.7", _script("raise"), status=500),
    _stream("of an ordinary model", "6.10", _script("3+end"), model="senders"),
    _stream("a value that cannot be read", "6.12", _script("1", a={}), status=400, says="has invalid type"),
    _stream("an input of a wrong shape", "6.12", {"SCRIPT": "1"}, model="clash", status=400, says="expected 1 inputs but got 0 inputs"),
    _stream("an unknown model", "6.12", _script("1"), model="nope", status=404, says="is not found"),
    _stream("an invalid flag", "15.16", _script("flag 1+end"), expect={"events.0.SEEN": "Unable to send response"}),
    _stream("nothing to send", "15.16", _script("nothing 1+end")),
    _stream("after the final flag", "15.16", _script("1+end 1")),
    _stream("a decoupled model that returns", "15.9", _script("return"), status=500),
    _stream("of an ordinary model that sends twice", "15.17", _script("1 1"), model="senders", expect={"events.0.OUT": 0}),
    _stream("from a thread of the model's own", "15.9 15.16", _script("thread 1 3 end")),
    Scenario("generate_stream: the client leaves", ("6.14", "15.29", "1.19"), disconnects, expect={"cancelled": True, "alive": 200}, server="streams"),
    infer(
        "infer of a decoupled model", "3.2 3.1", "stream", {"inputs": [value("SCRIPT", "BYTES", [1], ["1+end"])]},
        status=501, says="HTTP end point doesn't support models with decoupled transaction policy", server="streams",
    ),
    infer(
        "infer of a decoupled model by a client that takes events", "3.2", "stream", {"inputs": [value("SCRIPT", "BYTES", [1], ["1 1 end"])]},
        {"Accept": "text/event-stream"}, expect={"type": "text/event-stream;charset=utf-8"}, server="streams",
    ),
]  # fmt: skip

SCENARIOS = [*COUNTS, *MAPPING, *STREAMS]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_generate_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
