"""The model repository that wire tests serve: small ONNX graphs and Python models, made afresh in a folder."""

import pathlib

import onnx
from onnx import TensorProto, helper

ADD = """\
backend: "onnxruntime"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 4 }
dynamic_batching {}
"""

TEXT = """\
backend: "python"
max_batch_size: 8
input { name: "TEXT" data_type: TYPE_STRING dims: 1 }
input { name: "NOTE" data_type: TYPE_STRING dims: 1 optional: true }
output { name: "LOUD" data_type: TYPE_STRING dims: 1 }
"""

TEXT_MODEL = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        text = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
        loud = np.array([each.upper() for each in text.reshape(-1)], dtype=object).reshape(text.shape)
        return pb_utils.InferenceResponse([pb_utils.Tensor("LOUD", loud)])
"""

SLOW = """\
backend: "python"
input { name: "SECONDS" data_type: TYPE_FP32 dims: 1 }
output { name: "DONE" data_type: TYPE_FP32 dims: 1 }
instance_group { kind: KIND_CPU count: 1 }
"""

SLOW_MODEL = """\
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            seconds = pb_utils.get_input_tensor_by_name(request, "SECONDS").as_numpy()
            print("slow: begun", flush=True)
            time.sleep(float(seconds[0]))
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("DONE", seconds)]))
        return responses
"""


def make(folder: pathlib.Path) -> pathlib.Path:
    """`add` (ONNX, x + x), `text` (Python, upper case; `NOTE` is optional), `slow` (Python, sleeps as long as asked)."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "add",
        [value("x", TensorProto.FLOAT, ["N", 4])],
        [value("y", TensorProto.FLOAT, ["N", 4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    version = _model(folder, "add", ADD)
    onnx.save(model, version / "model.onnx")
    (_model(folder, "text", TEXT) / "model.py").write_text(TEXT_MODEL)
    (_model(folder, "slow", SLOW) / "model.py").write_text(SLOW_MODEL)
    return folder


def _model(folder: pathlib.Path, name: str, config: str) -> pathlib.Path:
    version = folder / name / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(config)
    return version
