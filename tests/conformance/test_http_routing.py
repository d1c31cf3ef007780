"""HTTP apart from inference: routes, verbs, health, metadata, lookup errors, and what a server without options shows."""

import json

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenario import Scenario, http
from tests.conformance.wire import Answer, Target, four

_INDEX = "/v2/repository/index"
_HUGE_VERSION = "99999999999999999999"

ROUTES = [
    http(f"unknown path {path}", "1.4 1.2", "GET", path, status=404, says="Not Found")
    for path in (
        "/",
        "/v2/",
        "/v2/nope",
        "/v2/health",
        "/v2/health/live/",
        "/v2/models",
        "/v2/models/identity/",
        "/v2/models/identity/nonsense",
        "/v2/models//ready",
        "/v2/models/identity/versions",
        "/v2/models/identity/versions/",
        "/v3/models/identity",
    )
] + [
    http(
        "version that is no number",
        "1.8",
        "GET",
        "/v2/models/identity/versions/x",
        status=404,
        says="Not Found",
    ),
    http(
        "negative version",
        "1.8",
        "GET",
        "/v2/models/identity/versions/-1",
        status=404,
        says="Not Found",
    ),
    http(
        "version beyond int64",
        "1.8",
        "GET",
        f"/v2/models/identity/versions/{_HUGE_VERSION}",
        status=400,
        says="failed to get model version",
    ),
    http(
        "trace setting of a version",
        "1.7",
        "GET",
        "/v2/models/identity/versions/1/trace/setting",
        status=404,
        says="Not Found",
    ),
    http(
        "version with leading zeros", "1.6", "GET", "/v2/models/identity/versions/001", status=200
    ),
    http("query string is ignored", "1.6", "GET", "/v2/models/identity?a=b", status=200),
    http("query string on health", "1.6", "GET", "/v2/health/live?a", status=200),
]

VERBS = [
    http(f"{method} {path}", "1.4 1.2", method, path, status=405, says="Method Not Allowed")
    for method, path in (
        ("POST", "/v2"),
        ("POST", "/v2/health/live"),
        ("POST", "/v2/health/ready"),
        ("PUT", "/v2/models/identity"),
        ("POST", "/v2/models/identity"),
        ("POST", "/v2/models/identity/ready"),
        ("POST", "/v2/models/identity/config"),
        ("POST", "/v2/models/identity/stats"),
        ("POST", "/v2/models/stats"),
        ("GET", "/v2/models/identity/infer"),
        ("DELETE", "/v2/models/identity/infer"),
        ("OPTIONS", "/v2"),
        ("PATCH", "/v2"),
        ("GET", _INDEX),
    )
]

HEALTH = [
    http("live with failed models", "2.1", "GET", "/v2/health/live", status=200),
    http(
        "not ready with failed models",
        "2.2 2.4",
        "GET",
        "/v2/health/ready",
        status=400,
        expect={"body": "empty"},
    ),
    http(
        "ready without strict readiness",
        "2.5",
        "GET",
        "/v2/health/ready",
        status=200,
        server="optioned",
    ),
    http("model ready", "2.7 1.6", "GET", "/v2/models/identity/ready", status=200),
    http("version ready", "2.7 1.6", "GET", "/v2/models/identity/versions/1/ready", status=200),
    http(
        "ready of an unknown model",
        "2.8",
        "GET",
        "/v2/models/nope/ready",
        status=404,
        says="is not found",
    ),
    http(
        "ready of an absent version",
        "2.8",
        "GET",
        "/v2/models/identity/versions/9/ready",
        status=404,
    ),
]

METADATA = [
    Scenario(
        "server metadata",
        ("2.13", "1.9"),
        lambda target: target.http("GET", "/v2").answer(),
        expect={"status": 200, "json.name": "triton", "type": "application/json"},
        mask=("json.version", "json.extensions*"),
    ),
    Scenario(
        "extensions in their order",
        ("2.14",),
        lambda target: {"listed": _extensions(target)},
        mask=("listed.*",),
    ),
    Scenario(
        "server id",
        ("2.13", "17.2"),
        lambda target: {"name": json.loads(target.http("GET", "/v2").body)["name"]},
        expect={"name": "another"},
        server="optioned",
    ),
    http(
        "metadata without batching",
        "2.15 2.16",
        "GET",
        "/v2/models/identity",
        status=200,
        expect={"json.inputs.0.shape.0": 4},
    ),
    http(
        "metadata with batching",
        "2.16",
        "GET",
        "/v2/models/batched",
        status=200,
        expect={"json.inputs.0.shape.0": -1},
    ),
    http(
        "metadata of every datatype",
        "2.16",
        "GET",
        "/v2/models/types",
        status=200,
        expect={"json.inputs.12.datatype": "BYTES"},
    ),
    http("metadata shows dims, not reshape", "2.16 4.12", "GET", "/v2/models/reshaped", status=200),
    http("metadata of two inputs", "2.15", "GET", "/v2/models/two", status=200),
    http(
        "metadata of all versions",
        "2.15",
        "GET",
        "/v2/models/versions_all",
        status=200,
        expect={"json.versions.1": "2"},
    ),
    http(
        "metadata of one version", "2.15", "GET", "/v2/models/versions_all/versions/1", status=200
    ),
    http(
        "highest version answers",
        "2.8",
        "GET",
        "/v2/models/versions_default",
        status=200,
        expect={"json.versions.0": "10"},
    ),
]

