"""`optimization` in a server: what has no effect is in the log once per model, in the words of `naiad check`; PRIORITY_MIN lowers the worker's priority (row 11.21)."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import tritonclient.http as triton
from onnx import TensorProto, helper

from tests.reference.process import ServerProcess, naiad_program

CODE = """
import os, threading
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        threads = os.listdir("/proc/self/task")
        found = sorted({os.getpriority(os.PRIO_PROCESS, int(each)) for each in threads})
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array(found, np.int32))]) for _ in requests]
"""
TENSORS = 'input { name: "X" data_type: TYPE_FP32 dims: 1 } output { name: "Y" data_type: TYPE_INT32 dims: -1 }\n'
POLICY = "optimization { priority: PRIORITY_MIN cuda { graphs: true } eager_batching: true input_pinned_memory { enable: true } }\n"
FIELDS = [
    f"optimization.{name}"
    for name in ("priority", "cuda.graphs", "input_pinned_memory", "eager_batching")
]


def add(models: pathlib.Path, name: str, config: str) -> pathlib.Path:
    version = models / name / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(config)
    return version


def repository(models: pathlib.Path) -> None:
    for name, more in (("lower", "optimization { priority: PRIORITY_MIN }"), ("usual", "")):
        text = f'backend: "python" instance_group {{ kind: KIND_CPU }} {TENSORS}{more}'
        (add(models, name, text) / "model.py").write_text(CODE)
    graph = helper.make_graph(
        [helper.make_node("Add", ["X", "X"], ["Y"])],
        "onnx",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1])],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 15)])
    text = 'platform: "onnxruntime_onnx" instance_group { kind: KIND_CPU }\n' + POLICY
    onnx.save(model, str(add(models, "onnx", text) / "model.onnx"))


def test_notes_of_the_log_and_of_check_and_the_priority_of_workers(tmp_path: pathlib.Path) -> None:
    models = tmp_path / "models"
    repository(models)
    program = naiad_program()
    with (
        ServerProcess(program, [models], log=tmp_path / "log") as server,
        triton.InferenceServerClient(server.http) as client,
    ):
        given = triton.InferInput("X", [1], "FP32")
        given.set_data_from_numpy(np.ones(1, np.float32))
        found = {
            name: client.infer(name, [given]).as_numpy("Y").tolist() for name in ("lower", "usual")
        }
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert found == {"lower": [min(19, own + 10)], "usual": [own]}
    checked = subprocess.run(
        [sys.executable, "-m", "naiad", "check", "--format=json", str(models)],
        env=dict(program.environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
    log = (tmp_path / "log").read_text()
    notes = {each["name"]: each["warnings"] for each in json.loads(checked.stdout)["models"]}
    assert (notes["lower"], notes["usual"]) == ([], [])
    assert [note.partition(" has no effect: ")[0] for note in notes["onnx"]] == FIELDS
    assert [log.count(f'"onnx: {note}"\n') for note in notes["onnx"]] == [1] * len(FIELDS), log
