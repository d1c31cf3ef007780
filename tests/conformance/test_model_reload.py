"""Reloading a loaded model: nothing to do, the new version beside the old one, and what a failure leaves (rows 7.21, 7.22, 7.25)."""

import json
import shutil
import threading

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.wire import Answer, Target
from tests.conformance.servers.control import (
    ALL,
    RAISES,
    REPORT,
    ZERO,
    change,
    entries,
    execution,
    folder_of,
    load,
    unload,
)
from tests.support.waiting import PAUSE_S


def _unchanged(target: Target) -> Answer:
    """A load of what has not changed. Twice before, since Python writes into the folder when it first loads a model."""
    with folder_of(target, "same", REPORT):
        before = [load(target, "same"), load(target, "same"), execution(target, "same")]
        return {
            "before": before,
            "load": load(target, "same"),
            "execution": execution(target, "same"),
        }


def _changed(target: Target) -> Answer:
    """What makes a load load: newer files, and a version that comes or goes."""
    with folder_of(target, "changing", ALL) as folder:
        found: Answer = {"load": load(target, "changing")}
        found["first"] = [execution(target, "changing") for _ in range(2)]
        (folder / "1" / "model.py").touch()
        found["touched"] = [load(target, "changing"), execution(target, "changing")]
        shutil.copytree(folder / "1", folder / "3")
        found["version 3 came"] = [load(target, "changing"), _versions(target, "changing")]
        shutil.rmtree(folder / "1")
        found["version 1 went"] = [load(target, "changing"), _versions(target, "changing")]
    return found


def _versions(target: Target, model: str) -> Answer:
    asked = {
        version: target.infer(f"{model}/versions/{version}", ZERO).status for version in ("1", "3")
    }
    default = target.infer(model, ZERO).report()["report"]["version"]
    return {**asked, "default": default}


def _failed_reload(target: Target) -> Answer:
    """A reload that fails: the old model serves on, also when its config cannot be read any more; a fixed one takes over."""
    with folder_of(target, "reloaded", REPORT) as folder:
        load(target, "reloaded")
        source, config = folder / "1" / "model.py", folder / "config.pbtxt"
        good, readable = source.read_text(), config.read_text()
        source.write_text(RAISES)
        found = change(target, "load", "reloaded").answer()
        found["serves"] = target.infer("reloaded", ZERO).status
        found["state"] = entries(target, "reloaded")
        config.write_text("bogus: 1")
        found["config"] = load(target, "reloaded")
        found["serves on"] = target.infer("reloaded", ZERO).status
        source.write_text(good)
        config.write_text(readable)
        found["fixed"] = [load(target, "reloaded"), execution(target, "reloaded")]
    return found


def _failed_version(target: Target) -> Answer:
    """A second version that fails leaves the first serving."""
    with folder_of(target, "half", ALL) as folder:
        load(target, "half")
        (folder / "2").mkdir()
        (folder / "2" / "model.py").write_text(RAISES)
        found = change(target, "load", "half").answer()
        found["states"] = [entry["state"] for entry in entries(target, "half")]
        found["serves"] = target.infer("half", ZERO).report()["report"]["version"]
        shutil.copy(folder / "1" / "model.py", folder / "2")
        found["fixed"] = [
            load(target, "half"),
            target.infer("half", ZERO).report()["report"]["version"],
        ]
    return found


def _under_load(target: Target) -> Answer:
    """Four clients ask all the time while the model is loaded again three times."""
    statuses: list[int] = []
    over = threading.Event()

    def ask() -> None:
        while not over.wait(PAUSE_S):
            statuses.append(target.infer("hot", ZERO).status)

    with folder_of(target, "hot", REPORT) as folder:
        load(target, "hot")
        clients = [threading.Thread(target=ask) for _ in range(4)]
        for client in clients:
            client.start()
        reloads = []
        for _ in range(3):
            (folder / "1" / "model.py").touch()
            reloads.append(load(target, "hot"))
        over.set()
        for client in clients:
            client.join()
    return {"reloads": reloads, "statuses": sorted(set(statuses))}


def _counters(target: Target) -> Answer:
    """The statistics of a model begin at zero with a reload, and are gone with an unload."""
    with folder_of(target, "counting", REPORT) as folder:
        load(target, "counting")
        for _ in range(3):
            target.infer("counting", ZERO)
        found: Answer = {"before": _counted(target)}
        (folder / "1" / "model.py").touch()
        load(target, "counting")
        found["reloaded"] = _counted(target)
        unload(target, "counting")
        found["unloaded"] = _counted(target)
    return found


def _counted(target: Target) -> list[int]:
    reply = target.http("GET", "/v2/models/counting/stats")
    return [entry["inference_count"] for entry in json.loads(reply.body).get("model_stats", [])]


SCENARIOS = [
    Scenario(
        "load of what has not changed",
        ("7.21",),
        _unchanged,
        expect={"load": 200, "execution": 2},
        server="explicit",
    ),
    Scenario(
        "load of what has changed",
        ("7.22", "7.25"),
        _changed,
        expect={
            "touched.1": 1,
            "version 3 came.1.default": "3",
            "version 1 went.1.1": 503,
        },
        server="explicit",
    ),
    Scenario(
        "reload that fails",
        ("7.22", "7.12"),
        _failed_reload,
        says="load failed for model 'reloaded': version 1 is at UNAVAILABLE state:",
        expect={
            "status": 400,
            "serves": 200,
            "state.0.state": "READY",
            "config": 500,
            "serves on": 200,
            "fixed.1": 1,
        },
        server="explicit",
    ),
    Scenario(
        "reload of which one version fails",
        ("7.22", "7.12"),
        _failed_version,
        says="load failed for model 'half': version 2 is at UNAVAILABLE state:",
        expect={"status": 400, "serves": "1", "fixed.1": "2"},
        server="explicit",
    ),
    Scenario(
        "reload under load",
        ("7.22",),
        _under_load,
        expect={"statuses.0": 200, "reloads.2": 200},
        server="explicit",
    ),
    Scenario(
        "counters after a reload",
        ("7.22",),
        _counters,
        expect={"before.0": 3, "reloaded.0": 0, "unloaded": []},
        server="explicit",
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_reloads_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
