"""Models of the same name in several repositories (`--model-namespacing=true`, row 7.37)."""

import json
import re
from pathlib import Path

import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.grpc_scenarios import inference, request, rpc
from tests.conformance.scenarios.scenario import Scenario, http, infer
from tests.conformance.scenarios.wire import Answer, Target, four, value
from tests.conformance.servers.control import REPORT, ZERO, entries, load, unload
from tests.conformance.test_load_overrides import CONFIG, FILES, load_with

AMBIGUOUS = "model namespace must be provided to resolve ambiguity"
UNKNOWN = "Request for unknown model: 'nope' is not found"
_GET = [
    ("metadata", "/v2/models/identity", AMBIGUOUS),
    ("metadata of a version", "/v2/models/identity/versions/1", AMBIGUOUS),
    ("config", "/v2/models/identity/config", AMBIGUOUS),
    ("readiness", "/v2/models/identity/ready", None),
    ("metadata of an unknown model", "/v2/models/nope", UNKNOWN),
    ("readiness of an unknown model", "/v2/models/nope/ready", None),
]
_WORD = {"inputs": [value("IN", "BYTES", [1], ["word"])]}


def _index(target: Target) -> Answer:
    listed = json.loads(target.http("POST", "/v2/repository/index").body)
    return {"entries": sorted(json.dumps(entry) for entry in listed if entry["name"] != "shared")}


def _labels(target: Target) -> Answer:
    """The labels of each model's success counter, with the namespace's folder only."""
    text = target.http("GET", "/metrics", port=target.process.ports.metrics).body.decode()
    lines = re.findall(r"^nv_inference_request_success\{(.*)\}", text, re.MULTILINE)
    return {"lines": sorted(re.sub(r'namespace="[^"]*/', 'namespace="', line) for line in lines)}


def _life(target: Target) -> Answer:
    """A model of both repositories is loaded and unloaded by its name."""
    found: Answer = {"before": target.infer("shared", ZERO).status}
    found["load"] = load(target, "shared")
    found["listed"] = entries(target, "shared")
    found["asked"] = target.infer("shared", ZERO).answer()["status"]
    found["unload"] = unload(target, "shared")
    found["after"] = target.infer("shared", ZERO).status
    return found


def _one_left(target: Target) -> Answer:
    """A model that only one repository still has."""
    first, second = (
        Path(part.partition("=")[2])
        for part in target.process.command
        if part.startswith("--model-repository=")
    )
    (second / "shared").rename(second.parent / "aside")
    try:
        found: Answer = {"load": load(target, "shared"), "entries": len(entries(target, "shared"))}
        found["asked"] = target.infer("shared", ZERO).status
        (second.parent / "aside").rename(second / "shared")
        found["both"] = [load(target, "shared"), target.infer("shared", ZERO).status]
    finally:
        if (second.parent / "aside").exists():
            (second.parent / "aside").rename(second / "shared")
        unload(target, "shared")
    assert (first / "shared").exists()
    return found


def _files(target: Target) -> Answer:
    """A model of the files of a request stands beside those of the repositories."""
    try:
        found: Answer = {"new": load_with(target, "brought", CONFIG, FILES).status}
        found["asked"] = target.infer("brought", ZERO).status
        found["beside"] = load_with(target, "words_one", CONFIG, FILES).status
        found["ambiguous"] = target.infer("words_one", _WORD).status
        unload(target, "words_one")
        found["again"] = [load(target, "words_one"), target.infer("words_one", _WORD).status]
    finally:
        unload(target, "brought")
    return found


def _config(target: Target) -> Answer:
    """A config of a request is for the models of both repositories."""
    try:
        found: Answer = {"load": load_with(target, "shared", CONFIG).status}
        found["listed"] = [entry["state"] for entry in entries(target, "shared")]
    finally:
        unload(target, "shared")
    return found


assert REPORT.versions == ("1",)
SCENARIOS = [
    *(
        http(f"namespaces: {name}", "7.37", "GET", path, status=400, says=says, server="namespaces")
        for name, path, says in _GET
    ),
    infer("namespaces: an ambiguous name", "7.37", "identity", four(), status=400, says=AMBIGUOUS, server="namespaces"),
    infer("namespaces: an unknown name", "7.37", "nope", four(), status=400, says=UNKNOWN, server="namespaces"),
    infer("namespaces: a name of one repository", "7.37", "words_one", _WORD, server="namespaces"),
    inference("namespaces: gRPC infer of an ambiguous name", "7.37", request("identity"), code="INVALID_ARGUMENT", says=AMBIGUOUS, server="namespaces"),
    rpc("namespaces: gRPC readiness", "7.37", "ModelReady", pb.ModelReadyRequest(name="identity"), pb.ModelReadyResponse, server="namespaces"),
    rpc("namespaces: gRPC readiness of an unknown model", "7.37", "ModelReady", pb.ModelReadyRequest(name="nope"), pb.ModelReadyResponse, server="namespaces"),
    http("namespaces: the server is ready", "7.37", "GET", "/v2/health/ready", status=200, server="namespaces"),
    http("namespaces: statistics of an ambiguous name", "7.37", "GET", "/v2/models/identity/stats", status=400, server="namespaces"),
    http("namespaces: all statistics", "7.37", "GET", "/v2/models/stats", status=200, expect={"json.model_stats.0.version": "1"}, server="namespaces"),
    Scenario("namespaces: index", ("7.37", "7.2"), _index, server="namespaces"),
    Scenario("namespaces: labels", ("7.37", "8.30"), _labels, server="namespaces"),
    Scenario(
        "namespaces: load and unload by name",
        ("7.37", "7.8", "7.9"),
        _life,
        expect={"load": 200, "asked": 400, "unload": 200},
        server="namespaces",
    ),
    Scenario("namespaces: a repository loses and gets a model", ("7.37",), _one_left, expect={"asked": 200, "both.1": 400}, server="namespaces"),
    Scenario("namespaces: a model of the files of a request", ("7.37", "7.16"), _files, server="namespaces"),
    Scenario("namespaces: a config of a request", ("7.37", "7.15"), _config, server="namespaces"),
]  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_namespaces_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
