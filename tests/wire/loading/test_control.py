"""Explicit control on the real server: Triton's clients load and unload, a reload loses no request, an unload gives memory back."""

import collections.abc
import pathlib
import re
import signal
import threading
from typing import Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from onnx import TensorProto, helper, numpy_helper, save

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import PAUSE_S, wait_until
from tests.wire import repository
from tests.wire.protocol.test_clients import CLIENTS, client, tensor

_EXPLICIT = "--model-control-mode=explicit"
_MB = 1_000_000

_ANSWER = """\
backend: "python"
max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: 1 }
output { name: "Y" data_type: TYPE_FP32 dims: 1 }
dynamic_batching {}
"""

_ANSWER_MODEL = """\
import time

import numpy as np
import triton_python_backend_utils as pb_utils

TABLE = np.ones(%(floats)d, np.float32)


class TritonPythonModel:
    def initialize(self, args):
        self.itself = self
        time.sleep(%(seconds)f)

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * 0 + np.float32(%(answer)d))])
"""


def write_answer(
    models: pathlib.Path, answer: int, *, floats: int = 1, seconds: float = 0.0
) -> None:
    """`answer`: a Python model that answers with a number."""
    version = models / "answer" / "1"
    version.mkdir(parents=True, exist_ok=True)
    (version.parent / "config.pbtxt").write_text(_ANSWER)
    source = _ANSWER_MODEL % {"answer": answer, "floats": floats, "seconds": seconds}
    (version / "model.py").write_text(source)


