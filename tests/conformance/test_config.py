"""Model configuration: what GET config prints, what is refused and with which reason, and auto-complete (section 11)."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, http
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.conformance.servers.broken import BROKEN, COMPLETING
from tests.conformance.servers.catalogue import GOOD


def _members(target: Target, model: str) -> Answer:
    config = json.loads(target.http("GET", f"/v2/models/{model}/config").body)
    return {
        "members": list(config),
        "input": list(config["input"][0]),
        "output": list(config["output"][0]),
    }


def _inside(target: Target) -> Answer:
    """The config that initialize got, against the one that the API prints."""
    inside = target.infer(
        "toolbox", {"inputs": [value("PROBE", "BYTES", [1], ["config"])]}
    ).report()["report"]
    outside = json.loads(target.http("GET", "/v2/models/toolbox/config").body)
    return {
        "name": inside["name"],
        "same": {key: inside.get(key) == outside[key] for key in outside},
    }


def _refused(target: Target, model: str) -> Answer:
    """Whether a broken model is served, and its reason: from the index, or from the log where the index has none."""
    index = json.loads(target.http("POST", "/v2/repository/index").body)
    entries = [entry for entry in index if entry["name"] == model]
    states = sorted({entry.get("state", "no state") for entry in entries})
    reason = " ".join(str(entry.get("reason", "")) for entry in entries)
    told = [line for line in target.process.output().splitlines() if model in line]
    return {
        "served": "READY" in states,
        "metadata": target.http("GET", f"/v2/models/{model}").status,
        "error": f"{reason}\n" + "\n".join(told),
    }


def _plain(target: Target) -> Answer:
    """`plain` has an auto_complete_config, but the main server runs with --disable-auto-complete-config."""
    config = json.loads(target.http("GET", "/v2/models/plain/config").body)
    return {"inputs": len(config["input"]), "max_batch_size": config["max_batch_size"]}


def _side_by_side(target: Target) -> Answer:
    with ThreadPoolExecutor(2) as pool:
        reports = [
            f.result()["report"]
            for f in [pool.submit(target.report, "instances", 400) for _ in range(2)]
        ]
    return {
        "names": " ".join(sorted(report["instance"] for report in reports)),
        "kinds": sorted(r["kind"] for r in reports),
    }


_ROWS = {
    "identity": "2.19 2.21 11.2 11.8 11.9 11.21 11.31",
    "batched": "2.19 11.9",
    "two": "2.19 11.10",
    "types": "2.19 11.10 11.15",
    "matrix": "2.20 11.10",
    "reshaped": "2.19 11.12",
    "optional": "11.15",
    "config_mixed": "2.19 2.20 11.2 11.11 11.17 11.21 11.22 11.32 11.34 11.39",
    "instances": "11.31 11.32 11.33",
    "ordered": "11.22 11.31",
    "priorities": "11.22",
    "queue": "11.22",
    "queue_full": "11.22",
    "queue_reject": "11.22",
    "preferred": "11.22",
    "unbatched_queue": "11.22 12.22",
    "versions_all": "11.8",
    "versions_latest": "11.8 7.40",
    "versions_specific": "11.8 7.40",
    "named_file": "11.6",
}

PRINTED = [
    http(f"config of {name}", rows, "GET", f"/v2/models/{name}/config", status=200)
    for name, rows in _ROWS.items()
] + [
    http(
        "config of a version",
        "2.19",
        "GET",
        "/v2/models/versions_all/versions/1/config",
        status=200,
    ),
    Scenario(
        "order of the config's members", ("2.19",), lambda target: _members(target, "config_mixed")
    ),
    Scenario("the model gets the same config", ("15.2", "2.19"), _inside),
]


REFUSED = [
    Scenario(
        f"refused: {name}",
        broken.rows,
        partial(_refused, model=name),
        says=broken.says or None,
        expect={"served": False, "metadata": 404},
        server=server,
    )
    for server, models in (("main", BROKEN), ("optioned", COMPLETING))
    for name, broken in models.items()
] + [
    http(
        "others are served beside broken models",
        "11.1 7.32",
        "GET",
        "/v2/models/identity/ready",
        status=200,
    ),
]

COMPLETED = [
    http(
        "config completed by the model",
        "15.27 11.49",
        "GET",
        "/v2/models/complete/config",
        status=200,
        server="optioned",
        expect={"json.max_batch_size": 4},
    ),
    http(
        "config completed from nothing",
        "15.27 11.4 11.48",
        "GET",
        "/v2/models/complete_nothing/config",
        status=200,
        server="optioned",
        expect={"json.backend": "python"},
    ),
    http(
        "a config's own values stay",
        "15.27 11.49",
        "GET",
        "/v2/models/complete_batch/config",
        status=200,
        server="optioned",
    ),
    http(
        "metadata of a completed model",
        "15.27",
        "GET",
        "/v2/models/complete_nothing",
        status=200,
        server="optioned",
    ),
    Scenario(
        "a completed model answers",
        ("15.27", "11.15"),
        lambda target: target.infer(
            "complete", {"inputs": [value("IN", "FP32", [2, 3], [1] * 6)]}
        ).answer(),
        expect={"status": 200},
        server="optioned",
    ),
    Scenario(
        "nothing is completed when that is off",
        ("11.48", "15.27"),
        _plain,
        expect={"inputs": 0},
    ),
    http(
        "another config file",
        "7.34",
        "GET",
        "/v2/models/configured/config",
        status=200,
        server="optioned",
        expect={"json.max_batch_size": 7},
    ),
    http(
        "config.pbtxt where the other file is absent",
        "7.34",
        "GET",
        "/v2/models/matrix/config",
        status=200,
        server="optioned",
        expect={"json.max_batch_size": 0},
    ),
    http(
        "config.pbtxt without an option",
        "7.34",
        "GET",
        "/v2/models/configured/config",
        status=200,
        expect={"json.max_batch_size": 2},
    ),
]


INSTANCES = [
    Scenario(
        "two instances run side by side",
        ("11.31", "11.32", "12.1"),
        _side_by_side,
        expect={"names": "instances_0_0 named_0"},
    ),
]


SCENARIOS = [*PRINTED, *REFUSED, *COMPLETED, *INSTANCES]
assert set(_ROWS) <= set(GOOD)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_model_configuration_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
