"""What the operator says of models, from the real server's own `/status`: each situation is made on a running server, polled, and given to the operator."""

import asyncio
import collections.abc
import concurrent.futures
import contextlib
import pathlib
import typing

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.builders import server as server_builder
from naiad_operator.queue import Key
from naiad_operator.reconcile.lookups.model_poller import (
    ModelPoller,
    PodAddress,
    PollConfig,
    interval,
    open_session,
)
from naiad_operator.status import ModelReport
from tests.reference.process import ServerProcess, naiad_program
from tests.support import manifests
from tests.support.observations import POD, condition, status
from tests.support.waiting import until, wait_until
from tests.wire.plain_http import call

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

Manifest = dict[str, typing.Any]
Said = tuple[str, str, str]

_CONFIG = 'backend: "python"\noutput { name: "o" data_type: TYPE_FP32 dims: 1 }\n'
_MODEL = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
_INITIALIZE = "    def initialize(self, args):\n"
_IN_A_THREAD = "--backend-config=python,host=thread"


def write(repository: pathlib.Path, name: str, *, config: str = "", code: str = _MODEL) -> None:
    """A Python model with version 1."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(_CONFIG + config)
    (version / "model.py").write_text(code)


@contextlib.contextmanager
def serving(
    repository: pathlib.Path, *options: str, wait: bool = True
) -> collections.abc.Iterator[ServerProcess]:
    """A server as the operator starts it: failed models do not end it."""
    process = ServerProcess(
        naiad_program(),
        [repository],
        log=repository.parent / "log",
        options=["--exit-on-error=false", *options],
    )
    try:
        process.start()
        yield process.wait() if wait else process
    finally:
        process.stop()


async def _poll(server: ServerProcess, *, has_started: bool) -> ModelReport:
    key = Key("models", "demo")
    async with open_session() as session:
        poller = ModelPoller(session, on_change=lambda _: None, config=PollConfig(timeout=20))
        poller.poll(key, (PodAddress(POD, f"http://{server.metrics}/status", has_started),))
        task = asyncio.create_task(poller.run())
        await until(lambda: not poller.report(key).is_awaited)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return poller.report(key)


def shown(
    server: ServerProcess, resource: Manifest, *, has_started: bool = True
) -> tuple[Manifest, ModelReport]:
    """The status of a resource with this server's report, and the report."""
    report = asyncio.run(_poll(server, has_started=has_started))
    pod = {"metadata": {"name": POD, "creationTimestamp": "2026-01-31T11:59:00Z"}, "status": {}}
    return status(resource, pods=[pod], models=report), report


def loaded(server: ServerProcess, resource: Manifest, *, has_started: bool = True) -> Said:
    """The ModelsLoaded condition."""
    return condition(shown(server, resource, has_started=has_started)[0], "ModelsLoaded")


def is_polled_slowly(report: ModelReport) -> bool:
    return interval(report, 0, 0, PollConfig()) == PollConfig().ready


def resource(mode: str, *names: str) -> Manifest:
    load = {"mode": mode, **({"models": list(names)} if mode == "explicit" else {})}
    return manifests.resource(replicas=2, model={"storageUri": "pvc://models", "load": load})


EXPLICIT = resource("explicit")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("server") / "models"
    write(folder, "good")
    write(folder, "never")
    write(folder, "config", config="max_batch_sise: 3\n")
    failing = _INITIALIZE + "        raise OSError('no weights')\n"
    write(folder, "failing", code=_MODEL + failing)
    gate = folder.parent / "gate"
    waits = f"        import pathlib, time\n        while not pathlib.Path({str(gate)!r}).exists():\n            time.sleep(0.01)\n"
    write(folder, "slow", code=_MODEL + _INITIALIZE + waits)
    return folder


@pytest.fixture(scope="module")
def server(repository: pathlib.Path) -> collections.abc.Iterator[ServerProcess]:
    options = ("--model-control-mode=explicit", "--load-model=good", _IN_A_THREAD)
    with serving(repository, *options) as running:
        yield running


