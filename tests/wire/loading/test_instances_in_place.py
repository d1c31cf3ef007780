"""Another `instance_group` on the real server: instances come and go beside requests, and nothing is loaded again (row 7.24)."""

import collections.abc
import concurrent.futures
import pathlib
import shutil
import threading
from typing import Any

import numpy as np
import psutil
import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.support.processes import command_of
from tests.support.waiting import PAUSE_S, wait_until
from tests.wire import repository
from tests.wire.protocol.test_clients import client, tensor

pytestmark = pytest.mark.slow

_IN_PROCESS = '\nparameters { key: "naiad.host" value { string_value: "process" } }\n'
_INPUTS: dict[str, list[tuple[str, "np.ndarray[Any, Any]", str]]] = {
    "add": [("x", np.ones((1, 4), np.float32), "FP32")],
    "text": [("TEXT", np.array([[b"a"]], dtype=object), "BYTES")],
}
_INPUTS["add_in_process"] = _INPUTS["add"]
_PROCESSES = {"add": 0, "text": 2, "add_in_process": 1}
"""Of two instances, at the end."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """`add` in threads of the server, `text` in one process per instance, `add_in_process` in threads of one process."""
    folder = repository.make(tmp_path_factory.mktemp("places") / "models")
    shutil.copytree(folder / "add", folder / "add_in_process")
    with (folder / "add_in_process" / "config.pbtxt").open("a") as config:
        config.write(_IN_PROCESS)
    return folder


@pytest.fixture(scope="module")
def controlled(models: pathlib.Path) -> collections.abc.Iterator[ServerProcess]:
    """A server that loads models on request."""
    options = ["--model-control-mode=explicit"]
    log = models.parent / "log"
    with ServerProcess(naiad_program(), [models], log=log, options=options) as running:
        yield running


def workers_of(server: ServerProcess, model: str) -> list[int]:
    """The worker processes of a model."""
    assert server.process is not None
    children = psutil.Process(server.process.pid).children()
    return [each.pid for each in children if f"--model {model} " in command_of(each)]


def instances_of(server: ServerProcess, model: str) -> int:
    """How many instances the config of the served model says."""
    with client("http", server) as (asked, _):
        return sum(group["count"] for group in asked.get_model_config(model)["instance_group"])


@pytest.mark.parametrize("model", list(_INPUTS))
def test_instances_are_added_and_removed_under_load(
    controlled: ServerProcess, models: pathlib.Path, model: str
) -> None:
    config = models / model / "config.pbtxt"
    text = config.read_text()
    over = threading.Event()
    answered: list[int] = []

    def ask() -> None:
        with client("http", controlled) as (asked, module):
            inputs = [tensor(module, *parts) for parts in _INPUTS[model]]
            while not over.wait(PAUSE_S):
                asked.infer(model, inputs)
                answered.append(1)

    def resize(count: int) -> None:
        config.write_text(f"{text}\ninstance_group {{ kind: KIND_CPU count: {count} }}\n")
        before = len(answered)
        with client("http", controlled) as (asked, _):
            asked.load_model(model)
        assert instances_of(controlled, model) == count
        wait_until(lambda: len(answered) > before + 20)

    with client("http", controlled) as (asked, _):
        asked.load_model(model)
    loads = controlled.output().count(f"loading: {model}:")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asking = [pool.submit(ask) for _ in range(3)]
        try:
            for count in (1, 3, 2):
                resize(count)
        finally:
            over.set()
        for each in asking:
            each.result()
    wait_until(lambda: len(workers_of(controlled, model)) == _PROCESSES[model])
    assert controlled.output().count(f"loading: {model}:") == loads
    updated = f"updated '{model}' version 1 without a reload; instances: "
    assert f"{updated}2 added, 1 kept" in controlled.output()
    assert f"{updated}1 removed, 2 kept" in controlled.output()
    with client("http", controlled) as (asked, _):
        (statistics,) = asked.get_inference_statistics(model)["model_stats"]
        assert statistics["inference_stats"]["success"]["count"] == len(answered)
        assert statistics["inference_stats"]["fail"]["count"] == 0
        asked.unload_model(model)
    wait_until(lambda: not workers_of(controlled, model), what="a worker process is left")
