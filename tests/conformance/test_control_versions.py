"""Explicit control: versions that come and go, version policies that change, and what the index shows of each state (rows 7.2, 7.3, 7.22, 7.25, 7.40)."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.wire import Answer, Target
from tests.conformance.servers import catalogue
from tests.conformance.servers.catalogue import Model
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
    repository_of,
    unload,
    wait_until_released,
)
from tests.support.waiting import wait_until

LATEST = Model(REPORT.config, REPORT.source, versions=("1", "3"))
"""The default policy, which serves the highest version."""


def versions(target: Target, model: str) -> Answer:
    """Which of the versions 1 to 4 answer, which one answers by default, and those that the metadata names."""
    statuses = {
        version: target.infer(f"{model}/versions/{version}", ZERO).status
        for version in ("1", "2", "3", "4")
    }
    default = target.infer(model, ZERO).report().get("report", {}).get("version")
    metadata = target.http("GET", f"/v2/models/{model}")
    listed = json.loads(metadata.body).get("versions") if metadata.status == 200 else None
    return {**statuses, "default": default, "metadata": listed}


def add_version(folder: Path, version: str, *, source: Path | None = None) -> None:
    """A version like version 1, or from an other source."""
    shutil.copytree(source or folder / "1", folder / version)


def _states(target: Target) -> Answer:
    """One model in every state, and whether it is listed among the ready ones."""
    go = repository_of(target).parent / "go-states"
    waits = (
        "import pathlib, time\n\nprint('states is imported', flush=True)\n"
        f"while not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.01)\n"
    )
    go.unlink(missing_ok=True)
    with folder_of(target, "states", REPORT) as folder, ThreadPoolExecutor(1) as pool:
        source = folder / "1" / "model.py"
        good = source.read_text()
        source.write_text(waits + good)
        before = target.process.output().count("states is imported")
        loading = pool.submit(load, target, "states")
        wait_until(lambda: target.process.output().count("states is imported") > before)
        found: Answer = {"loading": _seen(target)}
        go.touch()
        found["load"] = loading.result()
        found["ready"] = _seen(target)
        unload(target, "states")
        found["unloaded"] = _seen(target)
        source.write_text(RAISES)
        found["failing load"] = load(target, "states")
        found["failed"] = _seen(target)
        # Or the reference would not be ready any more.
        source.write_text(good)
        found["fixed"] = load(target, "states")
    return found


def _seen(target: Target) -> Answer:
    """The entry in the index, without its text; whether it is among the ready ones, answers, and is ready."""
    ready = json.loads(target.http("POST", "/v2/repository/index", '{"ready":true}').body)
    return {
        "entry": [
            {key: value for key, value in entry.items() if key != "reason"}
            for entry in entries(target, "states")
        ],
        "among the ready": any(entry["name"] == "states" for entry in ready),
        "infer": target.infer("states", ZERO).status,
        "version ready": target.http("GET", "/v2/models/states/versions/1/ready").status == 200,
        "statistics": target.http("GET", "/v2/models/states/stats").status,
    }


def _policies(target: Target) -> Answer:
    """A policy that changes from load to load."""
    model = Model(REPORT.config, REPORT.source, versions=("1", "2", "3"))
    found: Answer = {}
    with folder_of(target, "policies", model) as folder:
        config = folder / "config.pbtxt"
        plain = config.read_text()
        for policy in (
            "latest { num_versions: 1 }",
            "all { }",
            "latest { num_versions: 2 }",
            "specific { versions: [ 1, 3 ] }",
        ):
            config.write_text(f"{plain}version_policy {{ {policy} }}\n")
            found[policy] = [load(target, "policies"), versions(target, "policies")]
    return found


def _no_version(target: Target) -> Answer:
    """A policy under which no version is there: the load fails, and what was loaded serves on."""
    with folder_of(target, "policy", LATEST) as folder:
        load(target, "policy")
        config = folder / "config.pbtxt"
        plain = config.read_text()
        config.write_text(f"{plain}version_policy {{ specific {{ versions: [ 7 ] }} }}\n")
        found = change(target, "load", "policy").answer()
        found["serves"] = versions(target, "policy")
        add_version(folder, "7")
        found["added"] = [load(target, "policy"), versions(target, "policy")]
    return found


def _lower(target: Target) -> Answer:
    """A version below the one that the policy serves."""
    with folder_of(target, "lower", LATEST) as folder:
        load(target, "lower")
        add_version(folder, "2")
        return {"load": load(target, "lower"), "serves": versions(target, "lower")}


def _higher(target: Target) -> Answer:
    """A version above it, which takes its place; and away again."""
    with folder_of(target, "higher", LATEST) as folder:
        load(target, "higher")
        add_version(folder, "4")
        found: Answer = {"added": [load(target, "higher"), versions(target, "higher")]}
        found["listed"] = _by_version(target, "higher")
        shutil.rmtree(folder / "4")
        found["removed"] = [load(target, "higher"), versions(target, "higher")]
        found["listed then"] = _by_version(target, "higher")
    return found


def _by_version(target: Target, model: str) -> Answer:
    wait_until_released(target, model)
    return {
        entry.get("version", ""): [entry.get("state"), entry.get("reason")]
        for entry in entries(target, model)
    }


def _last_version(target: Target) -> Answer:
    """All versions are removed: the load fails, and what was loaded serves on."""
    with folder_of(target, "emptied", REPORT) as folder:
        load(target, "emptied")
        aside = folder.parent.parent / "aside-1"
        shutil.move(folder / "1", aside)
        found = change(target, "load", "emptied").answer()
        found["serves"] = target.infer("emptied", ZERO).status
        shutil.move(aside, folder / "1")
        found["back"] = [load(target, "emptied"), target.infer("emptied", ZERO).status]
    return found


def _not_versions(target: Target) -> Answer:
    """Folders whose names are not those of versions."""
    with folder_of(target, "folders", ALL) as folder:
        for name in ("04", "٤", "next", "v4", "configs", "warmup", "initial_state"):
            add_version(folder, name, source=folder / "1")
        return {"load": load(target, "folders"), "states": _by_version(target, "folders")}


def _links(target: Target) -> Answer:
    """A version that is a link out of the repository, and a model that is one."""
    with folder_of(target, "linked", ALL) as folder:
        outside = folder.parent.parent / "outside"
        shutil.copytree(folder / "1", outside / "version")
        shutil.copytree(folder, outside / "model")
        (folder / "3").symlink_to(outside / "version")
        other = folder.parent / "link_itself"
        other.symlink_to(outside / "model")
        try:
            found: Answer = {"version": [load(target, "linked"), versions(target, "linked")]}
            found["model"] = [load(target, "link_itself"), execution(target, "link_itself")]
            found["unload"] = unload(target, "link_itself")
        finally:
            other.unlink()
            shutil.rmtree(outside)
    return found


def _metadata(target: Target) -> Answer:
    """A config whose tensors and batch size change: what clients see before and after, and after a reload that fails."""
    with folder_of(target, "typed", REPORT) as folder:
        config = folder / "config.pbtxt"
        plain = config.read_text()
        load(target, "typed")
        found: Answer = {"before": _metadata_of(target)}
        config.write_text(plain.replace("max_batch_size: 0", "max_batch_size: 4"))
        found["load"] = load(target, "typed")
        found["after"] = _metadata_of(target)
        config.write_text(plain.replace("TYPE_STRING", "TYPE_NOTHING"))
        found["refused"] = load(target, "typed")
        found["then"] = _metadata_of(target)
    return found


def _metadata_of(target: Target) -> Answer:
    metadata = json.loads(target.http("GET", "/v2/models/typed").body)
    config = json.loads(target.http("GET", "/v2/models/typed/config").body)
    return {"metadata": metadata, "max_batch_size": config["max_batch_size"]}


def _twice(target: Target) -> Answer:
    """Unloads of what is unloaded already, of what failed to load, and a load after each."""
    with folder_of(target, "often", REPORT) as folder:
        found: Answer = {"never loaded": unload(target, "often")}
        load(target, "often")
        found["unloads"] = [unload(target, "often"), unload(target, "often")]
        found["entry"] = entries(target, "often")
        source = folder / "1" / "model.py"
        good = source.read_text()
        source.write_text(RAISES)
        found["failed"] = load(target, "often")
        found["unload"] = unload(target, "often")
        source.write_text(good)
        found["load"] = [load(target, "often"), execution(target, "often")]
    return found


def _replaced(target: Target) -> Answer:
    """A model whose folder is another one under the same name: other tensors, fewer versions."""
    with folder_of(target, "swapped", ALL) as folder:
        load(target, "swapped")
        shutil.rmtree(folder)
        catalogue.write(repository_of(target), {"swapped": REPORT})
        return {"load": load(target, "swapped"), "states": _by_version(target, "swapped")}


SCENARIOS = [
    Scenario(
        "a model in every state",
        ("7.2", "7.3", "2.8"),
        _states,
        expect={
            "loading.entry.0.state": "LOADING",
            "loading.among the ready": False,
            "ready.entry.0.state": "READY",
            "unloaded.entry.0.state": "UNAVAILABLE",
            "failed.entry.0.state": "UNAVAILABLE",
        },
        server="explicit",
    ),
    Scenario(
        "version policies that change",
        ("7.40", "7.22"),
        _policies,
        expect={"all { }.1.2": 200, "specific { versions: [ 1, 3 ] }.1.2": 503},
        server="explicit",
    ),
    Scenario(
        "a policy under which no version is there",
        ("7.40", "7.22", "7.12"),
        _no_version,
        says="at least one version must be available under the version policy of model 'policy'",
        expect={"status": 400, "serves.default": "3", "added.1.default": "7"},
        server="explicit",
    ),
    Scenario(
        "a version below the latest",
        ("7.25", "7.40"),
        _lower,
        expect={"load": 200, "serves.default": "3"},
        server="explicit",
    ),
    Scenario(
        "a version above the latest",
        ("7.25", "7.40"),
        _higher,
        expect={"added.1.default": "4", "removed.1.default": "3"},
        server="explicit",
    ),
    Scenario(
        "no version is left",
        ("7.25", "7.40", "7.22"),
        _last_version,
        says="at least one version must be available under the version policy of model 'emptied'",
        expect={"status": 400, "serves": 200, "back.1": 200},
        server="explicit",
    ),
    Scenario(
        "folders that are not versions",
        ("7.39",),
        _not_versions,
        expect={"load": 200, "states.1.0": "READY"},
        server="explicit",
    ),
    Scenario(
        "links that leave the repository",
        ("7.25", "7.39"),
        _links,
        expect={"version.1.3": 200, "model.1": 1},
        server="explicit",
    ),
    Scenario(
        "a config that changes its tensors",
        ("7.22", "7.25", "2.19"),
        _metadata,
        expect={"refused": 500, "then.max_batch_size": 4},
        server="explicit",
    ),
    Scenario(
        "unloads of what is not loaded",
        ("7.10", "7.9", "7.3"),
        _twice,
        expect={"never loaded": 200, "unloads.1": 200, "load.1": 1},
        server="explicit",
    ),
    Scenario(
        "another model under the same name",
        ("7.22", "7.25"),
        _replaced,
        expect={"load": 200},
        server="explicit",
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_versions_under_explicit_control_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