def write_weights(models: pathlib.Path) -> None:
    """`add` with 64 MB of weights."""
    value = helper.make_tensor_value_info
    weights = np.zeros((4, 4_000_000), np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["wide"]),
            helper.make_node("ReduceSum", ["wide"], ["sum"], keepdims=1),
            helper.make_node("Add", ["x", "sum"], ["y"]),
        ],
        "weights",
        [value("x", TensorProto.FLOAT, ["N", 4])],
        [value("y", TensorProto.FLOAT, ["N", 4])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    save(model, models / "add" / "1" / "model.onnx")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A repository that the tests may change: they ask `answer`, which each of them writes."""
    return repository.make(tmp_path_factory.mktemp("controlled") / "models")


@pytest.fixture(scope="module")
def shared(folder: pathlib.Path) -> collections.abc.Iterator[ServerProcess]:
    """A server that loads nothing by itself."""
    with ServerProcess(
        naiad_program(), [folder], log=folder.parent / "log", options=[_EXPLICIT]
    ) as running:
        yield running


@pytest.fixture
def controlled(shared: ServerProcess) -> collections.abc.Iterator[ServerProcess]:
    """The server with no model, also after a test that has left `answer` loaded."""
    yield shared
    with client("http", shared) as (asked, _):
        asked.unload_model("answer")


@pytest.fixture
def alone(
    tmp_path: pathlib.Path,
) -> collections.abc.Iterator[tuple[ServerProcess, pathlib.Path]]:
    """A server and a repository of the test's own."""
    models = repository.make(tmp_path / "models")
    with ServerProcess(
        naiad_program(), [models], log=tmp_path / "log", options=[_EXPLICIT]
    ) as running:
        yield running, models


def ask(asked: Any, module: Any) -> float:
    """What `answer` answers."""
    x = np.zeros((1, 1), np.float32)
    return float(asked.infer("answer", [tensor(module, "X", x, "FP32")]).as_numpy("Y")[0, 0])


@pytest.mark.parametrize("kind", CLIENTS)
def test_tritons_clients_load_ask_and_unload(
    kind: str, controlled: ServerProcess, folder: pathlib.Path
) -> None:
    write_answer(folder, 1)
    with client(kind, controlled) as (asked, module):
        assert asked.is_server_ready()
        assert not asked.is_model_ready("answer")
        asked.load_model("answer")
        assert asked.is_model_ready("answer")
        assert ask(asked, module) == 1
        write_answer(folder, 22)
        asked.load_model("answer")
        assert ask(asked, module) == 22
        asked.unload_model("answer")
        asked.unload_model("answer", unload_dependents=True)
        assert not asked.is_model_ready("answer")
        assert not asked.is_model_ready("answer", "7")
        with pytest.raises(module.InferenceServerException, match="has no available versions"):
            ask(asked, module)

        def entries() -> list[dict[str, str]]:
            more = {} if kind == "http" else {"as_json": True}
            index = asked.get_model_repository_index(**more)
            found: list[dict[str, str]] = index if kind == "http" else index["models"]
            return found

        # The reply to an unload does not wait for ever until all is given back.
        unloaded = {"version": "1", "state": "UNAVAILABLE", "reason": "unloaded"}
        wait_until(lambda: {"name": "answer", **unloaded} in entries())
        assert len([entry for entry in entries() if entry["name"] == "answer"]) == 1
        assert {"name": "add"} in entries()


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.slow
def test_what_cannot_be_loaded_says_why_and_the_old_model_answers_on(
    kind: str, controlled: ServerProcess, folder: pathlib.Path
) -> None:
    write_answer(folder, 1)
    with client(kind, controlled) as (asked, module):
        failure = module.InferenceServerException
        with pytest.raises(failure, match="failed to load 'nope', failed to poll"):
            asked.load_model("nope")
        asked.load_model("answer")
        (folder / "answer" / "1" / "model.py").write_text("raise RuntimeError('no weights')\n")
        with pytest.raises(failure, match="no weights") as caught:
            asked.load_model("answer")
        assert "version 1 is at UNAVAILABLE state" in str(caught.value)
        assert "goes on serving" in str(caught.value)
        assert asked.is_server_ready()
        assert ask(asked, module) == 1


@pytest.mark.slow
def test_reloads_under_load_lose_no_request(
    controlled: ServerProcess, folder: pathlib.Path
) -> None:
    write_answer(folder, 0)
    answers: list[float] = []
    lost: list[BaseException] = []
    over = threading.Event()

    def keep_asking(kind: str) -> None:
        with client(kind, controlled) as (asked, module):
            while not over.wait(PAUSE_S):
                try:
                    answers.append(ask(asked, module))
                except (http_client.InferenceServerException, OSError) as error:
                    lost.append(error)

    with client("http", controlled) as (control, _):
        control.load_model("answer")
        askers = [threading.Thread(target=keep_asking, args=(kind,)) for kind in CLIENTS * 2]
        for asker in askers:
            asker.start()
        try:
            wait_until(lambda: 0 in answers)
            for answer in range(1, 6):
                write_answer(folder, answer)
                control.load_model("answer")
                wait_until(lambda now=answer: now in answers[-8:])  # type: ignore[misc]  # the default binds it
        finally:
            over.set()
            for asker in askers:
                asker.join()
    assert lost == []
    assert set(answers) == set(range(6))


def test_a_stop_during_a_load_ends_with_0(alone: tuple[ServerProcess, pathlib.Path]) -> None:
    server, folder = alone
    write_answer(folder, 1, seconds=1.0)
    with grpc_client.InferenceServerClient(server.grpc) as asked:
        loading = threading.Thread(target=_ignore, args=(asked.load_model, "answer"))
        loading.start()
        wait_until(lambda: "loading: answer:1" in server.output())
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
        loading.join()


def _ignore(call: collections.abc.Callable[[str], None], name: str) -> None:
    """The server may be gone before its reply."""
    try:
        call(name)
    except grpc_client.InferenceServerException:
        return


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("model", ["add", "answer"])
def test_cycles_of_load_and_unload_leave_no_model_behind(
    model: str, alone: tuple[ServerProcess, pathlib.Path]
) -> None:
    """64 MB a cycle, three cycles: one model that stays would show, and nothing else is as large.

    An allocator's heap may keep a piece of one; how much that is over many cycles is measured (`benchmarks/server/cycles.py`).
    """
    server, folder = alone
    write_weights(folder)
    write_answer(folder, 1, floats=16_000_000)
    assert server.process is not None
    process = psutil.Process(server.process.pid)
    x = np.zeros((1, 4), np.float32)
    left: list[int] = []

    def freed() -> list[str]:
        return re.findall(
            rf"unloaded '{model}' version 1: resident memory \S+ MB -> \S+ MB \((\S+) MB\)",
            server.output(),
        )

    with client("http", server) as (asked, module):
        for cycle in range(1, 4):
            asked.load_model(model)
            if model == "add":
                asked.infer("add", [tensor(module, "x", x, "FP32")])
            else:
                assert ask(asked, module) == 1
            asked.unload_model(model)
            # Its reply does not wait for ever until all is given back.
            wait_until(lambda now=cycle: len(freed()) == now)  # type: ignore[misc]  # the default binds it
            family = [process, *process.children(recursive=True)]
            left.append(sum(each.memory_info().rss for each in family))
    assert left[-1] - left[0] < 60 * _MB, left
    assert all(float(each) < -40 for each in freed()), freed()
