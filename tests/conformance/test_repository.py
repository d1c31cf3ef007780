"""The repository: index, versions, several repositories, and restricted APIs over HTTP (sections 7 and 17)."""

import json

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, http
from tests.conformance.scenarios.wire import Answer, Target, four, value
from tests.conformance.servers.control import repository_of


def _index(target: Target, body: str | None = None) -> list[dict[str, str]]:
    document: list[dict[str, str]] = json.loads(target.http("POST", _INDEX, body).body)
    return document


def _entries(target: Target, *names: str, body: str | None = None) -> Answer:
    return {
        "entries": [entry for entry in _index(target, body) if not names or entry["name"] in names]
    }


def _versions(target: Target, model: str) -> Answer:
    """Which version answers for each that is asked for."""
    request = {"inputs": [value("DELAY_MS", "INT32", [1], [0])]}
    found: Answer = {
        "default": target.infer(model, request).report().get("report", {}).get("version")
    }
    for version in ("1", "2", "3", "4", "10"):
        found[version] = target.infer(f"{model}/versions/{version}", request).status
    return found


def _shape(target: Target, model: str) -> Answer:
    entries = [e for e in _index(target) if e["name"] == model]
    first = entries[0] if entries else {}
    return {
        "entries": len(entries),
        "state": first.get("state"),
        "version": first.get("version"),
        "members": {name: name in first for name in ("state", "version", "reason")},
    }


def _added(target: Target) -> Answer:
    """A model folder that appears after the start: both servers read the same repository."""
    folder = repository_of(target) / "late"
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "config.pbtxt").write_text('backend: "python"\n')
    return {
        "status": target.http("GET", "/v2/models/late").status,
        "listed": any(e["name"] == "late" for e in _index(target)),
    }


_INDEX = "/v2/repository/index"


INDEX = [
    Scenario(
        "index of what is good",
        ("7.1", "7.2", "7.3"),
        lambda target: {
            "entries": [e for e in _index(target) if not e["name"].startswith("broken")]
        },
    ),
    Scenario(
        "index in order of names",
        ("7.2",),
        lambda target: {
            "sorted": [e["name"] for e in _index(target)]
            == sorted(e["name"] for e in _index(target))
        },
    ),
    Scenario(
        "index of what is ready",
        ("7.1", "7.3"),
        lambda target: {
            "states": sorted({e["state"] for e in _index(target, '{"ready":true}')}),
            "names": len(
                [e for e in _index(target, '{"ready":true}') if not e["name"].startswith("broken")]
            ),
        },
        expect={"states.0": "READY"},
    ),
    Scenario(
        "index of everything, told so",
        ("7.1",),
        lambda target: {"same": _index(target, '{"ready":false}') == _index(target)},
        expect={"same": True},
    ),
    http(
        "index with ready that is not a boolean",
        "7.1",
        "POST",
        _INDEX,
        '{"ready":1}',
        status=400,
        says="Invalid value for 'ready': expected a boolean",
    ),
    http(
        "index with a body that is not JSON",
        "7.1",
        "POST",
        _INDEX,
        "nope",
        status=500,
        says="failed to parse the request JSON buffer",
    ),
    Scenario(
        "index of a repository by name",
        ("7.7",),
        lambda target: {"status": target.http("POST", "/v2/repository/some/index").status},
        expect={"status": 200},
    ),
    http(
        "load in a repository by name",
        "7.7",
        "POST",
        "/v2/repository/some/models/identity/load",
        status=501,
        says="'repository_name' specification is not supported",
    ),
    http(
        "unload in a repository by name",
        "7.7",
        "POST",
        "/v2/repository/some/models/identity/unload",
        status=501,
        says="'repository_name' specification is not supported",
    ),
    Scenario(
        "index entry of a config that cannot be read",
        ("7.2", "7.3", "11.1"),
        lambda target: _shape(target, "broken_unknown_field"),
        expect={"members.state": True, "members.reason": True},
    ),
    Scenario(
        "index entry of a model that raised",
        ("7.2", "7.3"),
        lambda target: _shape(target, "broken_initialize"),
        expect={"state": "UNAVAILABLE", "version": "1"},
    ),
    Scenario(
        "index entry of a model without versions",
        ("7.2", "7.40"),
        lambda target: _shape(target, "broken_no_version"),
        expect={"state": "UNAVAILABLE", "members.reason": True},
    ),
]


