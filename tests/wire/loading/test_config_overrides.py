"""`--model-config-override`: at the start, when a client loads a model, when a poll loads a new one, and for what is not there."""

import collections.abc
import json
import pathlib
from typing import Any

import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire import repository
from tests.wire.plain_http import call, get

LARGER = '--model-config-override=add={"maxBatchSize": 32, "instanceGroup": [{"kind": "KIND_CPU", "count": 1}]}'


@pytest.fixture
def started(
    tmp_path: pathlib.Path,
) -> collections.abc.Iterator[collections.abc.Callable[..., ServerProcess]]:
    running: list[ServerProcess] = []

    def start(models: pathlib.Path, *options: str) -> ServerProcess:
        log = tmp_path / f"log-{len(running)}"
        server = ServerProcess(naiad_program(), [models], log=log, options=options)
        running.append(server)
        return server.start().wait()

    yield start
    for server in running:
        server.stop()


def models_in(folder: pathlib.Path, *names: str) -> pathlib.Path:
    """The models of the usual repository that are wanted."""
    whole = repository.make(folder / "whole")
    models = folder / "models"
    models.mkdir()
    for name in names:
        (whole / name).rename(models / name)
    return models


def config(server: ServerProcess, name: str = "add") -> dict[str, Any]:
    status, body = get(server.http, f"/v2/models/{name}/config")
    assert status == 200, body
    read: dict[str, Any] = json.loads(body)
    return read


def states(server: ServerProcess) -> dict[str, dict[str, Any]]:
    """What the metrics port says of each model."""
    _, body = get(server.metrics, "/status")
    return {model["name"]: model for model in json.loads(body)["models"]}


def test_a_model_is_served_with_the_fields_of_the_option(
    tmp_path: pathlib.Path, started: collections.abc.Callable[..., ServerProcess]
) -> None:
    server = started(models_in(tmp_path, "add"), LARGER)
    served = config(server)
    assert served["max_batch_size"] == 32
    assert [group["count"] for group in served["instance_group"]] == [1]
    assert "dynamic_batching" in served, "what the option does not name is the file's"


def test_every_load_takes_them_and_a_config_of_the_client_stands_in_their_place(
    tmp_path: pathlib.Path, started: collections.abc.Callable[..., ServerProcess]
) -> None:
    server = started(models_in(tmp_path, "add"), "--model-control-mode=explicit", LARGER)
    for _ in range(2):
        assert call(server.http, "POST", "/v2/repository/models/add/load")[0] == 200
        assert config(server)["max_batch_size"] == 32
        assert call(server.http, "POST", "/v2/repository/models/add/unload")[0] == 200
    theirs = {**json.loads(json.dumps({"backend": "onnxruntime", "max_batch_size": 2}))}
    body = {"parameters": {"config": json.dumps(theirs)}}
    assert call(server.http, "POST", "/v2/repository/models/add/load", body)[0] == 200
    assert config(server)["max_batch_size"] == 2


def test_a_field_that_no_config_has_fails_that_model_alone(
    tmp_path: pathlib.Path, started: collections.abc.Callable[..., ServerProcess]
) -> None:
    server = started(
        models_in(tmp_path, "add", "text"),
        '--model-config-override=add={"maxBatchsize": 32}',
        "--exit-on-error=false",
    )
    known = states(server)
    assert known["text"]["state"] == "READY"
    assert known["add"]["state"] == "UNAVAILABLE"
    assert "did you mean maxBatchSize?" in known["add"]["reason"]
    assert known["add"]["reason"].startswith("--model-config-override=add: ")


def test_an_override_of_an_unknown_model_is_reported_and_the_server_is_ready(
    tmp_path: pathlib.Path, started: collections.abc.Callable[..., ServerProcess]
) -> None:
    """And the model has it when it comes."""
    models = models_in(tmp_path, "text")
    server = started(models, "--model-control-mode=poll", "--repository-poll-secs=1", LARGER)
    wait_until(lambda: "add" in states(server))
    reported = states(server)["add"]
    assert (reported["version"], reported["state"]) == (None, "UNAVAILABLE")
    assert reported["reason"].startswith("--model-config-override=add: no model repository has")
    assert get(server.http, "/v2/health/ready")[0] == 200
    _, index = call(server.http, "POST", "/v2/repository/index")
    assert [model["name"] for model in json.loads(index)] == ["text"]
    (tmp_path / "whole" / "add").rename(models / "add")
    wait_until(lambda: states(server)["add"]["state"] == "READY", seconds=60)
    assert config(server)["max_batch_size"] == 32
