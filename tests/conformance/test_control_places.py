"""Explicit control: models in several repositories and under odd names, configs by name, retries, repository agents, and starts that fail (rows 7.6, 7.32, 7.34, 7.35, 14.35)."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.starting import exits, server_on, start
from tests.conformance.scenarios.wire import Answer, Target
from tests.conformance.servers import catalogue
from tests.conformance.servers.catalogue import Model, python_model
from tests.conformance.servers.control import (
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
)
from tests.reference.process import ServerProcess

EXPLICIT = ("--model-control-mode=explicit", "--disable-auto-complete-config")
_IN, _OUT = (catalogue.tensor(name, "FP32", "[ 4 ]") for name in ("IN", "OUT"))
NAMED = Model(
    python_model(_IN, _OUT, batch=2),
    "passthrough",
    files={"configs/special.pbtxt": python_model(_IN, _OUT, batch=7)},
)


def _moved(target: Target) -> Answer:
    """A model that moves from the first repository to the second while it serves."""
    with folder_of(target, "moving", REPORT) as folder:
        found: Answer = {"first": [load(target, "moving"), execution(target, "moving")]}
        second = folder.parent.parent / "second" / "moving"
        shutil.move(folder, second)
        found["second"] = [load(target, "moving"), target.infer("moving", ZERO).status]
        found["entries"] = entries(target, "moving")
        unload(target, "moving")
        found["again"] = [load(target, "moving"), execution(target, "moving")]
        unload(target, "moving")
        shutil.move(second, folder)
    return found


def _second_appears(target: Target) -> Answer:
    """A loaded model of which a second one appears in the other repository: what is loaded serves on."""
    with folder_of(target, "doubled", REPORT) as folder:
        load(target, "doubled")
        second = folder.parent.parent / "second" / "doubled"
        shutil.copytree(folder, second)
        try:
            found = change(target, "load", "doubled").answer()
            found["serves"] = target.infer("doubled", ZERO).status
            found["unload"] = unload(target, "doubled")
            found["unloaded"] = target.infer("doubled", ZERO).status
        finally:
            shutil.rmtree(second)
        found["one"] = [load(target, "doubled"), execution(target, "doubled")]
    return found


NAMES = ("-dots.in.it", "10", "a%20b", "X" * 200)


def _names(target: Target) -> Answer:
    """Names that are odd, but those of folders."""
    repository = catalogue.write(repository_of(target), dict.fromkeys(NAMES, REPORT))
    found: Answer = {}
    for name in NAMES:
        ready = pb.ModelReadyRequest(name=name)
        found[name[:12]] = [
            target.call("RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name=name)).code,
            target.call("ModelReady", ready).answer(pb.ModelReadyResponse),
            target.call(
                "RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name=name)
            ).code,
            [entry["state"] for entry in entries(target, name)] != ["READY"],
        ]
        shutil.rmtree(repository / name)
    return found


def _missing_agent(target: Target) -> Answer:
    """A config that names a repository agent that is not there: what is loaded serves on."""
    with folder_of(target, "agent", REPORT) as folder:
        config = folder / "config.pbtxt"
        plain = config.read_text()
        load(target, "agent")
        config.write_text(
            f'{plain}model_repository_agents {{ agents {{ name: "no_such_agent" }} }}\n'
        )
        found = change(target, "load", "agent").answer()
        found["serves"] = target.infer("agent", ZERO).status
        config.write_text(plain)
        found["without"] = load(target, "agent")
    return found


def _config_by_name(target: Target) -> Answer:
    """`--model-config-name`: the custom config comes first, changes with a load, and may come and go."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        repository = catalogue.write(folder / "models", {"named": NAMED})
        options = (*EXPLICIT, "--model-config-name=special")
        with server_on(target, repository, *options) as server:
            there = Target(server)
            custom = repository / "named" / "configs" / "special.pbtxt"
            found: Answer = {"custom": [load(there, "named"), _batch(there)]}
            _write(custom, custom.read_text().replace("7", "5"), later=1)
            found["changed"] = [load(there, "named"), _batch(there)]
            _write(custom.with_name("other.pbtxt"), "bogus: 1", later=2)
            found["another"] = [load(there, "named"), _batch(there)]
            custom.unlink()
            plain = repository / "named" / "config.pbtxt"
            _write(plain, plain.read_text(), later=3)
            found["removed"] = [load(there, "named"), _batch(there)]
            _write(custom, "bogus: 1", later=4)
            found["broken"] = [load(there, "named"), _batch(there)]
            there.close()
        return found


def _write(path: Path, text: str, *, later: int) -> None:
    """Write a file as if so many seconds had passed: Triton sees no change within the few milliseconds that a file's time may be behind."""
    path.write_text(text)
    changed = path.stat().st_mtime + later
    os.utime(path, (changed, changed))


def _batch(target: Target) -> int:
    config = json.loads(target.http("GET", "/v2/models/named/config").body)
    size: int = config["max_batch_size"]
    return size


