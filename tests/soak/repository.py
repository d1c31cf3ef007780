"""The models of the soak: an echo in each kind of host, one that can hang, one that answers many times.

Every answer carries what was asked, so that an answer which reached the wrong request is seen.
"""

import pathlib

import onnx
from onnx import TensorProto, helper

_CONFIG = """\
backend: "{backend}"
max_batch_size: 8
input {{ name: "x" data_type: TYPE_FP32 dims: -1 }}
output {{ name: "y" data_type: TYPE_FP32 dims: -1 }}
dynamic_batching {{}}
instance_group {{ kind: KIND_CPU count: {count} }}
parameters {{ key: "naiad.host" value {{ string_value: "{host}" }} }}
"""

_HANGS = """\
backend: "python"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: -1 }
output { name: "y" data_type: TYPE_FP32 dims: -1 }
instance_group { kind: KIND_CPU count: 1 }
parameters { key: "naiad.host" value { string_value: "process" } }
parameters { key: "naiad.execute_timeout" value { string_value: "0.5" } }
"""

_STREAM = """\
backend: "python"
max_batch_size: 0
input { name: "x" data_type: TYPE_FP32 dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: 1 }
instance_group { kind: KIND_CPU count: 1 }
model_transaction_policy { decoupled: true }
parameters { key: "naiad.host" value { string_value: "process" } }
"""

_ECHO_MODEL = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            while x[0, 0] < 0:  # asked to hang
                pass
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", x)]))
        return responses
"""

_STREAM_MODEL = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            sender = request.get_response_sender()
            for _ in range(ANSWERS):
                if request.is_cancelled():
                    break
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("y", x)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

STREAMED = 5
"""Answers to one request of `stream`."""

THREADED, PROCESS, HANGS, STREAM, ONNX = "threaded", "pair", "hangs", "stream", "add"

ALL = (THREADED, PROCESS, HANGS, STREAM, ONNX)

WORKERS = {PROCESS: 2, HANGS: 1, STREAM: 1}
"""How many worker processes a model has."""


def make(folder: pathlib.Path) -> pathlib.Path:
    """Writes them all into a folder and gives it back."""
    echo = _CONFIG.format(backend="python", count=1, host="thread")
    _python(folder, THREADED, echo, _ECHO_MODEL)
    pair = _CONFIG.format(backend="python", count=WORKERS[PROCESS], host="process")
    _python(folder, PROCESS, pair, _ECHO_MODEL)
    _python(folder, HANGS, _HANGS, _ECHO_MODEL)
    _python(folder, STREAM, _STREAM, _STREAM_MODEL.replace("ANSWERS", str(STREAMED)))
    _onnx(folder, ONNX)
    return folder


def touch(folder: pathlib.Path, model: str) -> None:
    """Changes a model's folder, so that a load of it is a reload."""
    version = folder / model / "1"
    (version / "touched").write_text("")
    (version / "touched").unlink()
    for file in version.iterdir():
        file.touch()


def _python(folder: pathlib.Path, name: str, config: str, code: str) -> None:
    version = folder / name / "1"
    version.mkdir(parents=True)
    (folder / name / "config.pbtxt").write_text(config)
    (version / "model.py").write_text(code)


def _onnx(folder: pathlib.Path, name: str) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        name,
        [value("x", TensorProto.FLOAT, ["N", "M"])],
        [value("y", TensorProto.FLOAT, ["N", "M"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    version = folder / name / "1"
    version.mkdir(parents=True)
    (folder / name / "config.pbtxt").write_text(
        _CONFIG.format(backend="onnxruntime", count=2, host="thread")
    )
    onnx.save(model, version / "model.onnx")