def load(server: ServerProcess, name: str, *, unload: bool = False) -> int:
    path = f"/v2/repository/models/{name}/{'unload' if unload else 'load'}"
    return call(server.http, "POST", path)[0]


def test_a_model_that_was_never_loaded_does_not_count_as_a_failure(server: ServerProcess) -> None:
    given, report = shown(server, EXPLICIT)
    assert condition(given, "ModelsLoaded") == ("True", "Loaded", "1 model is ready")
    assert given["modelCount"] == "1/1"
    assert is_polled_slowly(report)


def test_a_name_that_the_repository_lacks_is_reported(server: ServerProcess) -> None:
    value, reason, message = loaded(server, resource("explicit", "good", "typo"))
    assert (value, reason) == ("False", "ModelNotFound")
    assert "model typo" in message


def test_a_bad_config_is_reported_and_the_other_models_are_still_seen(
    server: ServerProcess,
) -> None:
    """Its version is null, because none was planned."""
    assert load(server, "config") != 200
    given, report = shown(server, EXPLICIT)
    value, reason, message = condition(given, "ModelsLoaded")
    assert (value, reason) == ("False", "ModelFailed")
    assert message.startswith("model config: ")
    assert "max_batch_sise" in message
    assert [entry["name"] for entry in given["models"]] == ["config", "good"]
    assert is_polled_slowly(report)
    assert load(server, "config", unload=True) == 200
    assert loaded(server, EXPLICIT)[1] == "Loaded"


def test_an_override_of_an_unknown_model_or_field_is_reported(
    tmp_path: pathlib.Path,
) -> None:
    """As the operator writes them on the command line."""
    for name in ("good", "bad"):
        write(tmp_path / "models", name)
    overrides = [
        {"model": "typo", "config": {"maxBatchSize": 4}},
        {"model": "good", "config": {"parameters": {"a": {"stringValue": "$(HOME)"}}}},
    ]
    model = {"storageUri": "pvc://models", "overrides": overrides}
    options = server_builder.arguments(service.parse(manifests.resource(model=model)).spec, ())
    written = [one for one in options if one.startswith("--model-config-override=")]
    bad = '--model-config-override=bad={"maxBatchsize": 4}'
    with serving(tmp_path / "models", _IN_A_THREAD, *written, bad) as server:
        wait_until(lambda: "typo" in loaded(server, manifests.resource(model=model))[2])
        value, reason, message = loaded(server, manifests.resource(model=model))
    assert (value, reason) == ("False", "ModelFailed")
    assert "model typo: --model-config-override=typo: no model repository has this model" in message
    assert (
        "model bad: --model-config-override=bad: a model's config has no field 'maxBatchsize'"
        in message
    )
    assert "good" not in message


def test_a_failed_load_is_reported_until_the_model_is_unloaded(server: ServerProcess) -> None:
    assert load(server, "failing") != 200
    given, report = shown(server, EXPLICIT)
    value, reason, message = condition(given, "ModelsLoaded")
    assert (value, reason) == ("False", "ModelFailed")
    assert message.startswith("model failing version 1: ")
    assert "no weights" in message
    assert given["modelStatus"]["transitionStatus"] == "BlockedByFailedLoad"
    assert is_polled_slowly(report)
    assert load(server, "failing", unload=True) == 200
    given, _ = shown(server, EXPLICIT)
    assert condition(given, "ModelsLoaded")[1] == "Loaded"
    assert given["modelStatus"]["transitionStatus"] == "UpToDate"


def test_a_load_in_progress_is_reported_and_polled_often(
    server: ServerProcess, repository: pathlib.Path
) -> None:
    with concurrent.futures.ThreadPoolExecutor() as clients:
        reply = clients.submit(load, server, "slow")
        try:
            wait_until(lambda: loaded(server, EXPLICIT)[1] == "Loading")
            given, report = shown(server, EXPLICIT)
            assert condition(given, "ModelsLoaded")[2].startswith("loading model slow")
            assert not is_polled_slowly(report)
        finally:
            (repository.parent / "gate").touch()
        assert reply.result(60) == 200
    assert loaded(server, EXPLICIT) == ("True", "Loaded", "2 models are ready")
    assert load(server, "slow", unload=True) == 200