LOOKUP = (
    [
        http(
            f"{path or 'metadata'} of an unknown model",
            "2.8",
            "GET",
            f"/v2/models/nope{path}",
            status=404,
            says="Request for unknown model: 'nope' is not found",
        )
        for path in ("", "/config", "/versions/1")
    ]
    + [
        http(
            f"{path or 'metadata'} of an absent version",
            "2.8",
            "GET",
            f"/v2/models/identity/versions/9{path}",
            status=404,
            says="'identity' version 9 is not found",
        )
        for path in ("", "/config")
    ]
    + [
        http(
            "metadata of a model that failed",
            "2.8",
            "GET",
            "/v2/models/broken_initialize",
            status=404,
            says="has no available versions",
        ),
        http(
            "config of a model that failed",
            "2.8",
            "GET",
            "/v2/models/broken_initialize/config",
            status=404,
            says="has no available versions",
        ),
        Scenario(
            "infer to an unknown model",
            ("2.8", "3.1"),
            lambda target: target.infer("nope", four()).answer(),
            says="Request for unknown model: 'nope' is not found",
            expect={"status": 404},
        ),
        Scenario(
            "infer to an absent version",
            ("2.8", "3.1"),
            lambda target: target.infer("identity/versions/9", four()).answer(),
            says="'identity' version 9 is not found",
            expect={"status": 404},
        ),
        Scenario(
            "infer to a version that is no version",
            ("3.1", "1.8"),
            lambda target: target.infer(f"identity/versions/{_HUGE_VERSION}", four()).answer(),
            says="failed to get model version",
            expect={"status": 400},
        ),
        Scenario(
            "lookup comes before the body is read",
            ("3.1",),
            lambda target: target.infer(
                "nope", "{", {"Inference-Header-Content-Length": "999"}
            ).answer(),
            says="is not found",
            expect={"status": 404},
        ),
        Scenario(
            "infer to a model that failed",
            ("2.8",),
            lambda target: target.infer("broken_initialize", four()).answer(),
            says="has no available versions",
            expect={"status": 404},
        ),
    ]
)


def _extensions(target: Target) -> str:
    """Whether the extensions listed stand in the order of row 2.14 (which of them exist, differs)."""
    order = [
        "classification",
        "sequence",
        "model_repository",
        "model_repository(unload_dependents)",
        "schedule_policy",
        "model_configuration",
        "system_shared_memory",
        "cuda_shared_memory",
        "binary_tensor_data",
        "parameters",
        "statistics",
        "trace",
        "logging",
    ]
    listed = json.loads(target.http("GET", "/v2").body)["extensions"]
    assert listed == [name for name in order if name in listed], listed
    assert {
        "binary_tensor_data",
        "parameters",
        "statistics",
        "model_configuration",
        "schedule_policy",
    } <= set(listed)
    return "in order"


def _pipelined(target: Target) -> Answer:
    """Two requests in one write: answered in order, on one connection (row 1.23)."""
    one = b"GET /v2/models/identity HTTP/1.1\r\nHost: a\r\n\r\n"
    two = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    reply = target.raw(one + two)
    return {
        "statuses": reply.count(b"HTTP/1.1 200"),
        "order": reply.index(b'"identity"') < reply.rindex(b"HTTP/1.1 200"),
    }


def _persistent(target: Target) -> Answer:
    import http.client  # noqa: PLC0415 (the name is taken at the top)

    connection = http.client.HTTPConnection("127.0.0.1", target.process.ports.http, timeout=5)
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


CONNECTIONS = [
    Scenario("pipelined requests", ("1.23",), _pipelined, expect={"statuses": 2, "order": True}),
    Scenario("persistent connection", ("1.23",), _persistent, expect={"kept": True}),
    Scenario(
        "errors are JSON",
        ("1.2", "1.9"),
        _error_type,
        expect={f"types.{i}": "application/json" for i in range(5)},
    ),
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
        "7.29",
        "POST",
        "/v2/repository/models/identity/load",
        status=503,
        says="explicit model load / unload is not allowed if polling is enabled",
    ),
    http(
        "unload in control mode none",
        "7.29",
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

SCENARIOS = [*ROUTES, *VERBS, *HEALTH, *METADATA, *LOOKUP, *CONNECTIONS]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_both_servers_give_the_same_answer(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
