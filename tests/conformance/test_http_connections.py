"""HTTP connections and bodies in chunks, error replies' type, and the APIs that are switched off (sections 1, 5, 7)."""

import json
from http.client import HTTPConnection

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, http
from tests.conformance.scenarios.wire import Answer, Target, four


def _persistent(target: Target) -> Answer:
    connection = HTTPConnection("127.0.0.1", target.process.ports.http, timeout=5)
    statuses = []
    for _ in range(3):
        connection.request("GET", "/v2/health/live")
        reply = connection.getresponse()
        reply.read()
        statuses.append(reply.status)
    kept = connection.sock is not None
    connection.close()
    return {"statuses": statuses, "kept": kept}


def _error_type(target: Target) -> Answer:
    replies = [
        target.http("GET", "/v2/nope"),
        target.http("GET", "/v2/models/nope"),
        target.http("GET", "/v2/models/identity/infer"),
        target.infer("nope", four()),
        target.infer("identity", "{"),
    ]
    return {"types": [reply.headers.get("content-type") for reply in replies]}


def _chunked(target: Target, count: int, *, close: bool = True) -> Answer:
    body = json.dumps(four()).encode()
    pieces = [b"1\r\n%c\r\n" % byte for byte in body]
    pieces += [b"1\r\n \r\n"] * (count - len(pieces))
    head = b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
    head += b"Connection: close\r\n\r\n" if close else b"\r\n"
    reply = target.raw(head + b"".join(pieces) + b"0\r\n\r\n")
    return {"status": int(reply.split(b" ", 2)[1]) if reply else None}


_INDEX = "/v2/repository/index"


CONNECTIONS = [
    Scenario(
        "errors are JSON",
        ("1.2", "1.9"),
        _error_type,
        expect={f"types.{place}": "application/json" for place in range(5)},
    ),
    Scenario("persistent connection", ("1.23",), _persistent, expect={"kept": True}),
    Scenario(
        "body in chunks", ("1.13",), lambda target: _chunked(target, 0), expect={"status": 200}
    ),
    Scenario(
        "65536 chunks", ("1.13",), lambda target: _chunked(target, 65536), expect={"status": 200}
    ),
    Scenario(
        "more than 65536 chunks",
        ("1.13",),
        lambda target: _chunked(target, 65600),
        expect={"status": 400},
    ),
    http(
        "load in control mode none",
        "7.29 7.13",
        "POST",
        "/v2/repository/models/identity/load",
        status=503,
        says="explicit model load / unload is not allowed if polling is enabled",
    ),
    http(
        "unload in control mode none",
        "7.29 7.13",
        "POST",
        "/v2/repository/models/identity/unload",
        status=503,
        says="explicit model load / unload is not allowed if polling is enabled",
    ),
    http(
        "system shared memory is empty", "5.7", "GET", "/v2/systemsharedmemory/status", status=200
    ),
    http("CUDA shared memory is empty", "5.7", "GET", "/v2/cudasharedmemory/status", status=200),
    http(
        "shared memory is switched off",
        "5.7",
        "POST",
        "/v2/systemsharedmemory/region/a/register",
        json.dumps({"key": "/a", "byte_size": 8}),
        status=501,
        says="Client shared memory is disabled",
    ),
    http(
        "unregister is switched off",
        "5.7",
        "POST",
        "/v2/systemsharedmemory/unregister",
        status=501,
        says="Client shared memory is disabled",
    ),
    http(
        "CUDA registration is switched off",
        "5.7",
        "POST",
        "/v2/cudasharedmemory/region/a/register",
        json.dumps({"raw_handle": {"b64": "AA=="}, "device_id": 0, "byte_size": 8}),
        status=501,
        says="Client shared memory is disabled",
    ),
    http("index with an empty body", "1.10", "POST", _INDEX, status=200, mask=("json*",)),
    http(
        "infer with an empty body is raw mode",
        "1.10 3.4",
        "POST",
        "/v2/models/identity/infer",
        status=400,
        says="Expected 16, got 0",
    ),
]

SCENARIOS = CONNECTIONS


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_http_connections_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
