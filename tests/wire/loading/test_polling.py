"""Control mode poll on the real server: an upload is served without a failed request, a copy in progress is not served, a lost repository changes nothing."""

import collections.abc
import pathlib
import re
import shutil
import threading
import urllib.request

import numpy as np
import pytest
import tritonclient.http as http_client

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import PAUSE_S, wait_until
from tests.wire import repository
from tests.wire.models import worker_models
from tests.wire.models.worker_models import MODEL
from tests.wire.protocol.test_clients import client, tensor

pytestmark = pytest.mark.slow

_OPTIONS = ("--model-control-mode=poll", "--repository-poll-secs=1", "--repository-quiet-secs=3")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A repository with the model `add`."""
    folder = repository.make(tmp_path_factory.mktemp("polled") / "models")
    for name in ("text", "slow"):
        shutil.rmtree(folder / name)
    return folder


@pytest.fixture(scope="module")
def polled(models: pathlib.Path) -> collections.abc.Iterator[ServerProcess]:
    """A server that polls the repository every second."""
    with ServerProcess(
        naiad_program(), [models], log=models.parent / "log", options=_OPTIONS
    ) as running:
        yield running


def polls(server: ServerProcess, result: str) -> int:
    """How many polls had that result."""
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as page:
        match = re.search(
            rf'^naiad_repository_polls_total{{result="{result}"}} (\d+)$',
            page.read().decode(),
            re.MULTILINE,
        )
    assert match is not None
    return int(match[1])


def wait_for_polls(server: ServerProcess, count: int, result: str = "success") -> None:
    """Wait until the repository was polled so often after this call."""
    before = polls(server, result)
    wait_until(lambda: polls(server, result) >= before + count)


def versions(server: ServerProcess, name: str) -> list[str]:
    """The READY versions of a model."""
    with client("http", server) as (asked, _):
        return [
            entry["version"]
            for entry in asked.get_model_repository_index()
            if entry["name"] == name and entry.get("state") == "READY"
        ]


def test_an_uploaded_version_is_served_without_a_failed_request(
    polled: ServerProcess, models: pathlib.Path
) -> None:
    failures: list[Exception] = []
    over = threading.Event()

    def ask() -> None:
        with client("http", polled) as (asked, _):
            while not over.wait(PAUSE_S):
                try:
                    asked.infer(
                        "add", [tensor(http_client, "x", np.ones((1, 4), np.float32), "FP32")]
                    )
                except Exception as failure:  # noqa: BLE001  whatever it is
                    failures.append(failure)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        shutil.copytree(models / "add" / "1", models / "add" / "2")
        wait_until(lambda: versions(polled, "add") == ["2"])
    finally:
        over.set()
        asking.join()
    assert failures == []
    wait_until(
        lambda: "poll: model 'add' is loaded, because 2/model.onnx changed" in polled.output()
    )


def test_a_model_that_is_copied_slowly_is_loaded_once_it_is_complete(
    polled: ServerProcess, models: pathlib.Path
) -> None:
    source, copied = models / "add", models / "copied"
    loads = polled.output().count("loading: copied")
    (copied / "1").mkdir(parents=True)
    config = (source / "config.pbtxt").read_text()
    (copied / "config.pbtxt").write_text(config)
    content = (source / "2" / "model.onnx").read_bytes()
    with (copied / "1" / "model.onnx").open("wb") as file:
        for position in range(0, len(content), len(content) // 3):
            file.write(content[position : position + len(content) // 3])
            file.flush()
            wait_for_polls(polled, 1)
        assert polled.output().count("loading: copied") == loads
    wait_until(lambda: versions(polled, "copied") == ["1"])
    assert polled.output().count("loading: copied") == loads + 1
    shutil.rmtree(copied)
    wait_until(lambda: "poll: model 'copied' is gone" in polled.output())
    assert versions(polled, "copied") == []


def test_a_load_that_fails_for_a_passing_reason_is_tried_again(
    polled: ServerProcess, models: pathlib.Path
) -> None:
    device = models.parent / "device"
    code = f"{MODEL}\n    def initialize(self, args):\n        open({str(device)!r})\n"
    worker_models.repository(models.parent / "new", needy=("", code)).joinpath("needy").rename(
        models / "needy"
    )
    wait_until(lambda: "poll: model 'needy' failed to load" in polled.output())
    wait_for_polls(polled, 3)
    device.touch()
    wait_until(lambda: versions(polled, "needy") == ["1"])
    for line in ("loading: needy", "failed to load 'needy'", "poll: model 'needy' failed"):
        assert polled.output().count(line) == 1


def test_a_repository_that_is_gone_for_a_while_changes_nothing(
    polled: ServerProcess, models: pathlib.Path
) -> None:
    before = versions(polled, "add")
    aside = models.rename(models.parent / "aside")
    wait_for_polls(polled, 2, "failure")
    assert versions(polled, "add") == before
    aside.rename(models)
    wait_for_polls(polled, 1)
    assert versions(polled, "add") == before
    assert polled.output().count("Its models stay as they are, and polling goes on every 1 s") == 1
    assert "can be read again" in polled.output()