REPOSITORIES = [
    Scenario(
        "a model of the second repository",
        ("7.35",),
        lambda target: target.infer("elsewhere", four()).answer(),
        expect={"status": 200},
    ),
    Scenario(
        "a model in two repositories",
        ("7.6",),
        lambda target: {
            **_entries(target, "duplicated"),
            "status": target.infer("duplicated", four()).status,
        },
        expect={"entries.0.reason": "model appears in two or more repositories", "status": 404},
    ),
    Scenario(
        "versions: the latest by default",
        ("7.40", "2.8"),
        lambda target: _versions(target, "versions_default"),
        expect={"default": "10"},
    ),
    Scenario(
        "versions: all",
        ("7.40",),
        lambda target: _versions(target, "versions_all"),
        expect={"1": 200, "2": 200},
    ),
    Scenario(
        "versions: the latest two, and folders that are not versions",
        ("7.40", "7.39"),
        lambda target: _versions(target, "versions_latest"),
        expect={"default": "3", "1": 404, "4": 404},
    ),
    Scenario(
        "versions: specific ones, one of them missing",
        ("7.40",),
        lambda target: _versions(target, "versions_specific"),
        expect={"1": 200, "2": 404},
    ),
    Scenario(
        "later changes are ignored",
        ("7.29",),
        _added,
        expect={"status": 404},
    ),
]


_KEY = {"secret": "open"}
_EXPECTING = "This API is restricted, expecting header 'secret'"
RESTRICTED = [
    http(
        f"restricted: {method} {path}",
        "17.16 17.15",
        method,
        path,
        status=403,
        says=_EXPECTING,
        server="restricted",
    )
    for method, path in (
        ("GET", "/v2/health/live"),
        ("GET", "/v2/health/ready"),
        ("GET", "/v2/models/identity/ready"),
        ("POST", "/v2/models/identity/infer"),
        ("GET", "/v2/models/identity/infer"),
    )
] + [
    http(
        "restricted with a wrong value",
        "17.16",
        "GET",
        "/v2/health/live",
        headers={"secret": "shut"},
        status=403,
        says=_EXPECTING,
        server="restricted",
    ),
    http(
        "restricted with the value",
        "17.16",
        "GET",
        "/v2/health/live",
        headers=_KEY,
        status=200,
        server="restricted",
    ),
    http(
        "restricted: the header's name has no case",
        "17.16",
        "GET",
        "/v2/health/live",
        headers={"SECRET": "open"},
        status=200,
        server="restricted",
    ),
    http(
        "restricted by another key",
        "17.15",
        "GET",
        "/v2/models/identity/stats",
        headers=_KEY,
        status=403,
        says="expecting header 'other'",
        server="restricted",
    ),
    http(
        "restricted by another key, with it",
        "17.15",
        "GET",
        "/v2/models/stats",
        headers={"other": "key"},
        status=200,
        mask=("*.ns", "*last_inference", "*memory_usage*"),
        server="restricted",
    ),
    http("not restricted", "17.15", "GET", "/v2/models/identity", status=200, server="restricted"),
    http(
        "not restricted: config",
        "17.15",
        "GET",
        "/v2/models/identity/config",
        status=200,
        server="restricted",
    ),
    Scenario(
        "restricted inference with the value",
        ("17.16",),
        lambda target: target.infer("identity", four(), _KEY).answer(),
        expect={"status": 200},
        server="restricted",
    ),
    http(
        "everything is ready",
        "2.2 2.4",
        "GET",
        "/v2/health/ready",
        headers=_KEY,
        status=200,
        server="restricted",
    ),
]

SCENARIOS = [*INDEX, *REPOSITORIES, *RESTRICTED]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_repository_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
