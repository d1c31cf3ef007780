"""HTTP apart from inference: routes, verbs, health, metadata, lookup errors, and what a server without options shows."""

import json
from functools import partial

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, http
from tests.conformance.scenarios.wire import Answer, Target, four


def _verb(target: Target, method: str) -> Answer:
    return {"status": target.http(method, "/v2").status}


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
        "/v2/models/identity/unknown",
        "/v2/models//ready",
        "/v2/models/identity/versions",
        "/v2/models/identity/versions/",
        "/v3/models/identity",
    )
] + [
    http(
        "version that is not a number",
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
        ("PATCH", "/v2"),
        ("GET", _INDEX),
    )
]

# No statement of the row: Naiad answers these two on purpose.
VERBS += [
    Scenario(
        f"{method} /v2",
        ("1.4",),
        partial(_verb, method=method),
        expect={"status": status},
    )
    for method, status in (("HEAD", 200), ("OPTIONS", 204))
]

DECOUPLED = [
    Scenario(
        "infer to a decoupled model",
        ("3.2",),
        lambda target: target.infer("decoupled", four()).answer(),
        says="HTTP end point doesn't support models with decoupled transaction policy",
        expect={"status": 501},
    ),
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
        says="'identity' version 9 is not found",
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
            "infer to a version that is not a number either",
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


SCENARIOS = [*ROUTES, *VERBS, *HEALTH, *METADATA, *DECOUPLED, *LOOKUP]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_http_routes_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
