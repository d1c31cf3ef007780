"""What is served: one Python model that runs unmodified on both servers, and ONNX models for ours alone.

The Triton that can be installed here has no native ONNX backend, so no ratio is claimed for those.
"""

import pathlib
import shutil

import numpy as np
import onnx
from onnx import TensorProto, helper

_ROOT = pathlib.Path(__file__).resolve().parent.parent

_PYTHON_MODEL = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            tensor = pb_utils.get_input_tensor_by_name(request, "x")
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", tensor.as_numpy())]))
        return responses
"""

_WEIGHTY_MODEL = """\
import numpy as np
import triton_python_backend_utils as pb_utils

TABLE = np.ones(16 * 1024 * 1024, np.float32)


class TritonPythonModel:
    def initialize(self, args):
        self.itself = self
        self.words = {{str(number): [number] for number in range({words})}}

    def execute(self, requests):
        responses = []
        for request in requests:
            tensor = pb_utils.get_input_tensor_by_name(request, "x")
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", tensor.as_numpy())]))
        return responses
"""

_CONFIG = """\
backend: "{backend}"
max_batch_size: 64
input {{ name: "x" data_type: TYPE_FP32 dims: {dims} }}
output {{ name: "y" data_type: TYPE_FP32 dims: {dims} }}
dynamic_batching {{}}
instance_group {{ kind: KIND_CPU count: 1 }}
"""

WIDTH = 4
CONVOLUTION_SHAPE = (3, 224, 224)


_BUSY_MODEL = """\
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            tensor = pb_utils.get_input_tensor_by_name(request, "x")
            until = time.thread_time() + 0.05
            while time.thread_time() < until:
                pass
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", tensor.as_numpy())]))
        return responses
"""

_ONE_THREAD = 'parameters { key: "intra_op_thread_count" value { string_value: "1" } }\n'
_IN_A_THREAD = 'parameters { key: "naiad.host" value { string_value: "thread" } }\n'


def python_models(repository: pathlib.Path) -> None:
    """The Python models of both servers: `identity`, [N,4] FP32 in and out; `wide`, the same with rows of any width; `strings`, BYTES."""
    _python(repository / "identity", _PYTHON_MODEL, dims=WIDTH)
    _python(repository / "wide", _PYTHON_MODEL, dims=-1)
    _python(repository / "strings", _PYTHON_MODEL, dims=-1, datatype="TYPE_STRING")


def python_identity(repository: pathlib.Path, name: str, *, batch: int = 64) -> None:
    """`identity` under another name; with a `batch` of 0 without a batch dimension, and so without a dynamic batcher."""
    _python(repository / name, _PYTHON_MODEL, dims=WIDTH, batch=batch)


def python_sleeping(repository: pathlib.Path, name: str, *, milliseconds: float) -> None:
    """`identity` under another name; each batch takes so long, without a processor."""
    code = _PYTHON_MODEL.replace("import triton", "import time\n\nimport triton", 1)
    slept = f"        time.sleep({milliseconds / 1000})\n        responses = []"
    _python(repository / name, code.replace("        responses = []", slept), dims=WIDTH)


def python_model_in_a_thread(repository: pathlib.Path) -> None:
    """`threaded`: `identity` again, in a thread of Naiad (Triton does not know the parameter)."""
    _python(repository / "threaded", _PYTHON_MODEL, dims=WIDTH, more=_IN_A_THREAD)


def busy_models(repository: pathlib.Path) -> None:
    """`busy_1` and `busy_2`: 50 ms of a processor in pure Python a request, one and two instances."""
    for count in (1, 2):
        _python(repository / f"busy_{count}", _BUSY_MODEL, dims=WIDTH, count=count, batch=0)


def _python(
    folder: pathlib.Path,
    code: str,
    *,
    dims: int,
    datatype: str = "TYPE_FP32",
    more: str = "",
    count: int = 1,
    batch: int = 64,
) -> None:
    version = folder / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(code)
    config = _CONFIG.format(backend="python", dims=dims).replace("count: 1", f"count: {count}")
    config = config.replace("TYPE_FP32", datatype)
    if not batch:
        config = config.replace("max_batch_size: 64", "max_batch_size: 0")
        config = config.replace("dynamic_batching {}\n", "")
    (folder / "config.pbtxt").write_text(config + more)


def weighty_python(repository: pathlib.Path, *, words: int) -> None:
    """`hoarder_<words>`: the same with 64 MiB in one array and so many small objects, held by a module and an instance that hold themselves."""
    _python(repository / f"hoarder_{words}", _WEIGHTY_MODEL.format(words=words), dims=WIDTH)


def tiny_onnx(repository: pathlib.Path) -> None:
    """`tiny`: one Add, [N,4] FP32 in and out."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "tiny",
        [value("x", TensorProto.FLOAT, ["N", WIDTH])],
        [value("y", TensorProto.FLOAT, ["N", WIDTH])],
    )
    _save(graph, repository / "tiny")
    (repository / "tiny" / "config.pbtxt").write_text(
        _CONFIG.format(backend="onnxruntime", dims=WIDTH)
    )