def test_a_version_that_a_newer_one_retired_does_not_count_as_a_failure(
    server: ServerProcess, repository: pathlib.Path
) -> None:
    write(repository, "versions", config="version_policy { latest { num_versions: 1 } }\n")
    assert load(server, "versions") == 200
    second = repository / "versions" / "2"
    second.mkdir()
    (second / "model.py").write_text(_MODEL)
    assert load(server, "versions") == 200
    wait_until(lambda: is_polled_slowly(shown(server, EXPLICIT)[1]))
    given, report = shown(server, EXPLICIT)
    assert report.models is not None
    assert ("1", "UNAVAILABLE", "unloaded") in [
        (model.version, model.state, model.reason) for model in report.models
    ]
    assert condition(given, "ModelsLoaded") == ("True", "Loaded", "2 models are ready")
    assert given["modelStatus"]["transitionStatus"] == "UpToDate"
    assert given["modelCount"] == "2/2"


def test_a_model_that_a_client_unloaded_does_not_count_as_a_failure(server: ServerProcess) -> None:
    assert load(server, "good") == 200
    assert load(server, "good", unload=True) == 200
    given, report = shown(server, EXPLICIT)
    assert condition(given, "ModelsLoaded")[1] == "Loaded"
    assert given["modelStatus"]["transitionStatus"] == "UpToDate"
    assert is_polled_slowly(report)
    assert load(server, "good") == 200


def is_evicted(report: ModelReport) -> bool:
    return any(
        (model.state, model.reason) == ("UNAVAILABLE", "evicted") for model in report.models or ()
    )


def test_evicted_models_do_not_count_as_failures(tmp_path: pathlib.Path) -> None:
    weights = "WEIGHTS = bytearray(60_000_000)\n"
    for name in ("a", "b", "c"):
        write(tmp_path / "models", name, code=weights + _MODEL)
    options = ("--model-memory-limit=180MB", "--evicted-model-wait-secs=60")
    with serving(tmp_path / "models", *options) as running:
        wait_until(lambda: is_evicted(shown(running, resource("all"))[1]))
        given, report = shown(running, resource("all"))
    value, reason, message = condition(given, "ModelsLoaded")
    assert (value, reason) == ("True", "Loaded")
    assert "made room" in message
    assert condition(given)[0] == "True"
    assert is_polled_slowly(report)


def test_a_repository_without_models_is_reported_once_the_server_has_looked(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "models").mkdir()
    with serving(tmp_path / "models") as running:
        assert loaded(running, resource("all"))[:2] == ("False", "RepositoryEmpty")
        assert loaded(running, resource("all"), has_started=False)[:2] == ("Unknown", "Pending")


def test_models_that_load_at_the_start_are_reported_before_the_server_accepts(
    tmp_path: pathlib.Path,
) -> None:
    gate = tmp_path / "gate"
    waits = f"        import pathlib, time\n        while not pathlib.Path({str(gate)!r}).exists():\n            time.sleep(0.01)\n"
    write(tmp_path / "models", "slow", code=_MODEL + _INITIALIZE + waits)
    write(tmp_path / "models", "config", config="max_batch_sise: 3\n")
    everything = resource("all")
    with serving(tmp_path / "models", _IN_A_THREAD, wait=False) as running:
        try:
            wait_until(lambda: listens(running))
            wait_until(lambda: loaded(running, everything, has_started=False)[1] == "ModelFailed")
            given, report = shown(running, everything, has_started=False)
            assert {(entry["name"], entry["state"]) for entry in given["models"]} == {
                ("config", "UNAVAILABLE"),
                ("slow", "LOADING"),
            }
            assert not is_polled_slowly(report)
        finally:
            gate.touch()
        running.wait()


def listens(server: ServerProcess) -> bool:
    try:
        return call(server.metrics, "GET", "/status")[0] == 200
    except OSError:
        return False
