"""Warmup in a real server: onnxruntime in a thread, a Python model that calls another one, what clients see meanwhile, and what fails a load."""

import json
import pathlib
import threading
import urllib.error
import urllib.request
from typing import Any

import onnx
from onnx import TensorProto, helper

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until

CALLS = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            call = pb_utils.InferenceRequest(
                model_name="doubles", requested_output_names=["Y"], inputs=[pb_utils.Tensor("X", request.inputs()[0].as_numpy())]
            )
            response = call.exec()
            if response.has_error():
                raise pb_utils.TritonModelException(response.error().message())
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", response.output_tensors()[0].as_numpy())]))
        return responses
"""
SLOW = """
import os, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        while not os.path.exists(os.environ["GO"]):
            time.sleep(0.01)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", each.inputs()[0].as_numpy())]) for each in requests]
"""
TENSORS = """
max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }
"""


def sample(name: str, *, batch_size: int = 1, count: int = 1, dims: int = 2) -> str:
    return (
        f'model_warmup {{ name: "{name}" batch_size: {batch_size} count: {count} '
        f'inputs {{ key: "X" value {{ data_type: TYPE_FP32 dims: {dims} zero_data: true }} }} }}\n'
    )


def python(folder: pathlib.Path, name: str, code: str, more: str) -> None:
    version = folder / name / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(code)
    (version.parent / "config.pbtxt").write_text(f'backend: "python"\n{TENSORS}{more}')


def doubles(folder: pathlib.Path, more: str) -> None:
    graph = helper.make_graph(
        [helper.make_node("Add", ["X", "X"], ["Y"])],
        "doubles",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["n", 2])],
    )
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 15)])
    version = folder / "doubles" / "1"
    version.mkdir(parents=True)
    onnx.save(made, str(version / "model.onnx"))
    (version.parent / "config.pbtxt").write_text(TENSORS + more)


def ask(server: ServerProcess, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{server.http}{path}", data=data)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            text = reply.read()
    except urllib.error.HTTPError as error:
        text = error.read()
    return json.loads(text) if text else None


def counts(server: ServerProcess, model: str) -> tuple[int, int]:
    (stat,) = ask(server, f"/v2/models/{model}/stats")["model_stats"]
    return stat["inference_count"], stat["execution_count"]


def test_onnxruntime_in_a_thread_and_a_model_that_calls_it(tmp_path: pathlib.Path) -> None:
    doubles(tmp_path / "models", sample("a", count=2) + sample("b", batch_size=8))
    python(tmp_path / "models", "calls", CALLS, sample("c", batch_size=2))
    python(tmp_path / "models", "fails", CALLS.replace("doubles", "nowhere"), sample("d"))
    options = ["--model-control-mode=explicit", "--load-model=doubles"]
    with ServerProcess(
        naiad_program(), [tmp_path / "models"], log=tmp_path / "log", options=options
    ) as server:
        # Two instances, which share a session.
        assert counts(server, "doubles") == (20, 6)
        # Another one joins them.
        config = tmp_path / "models/doubles/config.pbtxt"
        config.write_text(config.read_text() + "instance_group { count: 3 kind: KIND_CPU }\n")
        assert ask(server, "/v2/repository/models/doubles/load", {}) is None
        assert counts(server, "doubles") == (30, 9)
        assert ask(server, "/v2/repository/models/calls/load", {}) is None
        assert counts(server, "calls") == (2, 1)
        assert counts(server, "doubles") == (32, 11)
        refused = ask(server, "/v2/repository/models/fails/load", {})
        assert "failed to run warmup sample 'd': " in refused["error"]
        assert "nowhere" in refused["error"]
        index = {each["name"]: each for each in ask(server, "/v2/repository/index", {})}
        assert index["fails"]["state"] == "UNAVAILABLE"
        assert index["fails"]["reason"].startswith("failed to run warmup sample 'd': ")


def test_clients_see_how_far_a_warmup_is(tmp_path: pathlib.Path) -> None:
    python(tmp_path / "models", "slow", SLOW, sample("a", count=3))
    program = naiad_program()
    go = tmp_path / "go"
    environ = {**program.environ, "GO": str(go)}
    program = type(program)(program.name, program.command, environ)
    with ServerProcess(
        program, [tmp_path / "models"], log=tmp_path / "log", options=["--model-control-mode=explicit"]
    ) as server:  # fmt: skip
        loading = threading.Thread(target=ask, args=(server, "/v2/repository/models/slow/load", {}))
        loading.start()

        def entry() -> Any:
            return next(iter(ask(server, "/v2/repository/index", {})), {})

        wait_until(lambda: entry().get("reason") == "warming 1/3")
        assert entry()["state"] == "LOADING"
        (load,) = ask(server, "/v2/repository/progress")["loads"]
        assert (load["phase"], load["warmups_begun"], load["warmups_total"]) == ("warming", 1, 3)
        go.touch()
        loading.join(60)
        assert entry()["state"] == "READY"
        assert "is warming 1/3" in (tmp_path / "log").read_text()