def tiny_copies(repository: pathlib.Path, count: int) -> None:
    """`tiny` under so many names."""
    tiny_onnx(repository)
    source = (repository / "tiny").rename(repository / "tiny_0000")
    for number in range(1, count):
        shutil.copytree(source, repository / f"tiny_{number:04}")


def weighty_onnx(repository: pathlib.Path, *, name: str = "weighty", width: int = 4096) -> None:
    """`weighty`: three matrices, 64 MiB of weights (one is of 4 * width² bytes), [N,4] FP32 in and out."""
    value = helper.make_tensor_value_info
    rng = np.random.default_rng(7)
    names, shapes = ("x", "a", "b", "y"), ((WIDTH, width), (width, width), (width, WIDTH))
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [names[index], f"w{index}"], [names[index + 1]])
            for index in range(len(shapes))
        ],
        name,
        [value("x", TensorProto.FLOAT, ["N", WIDTH])],
        [value("y", TensorProto.FLOAT, ["N", WIDTH])],
        [
            onnx.numpy_helper.from_array(rng.random(shape, np.float32), f"w{index}")
            for index, shape in enumerate(shapes)
        ],
    )
    _save(graph, repository / name)
    (repository / name / "config.pbtxt").write_text(
        _CONFIG.format(backend="onnxruntime", dims=WIDTH)
    )


def layers_onnx(folder: pathlib.Path, *, width: int, hidden: int, batches: bool) -> None:
    """[N,width] FP32 in and out: three matrices, the middle one `hidden` wide and high; 0: one Add. One instance, which computes with one thread."""
    value = helper.make_tensor_value_info
    rng = np.random.default_rng(7)
    shapes = ((width, hidden), (hidden, hidden), (hidden, width)) if hidden else ()
    names = ("x", "a", "b", "y")
    nodes = [
        helper.make_node("MatMul", [names[index], f"w{index}"], [names[index + 1]])
        for index in range(len(shapes))
    ]
    graph = helper.make_graph(
        nodes or [helper.make_node("Add", ["x", "x"], ["y"])],
        "layers",
        [value("x", TensorProto.FLOAT, ["N", width])],
        [value("y", TensorProto.FLOAT, ["N", width])],
        [
            onnx.numpy_helper.from_array(rng.random(shape, np.float32), f"w{index}")
            for index, shape in enumerate(shapes)
        ],
    )
    _save(graph, folder)
    config = _CONFIG.format(backend="onnxruntime", dims=width).replace("size: 64", "size: 8")
    if not batches:
        config = config.replace("dynamic_batching {}\n", "")
    (folder / "config.pbtxt").write_text(config + _ONE_THREAD)


def magika(repository: pathlib.Path) -> None:
    """`magika`: the real network of the examples."""
    shutil.copytree(_ROOT / "examples" / "model_repository" / "magika", repository / "magika")


def convolution(
    path: pathlib.Path,
    shape: tuple[int, int, int] = CONVOLUTION_SHAPE,
    channels: tuple[int, ...] = (32, 64, 64, 64, 64),
) -> None:
    """A stack of 3x3 convolutions, by default with a run time of some tens of milliseconds on a CPU: where 3 % more is a figure.

    Args:
        path: the model's folder.
        shape: of the input: channels, height, width.
        channels: of the output of each convolution.
    """
    rng = np.random.default_rng(7)
    nodes, weights = [], []
    name, before = "x", shape[0]
    for index, wide in enumerate(channels):
        weights.append(
            onnx.numpy_helper.from_array(
                (rng.standard_normal((wide, before, 3, 3)) * 0.05).astype(np.float32), f"w{index}"
            )
        )
        nodes.append(
            helper.make_node(
                "Conv", [name, f"w{index}"], [f"c{index}"], pads=[1, 1, 1, 1],
                strides=[2, 2] if index == 0 else [1, 1],
            )
        )  # fmt: skip
        nodes.append(helper.make_node("Relu", [f"c{index}"], [f"r{index}"]))
        name, before = f"r{index}", wide
    nodes.append(helper.make_node("GlobalAveragePool", [name], ["y"]))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "convolution",
        [value("x", TensorProto.FLOAT, ["N", *shape])],
        [value("y", TensorProto.FLOAT, ["N", before, 1, 1])],
        weights,
    )
    _save(graph, path)


def _save(graph: onnx.GraphProto, folder: pathlib.Path) -> None:
    version = folder / "1"
    version.mkdir(parents=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, version / "model.onnx")
