"""Explicit control at the start: which models are loaded, what ends the start, and when the server is ready (rows 7.31, 7.32, 2.4)."""

import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance import catalogue
from tests.conformance.broken import BROKEN
from tests.conformance.conftest import Ask
from tests.conformance.scenario import Scenario
from tests.conformance.wire import Answer, Target
from tests.reference.process import Ports, ServerProcess

_OPTIONS = ("--model-control-mode=explicit", "--disable-auto-complete-config")
_UNLOAD_S = 20.0


def _models(folder: str) -> Path:
    repository = catalogue.write(
        Path(folder) / "models", catalogue.GOOD, only=("identity", "report", "two")
    )
    return catalogue.write(repository, {"broken": BROKEN["broken_initialize"].model})


def _server(target: Target, folder: str, *more: str) -> ServerProcess:
    options = (*_OPTIONS, *more)
    return ServerProcess(
        target.process.program, [_models(folder)], log=Path(folder) / "log", options=options
    )


def _loaded(target: Target, *names: str, exit_on_error: bool = True) -> Answer:
    """What serves after a start, and whether the server is ready."""
    loads = [f"--load-model={name}" for name in names]
    options = (*loads, f"--exit-on-error={exit_on_error}")
    with tempfile.TemporaryDirectory() as folder, _server(target, folder, *options) as server:
        asked = Target(server)
        index = json.loads(asked.http("POST", "/v2/repository/index").body)
        states = {entry["name"]: entry.get("state", "never loaded") for entry in index}
        return {"states": states, "ready": _ready(asked)}


def _exits(target: Target, *names: str) -> Answer:
    """The exit status of a start that must fail, and all that was printed."""
    ports = Ports.free()
    with tempfile.TemporaryDirectory() as folder:
        options = [
            f"--model-repository={_models(folder)}",
            *_OPTIONS,
            *(f"--load-model={name}" for name in names),
            f"--http-port={ports.http}",
            f"--grpc-port={ports.grpc}",
            f"--metrics-port={ports.metrics}",
        ]
        status, output = target.process.program.run(options)
        return {"status": status, "error": output}


def _completed(target: Target) -> Answer:
    """A load that fails while the model completes its config: the model is at fault, not its config."""
    with tempfile.TemporaryDirectory() as folder:
        repository = _models(folder)
        (repository / "report" / "1" / "model.py").write_text("import no_such_module_here\n")
        with ServerProcess(
            target.process.program, [repository], log=Path(folder) / "log", options=_OPTIONS[:1]
        ) as server:
            return Target(server).http("POST", "/v2/repository/models/report/load").answer()


def _ready(target: Target) -> int:
    return target.http("GET", "/v2/health/ready").status


def _change(target: Target, action: str) -> int:
    return target.http("POST", f"/v2/repository/models/report/{action}").status


def _readiness(target: Target) -> Answer:
    """Whether the server is ready while a model comes, fails and goes."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(1) as pool,
        _server(target, folder) as server,
    ):
        asked = Target(server)
        source = Path(folder) / "models" / "report" / "1" / "model.py"
        good = source.read_text()
        found: Answer = {"no model": _ready(asked)}
        source.write_text(f"import time\n\ntime.sleep(1)\n{good}")
        loading = pool.submit(_change, asked, "load")
        time.sleep(0.6)
        found["loading"] = _ready(asked)
        found["loaded"] = [loading.result(), _ready(asked)]
        source.write_text("import no_such_module_here\n")
        found["failed reload"] = [_change(asked, "load"), _ready(asked)]
        _change(asked, "unload")
        _wait_for_unload(asked)
        found["unloaded"] = _ready(asked)
        found["failed"] = [_change(asked, "load"), _ready(asked)]
        _change(asked, "unload")
        found["failed and unloaded"] = _ready(asked)
        source.write_text(good)
        found["mended"] = [_change(asked, "load"), _ready(asked)]
    return found


def _wait_for_unload(target: Target) -> None:
    """The reference releases a model after its reply."""
    end = time.monotonic() + _UNLOAD_S
    while b"UNLOADING" in target.http("POST", "/v2/repository/index").body:
        assert time.monotonic() < end, "still unloading"
        time.sleep(0.05)


def _scenario(
    title: str,
    rows: str,
    ask: Callable[[Target], Answer],
    says: str | None = None,
    **expect: object,
) -> Scenario:
    return Scenario(title, tuple(rows.split()), ask, says=says, expect=expect, server="unstarted")


SCENARIOS = [
    _scenario(
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
    _scenario(
        "start with no model named",
        "7.31 2.5",
        _loaded,
        ready=200,
        **{"states.identity": "never loaded"},
    ),
    _scenario(
        "start with every model",
        "7.31",
        lambda target: _loaded(target, "*", exit_on_error=False),
        ready=400,
        **{"states.report": "READY", "states.broken": "UNAVAILABLE"},
    ),
    _scenario(
        "start with every model, one of them broken",
        "7.31 7.32",
        lambda target: _exits(target, "*"),
        says="failed to load all models",
        status=1,
    ),
    _scenario(
        "start with every model and one by name",
        "7.31",
        lambda target: _exits(target, "*", "identity"),
        says="must be the ONLY startup model if specified at all",
        status=1,
    ),
    _scenario(
        "start with a model that is not there",
        "7.31 7.32",
        lambda target: _exits(target, "identity", "nope"),
        says="failed to load all models",
        status=1,
    ),
    _scenario(
        "start with a model that is not there, and the others serve",
        "7.31 7.32",
        lambda target: _loaded(target, "identity", "nope", exit_on_error=False),
        ready=200,
        **{"states.identity": "READY"},
    ),
    _scenario(
        "load of a model that fails while its config is completed",
        "7.12",
        _completed,
        says="load failed for model 'report': version 1 is at UNAVAILABLE state:",
        status=400,
    ),
    _scenario("readiness under explicit control", "2.4 2.5 7.22", _readiness),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_both_servers_give_the_same_answer(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
