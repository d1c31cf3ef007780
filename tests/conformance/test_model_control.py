"""Explicit control: loads and unloads over HTTP and gRPC while the server serves (rows 7.6 to 7.12, 7.20)."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.grpc_scenarios import rpc
from tests.conformance.scenarios.scenario import Scenario, http
from tests.conformance.scenarios.wire import Answer, Target, four
from tests.conformance.servers import catalogue
from tests.conformance.servers.broken import BROKEN
from tests.conformance.servers.busy import Executions, wait_queued
from tests.conformance.servers.control import (
    REPORT,
    ZERO,
    change,
    entries,
    execution,
    folder_of,
    load,
    repository_of,
    unload,
)
from tests.support.waiting import wait_until


def _life(target: Target) -> Answer:
    """One model: never loaded, loaded, unloaded, loaded again."""
    with folder_of(target, "life", REPORT):
        found: Answer = {"never loaded": entries(target, "life")}
        found["asked before"] = target.infer("life", ZERO).status
        loaded = change(target, "load", "life")
        found["load"] = {"status": loaded.status, "body": loaded.body.decode()}
        found["asked at once"] = target.infer("life", ZERO).status
        found["loaded"] = entries(target, "life")
        unloaded = change(target, "unload", "life")
        found["unload"] = {"status": unloaded.status, "body": unloaded.body.decode()}
        found["asked after"] = target.infer("life", ZERO).status
        unload(target, "life")
        found["unloaded"] = entries(target, "life")
        found["config"] = target.http("GET", "/v2/models/life/config").status
        found["again"] = load(target, "life")
        found["asked again"] = execution(target, "life")
    return found


def _grpc_life(target: Target) -> Answer:
    with folder_of(target, "grpc_life", REPORT):
        loaded = target.call(
            "RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="grpc_life")
        )
        found: Answer = {
            "load": loaded.answer(pb.RepositoryModelLoadResponse),
            "ready": target.http("GET", "/v2/models/grpc_life/ready").status,
        }
        unloaded = target.call(
            "RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="grpc_life")
        )
        found["unload"] = unloaded.answer(pb.RepositoryModelUnloadResponse)
        found["asked after"] = target.infer("grpc_life", ZERO).status
    return found


def _in_flight(target: Target) -> Answer:
    """A model is unloaded while it runs a request and another one waits."""
    with folder_of(target, "busy", REPORT), ThreadPoolExecutor(2) as pool:
        load(target, "busy")
        executions = Executions(target, "busy")
        running = pool.submit(target.report, "busy", 3000)
        executions.wait()
        waiting = pool.submit(target.report, "busy", 0)
        wait_queued(target, "busy", [waiting])
        found: Answer = {
            "unload": change(target, "unload", "busy").status,
            "state": entries(target, "busy"),
            "new": target.infer("busy", ZERO).status,
            "running": running.result()["status"],
            "waiting": waiting.result()["status"],
        }
        unload(target, "busy")
        found["after"] = entries(target, "busy")
    return found


def _failing(target: Target) -> Answer:
    with folder_of(target, "failing", BROKEN["broken_initialize"].model) as folder:
        reply = change(target, "load", "failing")
        entry = entries(target, "failing")[0]
        found = {
            **reply.answer(),
            "state": entry["state"],
            "reason": "no weights on purpose" in entry["reason"],
            "asked": target.infer("failing", four()).status,
        }
        unload(target, "failing")
        found["unloaded"] = entries(target, "failing")[0]["reason"] == "unloaded"
        # Or the reference would not be ready any more.
        shutil.rmtree(folder)
        catalogue.write(repository_of(target), {"failing": REPORT})
        found["fixed"] = load(target, "failing")
    return found


def _misnamed(target: Target) -> Answer:
    with folder_of(target, "misnamed", BROKEN["broken_name"].model):
        return change(target, "load", "misnamed").answer()


def _side_by_side(target: Target) -> Answer:
    """Changes of one model at once follow each other; no client gets an error."""
    with folder_of(target, "shared", REPORT) as folder, ThreadPoolExecutor(4) as pool:
        source = folder / "1" / "model.py"
        importing = "shared is imported"
        source.write_text(
            f"import time\n\nprint('{importing}', flush=True)\ntime.sleep(0.5)\n{source.read_text()}"
        )
        loads = [pool.submit(load, target, "shared") for _ in range(3)]
        found: Answer = {"loads": [each.result() for each in loads]}
        found["loaded"] = target.infer("shared", ZERO).status
        source.touch()
        before = target.process.output().count(importing)
        loading = pool.submit(load, target, "shared")
        wait_until(lambda: target.process.output().count(importing) > before)
        found["unload"] = unload(target, "shared")
        found["load"] = loading.result()
        unload(target, "shared")
        found["unloaded"] = target.infer("shared", ZERO).status
    return found


def _twice(target: Target) -> Answer:
    """A model that stands in both repositories; then only in one."""
    with folder_of(target, "twin", REPORT) as folder:
        other = folder.parent.parent / "second" / "twin"
        shutil.copytree(folder, other)
        found: Answer = {"load": load(target, "twin"), "entries": entries(target, "twin")}
        shutil.rmtree(other)
        found["one"] = [load(target, "twin"), target.infer("twin", ZERO).status]
    return found


def _gone(target: Target) -> Answer:
    """A loaded model whose folder is taken away serves until it is unloaded."""
    with folder_of(target, "leaving", REPORT) as folder:
        load(target, "leaving")
        shutil.move(folder, folder.parent.parent / "aside")
        try:
            found: Answer = {"load": load(target, "leaving")}
            found["serves"] = target.infer("leaving", ZERO).status
            found["unload"] = unload(target, "leaving")
            found["serves no more"] = target.infer("leaving", ZERO).status
            found["listed"] = len(entries(target, "leaving"))
        finally:
            shutil.move(folder.parent.parent / "aside", folder)
    return found


SCENARIOS = [
    Scenario(
        "load, unload and load again",
        ("7.2", "7.3", "7.8", "7.9"),
        _life,
        expect={
            "load.status": 200,
            "load.body": "",
            "asked at once": 200,
            "unload.status": 200,
            "unload.body": "",
            "asked after": 404,
            "unloaded.0.state": "UNAVAILABLE",
            "unloaded.0.reason": "unloaded",
            "asked again": 1,
        },
        server="explicit",
    ),
    Scenario(
        "gRPC load and unload",
        ("7.8", "7.9", "10.2"),
        _grpc_life,
        expect={"load.code": "OK", "ready": 200, "unload.code": "OK", "asked after": 404},
        server="explicit",
    ),
    Scenario(
        "unload with requests in flight",
        ("7.9", "7.3"),
        _in_flight,
        expect={
            "unload": 200,
            "state.0.state": "UNLOADING",
            "new": 404,
            "running": 200,
            "waiting": 200,
            "after.0.reason": "unloaded",
        },
        server="explicit",
    ),
    Scenario(
        "load of a model that fails",
        ("7.12", "7.3"),
        _failing,
        says="load failed for model 'failing': version 1 is at UNAVAILABLE state:",
        expect={"status": 400, "state": "UNAVAILABLE", "reason": True, "fixed": 200},
        server="explicit",
    ),
    Scenario(
        "load of a model whose config names another",
        ("7.20", "7.11"),
        _misnamed,
        says="failed to load 'misnamed', failed to poll from model repository",
        expect={"status": 500},
        server="explicit",
    ),
    Scenario(
        "loads and unloads of one model at once",
        ("7.8", "7.9"),
        _side_by_side,
        expect={"loaded": 200, "unload": 200, "unloaded": 404},
        server="explicit",
    ),
    Scenario(
        "load of a model in two repositories",
        ("7.6",),
        _twice,
        expect={
            "entries.0.reason": "model appears in two or more repositories",
            "one.1": 200,
        },
        server="explicit",
    ),
    Scenario(
        "load of a model whose folder is gone",
        ("7.11",),
        _gone,
        expect={"load": 500, "unload": 200, "serves no more": 404},
        server="explicit",
    ),
    http(
        "load of a model that is not there",
        "7.11",
        "POST",
        "/v2/repository/models/nope/load",
        status=500,
        says="failed to load 'nope', failed to poll from model repository",
        server="explicit",
    ),
    http(
        "unload of a model that is not there",
        "7.10",
        "POST",
        "/v2/repository/models/nope/unload",
        status=200,
        server="explicit",
    ),
    rpc(
        "gRPC load of a model that is not there",
        "7.11",
        "RepositoryModelLoad",
        pb.RepositoryModelLoadRequest(model_name="nope"),
        code="INTERNAL",
        says="failed to load 'nope', failed to poll from model repository",
        server="explicit",
    ),
    rpc(
        "gRPC unload of a model that is not there",
        "7.10",
        "RepositoryModelUnload",
        pb.RepositoryModelUnloadRequest(model_name="nope"),
        server="explicit",
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_loads_and_unloads_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
