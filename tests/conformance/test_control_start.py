"""Explicit control at the start: which models are loaded, what ends the start, and when the server is ready (rows 7.31, 7.32, 2.4)."""

import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.starting import exits, server_on, start
from tests.conformance.scenarios.wire import Answer, Target
from tests.conformance.servers import catalogue
from tests.conformance.servers.broken import BROKEN
from tests.conformance.servers.catalogue import Model
from tests.conformance.servers.control import ALL, RAISES, REPORT, ZERO, change, unload
from tests.reference.process import ServerProcess
from tests.support.waiting import wait_until

_OPTIONS = ("--model-control-mode=explicit", "--disable-auto-complete-config")


def _models(folder: str) -> Path:
    repository = catalogue.write(
        Path(folder) / "models", catalogue.GOOD, only=("identity", "report", "two")
    )
    return catalogue.write(repository, {"broken": BROKEN["broken_initialize"].model})


def _server(target: Target, folder: str, *more: str) -> ServerProcess:
    return server_on(target, _models(folder), *_OPTIONS, *more)


def _loaded(target: Target, *names: str, exit_on_error: bool = True) -> Answer:
    """What serves after a start, and whether the server is ready."""
    loads = [f"--load-model={name}" for name in names]
    options = (*loads, f"--exit-on-error={exit_on_error}")
    with tempfile.TemporaryDirectory() as folder, _server(target, folder, *options) as running:
        asked = Target(running)
        return {"states": _states(asked), "ready": _ready(asked)}


def _states(target: Target) -> dict[str, str]:
    index = json.loads(target.http("POST", "/v2/repository/index").body)
    return {entry["name"]: entry.get("state", "never loaded") for entry in index}


def _exits(target: Target, *names: str) -> Answer:
    """A start that must fail."""
    loads = [f"--load-model={name}" for name in names]
    with tempfile.TemporaryDirectory() as folder:
        # Triton sometimes waits for all of its exit timeout, 30 s, when a start fails.
        return exits(target, _models(folder), *_OPTIONS, *loads, "--exit-timeout-secs=5")


def _one_version_fails(target: Target) -> Answer:
    """A start with a model of which one version of two fails: what the index shows, and whether the other one answers."""
    with tempfile.TemporaryDirectory() as folder:
        model = Model(ALL.config, ALL.source, versions=("1", "3"))
        repository = catalogue.write(Path(folder) / "models", {"mixed": model})
        (repository / "mixed" / "3" / "model.py").write_text(RAISES)
        options = (*_OPTIONS, "--load-model=*", "--exit-on-error=false")
        with server_on(target, repository, *options) as running:
            asked = Target(running)
            index = json.loads(asked.http("POST", "/v2/repository/index").body)
            listed = {
                f"version {entry['version']}": entry["state"]
                + (", unloaded" if entry["reason"] == "unloaded" else ", failed")
                for entry in index
            }
            paths = ("mixed", "mixed/versions/1")
            statuses = {path: asked.infer(path, ZERO).status for path in paths}
            return {"listed": listed, "ready": _ready(asked), "statuses": statuses}


def _logged(target: Target) -> Answer:
    """The lines of the log that scripts look for, after a load, an unload and a load that failed."""
    loads = ("--load-model=two", "--load-model=broken", "--exit-on-error=false")
    lines = (
        "loading: two:1",
        "successfully loaded 'two'",
        "successfully unloaded 'two' version 1",
        "failed to load 'broken' version 1: ",
    )
    with tempfile.TemporaryDirectory() as folder, _server(target, folder, *loads) as running:
        unload(Target(running), "two")
        wait_until(lambda: "successfully unloaded" in running.output())
        return {line: line in running.output() for line in lines}


def _completed(target: Target) -> Answer:
    """A server without models, and a load that fails while the model completes its config: the model is at fault, not its config."""
    with tempfile.TemporaryDirectory() as folder:
        repository = _models(folder)
        (repository / "report" / "1" / "model.py").write_text("import no_such_module_here\n")
        with server_on(target, repository, *_OPTIONS[:1]) as running:
            asked = Target(running)
            found = {"states": _states(asked), "ready": _ready(asked)}
            return {**found, **change(asked, "load", "report").answer()}


def _ready(target: Target) -> int:
    return target.http("GET", "/v2/health/ready").status


def _change(target: Target, action: str) -> int:
    return change(target, action, "report").status