def _retries(target: Target) -> Answer:
    """`--model-load-retry-count`: how often a load is tried, and that one may succeed in the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        repository = catalogue.write(folder / "models", {"flaky": REPORT, "never": REPORT})
        for model, needed in (("flaky", 3), ("never", 99)):
            source = repository / model / "1" / "model.py"
            tries = folder / f"{model}.tries"
            source.write_text(
                f"with open({str(tries)!r}, 'a') as tries:\n    tries.write('x')\n"
                f"if len(open({str(tries)!r}).read()) < {needed}:\n    {RAISES}\n{source.read_text()}"
            )
        options = (*EXPLICIT, "--model-load-retry-count=2")
        with server_on(target, repository, *options) as server:
            there = Target(server)
            found: Answer = {"flaky": [load(there, "flaky"), there.infer("flaky", ZERO).status]}
            found |= change(there, "load", "never").answer()
            found["entry"] = [entry["state"] for entry in entries(there, "never")]
            there.close()
        found["tries"] = {
            model: len((folder / f"{model}.tries").read_text()) for model in ("flaky", "never")
        }
        return found


def _same_repository(target: Target) -> Answer:
    """One repository that is given twice, also in another spelling."""
    with tempfile.TemporaryDirectory() as name:
        repository = catalogue.write(Path(name) / "models", {"report": REPORT})
        server = ServerProcess(
            target.process.program, [repository, repository], log=Path(name) / "log", options=EXPLICIT
        )  # fmt: skip
        with server:
            there = Target(server)
            found: Answer = {"load": load(there, "report"), "entries": entries(there, "report")}
            there.close()
        return found


def _empty(target: Target) -> Answer:
    """A repository without models, in control mode none; and what a load says there."""
    with tempfile.TemporaryDirectory() as name:
        repository = catalogue.write(Path(name) / "models", {})
        with server_on(target, repository) as server:
            there = Target(server)
            found: Answer = {
                "index": json.loads(there.http("POST", "/v2/repository/index").body),
                "ready": there.http("GET", "/v2/health/ready").status,
                "statistics": json.loads(there.http("GET", "/v2/models/stats").body),
            }
            catalogue.write(repository, {"late": REPORT})
            found |= change(there, "load", "late").answer()
            there.close()
        return found


def _exits(target: Target, broken: Model | None, *options: str) -> Answer:
    """A start that must fail: with a model that is broken, or that is in two repositories."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = {"identity": catalogue.GOOD["identity"]}
        repository = catalogue.write(
            folder / "models", models | ({"odd": broken} if broken else {})
        )
        more = () if broken else (f"--model-repository={catalogue.write(folder / 'more', models)}",)
        return exits(target, repository, *more, *options, "--exit-timeout-secs=5")


SCENARIOS = [
    Scenario(
        "a model that moves to another repository",
        ("7.35", "7.22"),
        _moved,
        expect={"second.1": 200, "again.1": 1},
        server="explicit",
    ),
    Scenario(
        "a second model of the name appears",
        ("7.6", "7.22", "7.11"),
        _second_appears,
        says="failed to load 'doubled', failed to poll from model repository",
        expect={"status": 500, "serves": 200, "one.1": 1},
        server="explicit",
    ),
    Scenario(
        "odd names of models",
        ("7.14", "7.8"),
        _names,
        expect={"10.0": "OK", "a%20b.0": "OK"},
        server="explicit",
    ),
    Scenario(
        "a repository agent that is not there",
        ("14.35", "7.11", "7.22"),
        _missing_agent,
        says="failed to load 'agent', failed to poll from model repository",
        expect={"status": 500, "serves": 200, "without": 200},
        server="explicit",
    ),
    start(
        "configs by name under explicit control",
        "7.34 7.25",
        _config_by_name,
        None,
        **{"custom.1": 7, "changed.1": 5, "removed.1": 2},
    ),
    start(
        "loads that are tried again",
        "7.32 7.12",
        _retries,
        says="load failed for model 'never': version 1 is at UNAVAILABLE state:",
        **{"flaky.1": 200, "tries.flaky": 3, "tries.never": 3},
    ),
    start("a repository given twice", "7.35 7.6", _same_repository),
    start(
        "a repository without models",
        "7.29 7.13",
        _empty,
        says="explicit model load / unload is not allowed if polling is enabled",
        ready=200,
        status=503,
    ),
    start(
        "a start with a config that cannot be read",
        "7.32",
        lambda target: _exits(target, Model("bogus: 1", "describe")),
        says="failed to load all models",
        status=1,
    ),
    start(
        "a start with a model without versions",
        "7.32 7.40",
        lambda target: _exits(target, Model(REPORT.config, "describe", versions=())),
        says="failed to load all models",
        status=1,
    ),
    start(
        "a start with a model in two repositories",
        "7.32 7.6",
        lambda target: _exits(target, None),
        says="failed to load all models",
        status=1,
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_places_and_names_of_models_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