def _readiness(target: Target) -> Answer:
    """Whether the server is ready while a model comes, fails and goes."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(1) as pool,
        _server(target, folder) as running,
    ):
        asked = Target(running)
        source = Path(folder) / "models" / "report" / "1" / "model.py"
        good = source.read_text()
        found: Answer = {"no model": _ready(asked)}
        begun, may_end = Path(folder) / "begun", Path(folder) / "may_end"
        source.write_text(
            f"import pathlib, time\n\npathlib.Path({str(begun)!r}).touch()\n"
            f"while not pathlib.Path({str(may_end)!r}).exists():\n    time.sleep(0.01)\n{good}"
        )
        loading = pool.submit(_change, asked, "load")
        wait_until(begun.exists)
        found["loading"] = _ready(asked)
        may_end.touch()
        found["loaded"] = [loading.result(), _ready(asked)]
        source.write_text("import no_such_module_here\n")
        found["failed reload"] = [_change(asked, "load"), _ready(asked)]
        unload(asked, "report")
        found["unloaded"] = _ready(asked)
        found["failed"] = [_change(asked, "load"), _ready(asked)]
        _change(asked, "unload")
        found["failed and unloaded"] = _ready(asked)
        source.write_text(good)
        found["fixed"] = [_change(asked, "load"), _ready(asked)]
    return found


def _side_by_side(target: Target) -> Answer:
    """How many models are loaded at the same time: each waits a moment for the import of the other one."""
    found: Answer = {}
    for threads in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            repository = catalogue.write(Path(folder) / "models", {"one": REPORT, "two": REPORT})
            for name, other in (("one", "two"), ("two", "one")):
                source = repository / name / "1" / "model.py"
                source.write_text(
                    _MEETING.format(folder=folder, name=name, other=other) + source.read_text()
                )
            options = (*_OPTIONS, "--load-model=*", f"--model-load-thread-count={threads}")
            with server_on(target, repository, *options) as running:
                found[f"ready {threads}"] = _ready(Target(running))
            found[f"met {threads}"] = sum(1 for _ in Path(folder).glob("met-*"))
    return found


_MEETING = """
import pathlib as _pathlib, time as _time
_folder = _pathlib.Path({folder!r})
(_folder / "begun-{name}").touch()
for _ in range(100):
    if (_folder / "ended-{other}").exists():
        break
    if (_folder / "begun-{other}").exists():
        (_folder / "met-{name}").touch()
        if (_folder / "met-{other}").exists():
            break
    _time.sleep(0.02)
(_folder / "ended-{name}").touch()
"""


SCENARIOS = [
    start(
        "start with the models named",
        "7.31 7.2",
        lambda target: _loaded(target, "identity", "two", "two"),
        ready=200,
        **{
            "states.identity": "READY",
            "states.report": "never loaded",
            "states.two": "READY",
            "states.broken": "never loaded",
        },
    ),
    start(
        "start with every model",
        "7.31",
        lambda target: _loaded(target, "*", exit_on_error=False),
        ready=400,
        **{"states.report": "READY", "states.broken": "UNAVAILABLE"},
    ),
    start(
        "start with every model, one of them broken",
        "7.31 7.32",
        lambda target: _exits(target, "*"),
        says="failed to load all models",
        status=1,
    ),
    start(
        "start with every model and one by name",
        "7.31",
        lambda target: _exits(target, "*", "identity"),
        says="must be the ONLY startup model if specified at all",
        status=1,
    ),
    start(
        "start with a model that is not there",
        "7.31 7.32",
        lambda target: _exits(target, "identity", "nope"),
        says="failed to load all models",
        status=1,
    ),
    start(
        "start with a model that is not there, and the others serve",
        "7.31 7.32",
        lambda target: _loaded(target, "identity", "nope", exit_on_error=False),
        ready=200,
        **{"states.identity": "READY"},
    ),
    start(
        "start with a model of which one version fails",
        "7.22 7.32 2.8",
        _one_version_fails,
        None,
        **{
            "listed.version 1": "UNAVAILABLE, unloaded",
            "listed.version 3": "UNAVAILABLE, failed",
            "ready": 400,
            "statuses.mixed": 404,
        },
    ),
    start(
        "log lines of loads",
        "17.13",
        _logged,
        None,
        **{"loading: two:1": True, "successfully loaded 'two'": True},
    ),
    start(
        "start with no model named, and a load that fails while its config is completed",
        "7.31 2.5 7.12",
        _completed,
        says="load failed for model 'report': version 1 is at UNAVAILABLE state:",
        ready=200,
        status=400,
        **{"states.identity": "never loaded"},
    ),
    start(
        "models loaded side by side",
        "7.32",
        _side_by_side,
        None,
        **{"ready 1": 200, "ready 2": 200, "met 1": 0, "met 2": 2},
    ),
    start("readiness under explicit control", "2.4 2.5 7.22", _readiness),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_explicit_control_at_the_start_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
