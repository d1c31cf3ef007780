"""The models of which `test_bad_files.py` breaks a file, and `test_bad_graphs.py` the config or the graph.

`serving.py` writes them in one process for each framework, because some frameworks do not bear each other in one.
"""

# ruff: noqa: PLC0415 - a process imports one framework

import collections.abc
import dataclasses
import pathlib
from typing import Any

import numpy as np

from tests.support import netdef


@dataclasses.dataclass(frozen=True)
class Good:
    """A model that is served.

    Attributes:
        head: of its config, without max_batch_size, which is 8.
        file: the file that is broken, in the version's folder.
        make: writes the model to its folder.
        tensors: the config's inputs and outputs.
        body: a request.
    """

    head: str
    file: str
    make: collections.abc.Callable[[pathlib.Path], Any]
    tensors: str
    body: dict[str, Any]

    @property
    def config(self) -> str:
        """Its config."""
        return f"{self.head}max_batch_size: 8\n{self.tensors}"

    def write(self, model: pathlib.Path) -> None:
        """Write the model to its folder."""
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(self.config)
        self.make(model)


def tensors(given: str, answer: str, dims: str = "2") -> str:
    return (
        f'input {{ name: "{given}" data_type: TYPE_FP32 dims: [ {dims} ] }}\n'
        f'output {{ name: "{answer}" data_type: TYPE_FP32 dims: [ {dims} ] }}\n'
    )


def body(name: str, *values: float) -> dict[str, Any]:
    return {"inputs": [{"name": name, "datatype": "FP32", "shape": [1, len(values)], "data": list(values)}]}  # fmt: skip


def write_torchscript(model: pathlib.Path) -> None:
    from tests.frameworks.broken.twice import Twice
    from tests.frameworks.pytorch.models import save

    save(model, Twice())


def write_exported(model: pathlib.Path) -> None:
    import torch

    from tests.frameworks.broken.twice import Twice
    from tests.frameworks.pytorch.models import export

    export(model, Twice(), (torch.ones(2, 2),), dynamic_shapes=({0: torch.export.Dim("n")},))


def write_onnx(model: pathlib.Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "factor"], ["y"])],
        "twice",
        [value("x", TensorProto.FLOAT, ["n", 2])],
        [value("y", TensorProto.FLOAT, ["n", 2])],
        [onnx.numpy_helper.from_array(np.full(2, 2, np.float32), "factor")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, model / "1" / "model.onnx")


def write_openvino(model: pathlib.Path) -> None:
    import openvino
    from openvino import opset13 as ops

    given = ops.parameter([-1, 2], np.float32, name="x")
    result = ops.multiply(given, ops.constant(np.full(2, 2, np.float32)))
    result.output(0).get_tensor().set_names({"y"})
    given.output(0).get_tensor().set_names({"x"})
    openvino.save_model(
        openvino.Model([result], [given]), str(model / "1" / "model.xml"), compress_to_fp16=False
    )


def write_tensorflow(model: pathlib.Path) -> None:
    import tensorflow as tf

    module = tf.Module()
    module.factor = tf.Variable([2.0, 2.0])
    given = tf.TensorSpec([None, 2], tf.float32, name="x")
    module.twice = tf.function(lambda x: {"y": x * module.factor}, input_signature=[given])
    tf.saved_model.save(
        module, str(model / "1" / "model.savedmodel"), signatures={"serving_default": module.twice}
    )


def write_graphdef(model: pathlib.Path, values: int = 2) -> None:
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        given = tf.compat.v1.placeholder(tf.float32, [None, 2], name="x")
        tf.multiply(given, tf.reduce_sum(tf.constant([1.0, 1.0], name="factors")), name="y")
    definition = graph.as_graph_def()
    for node in definition.node:
        if node.name == "factors" and values > 2:
            tensor = node.attr["value"].tensor
            del tensor.float_val[:]
            tensor.tensor_content = np.ones(2, np.float32).tobytes()
            tensor.tensor_shape.dim[0].size = values
    (model / "1" / "model.graphdef").write_bytes(definition.SerializeToString())


def write_caffe2(model: pathlib.Path) -> None:
    init: netdef.Op = ("ConstantFill", [], ["unused"], {"shape": [1]})
    relu: netdef.Op = ("Relu", ["x"], ["y"], {})
    (model / "1" / "model.netdef").write_bytes(netdef.net([relu], ["x"], ["y"]))
    (model / "1" / "init_model.netdef").write_bytes(netdef.net([init]))


def write_forest(model: pathlib.Path) -> None:
    from tests.frameworks.fil import models as forests

    forests.by_xgboost("reg:squarederror").save_model(model / "1" / "xgboost.json")


def write_dali(model: pathlib.Path) -> None:
    from tests.frameworks.dali import pipelines

    (model / "1" / "model.dali").write_bytes(pipelines.resized())


ROW = [0.5, 1.0, -1.0, 0.0, 2.0]
FOREST = (
    'input { name: "input__0" data_type: TYPE_FP32 dims: [ 5 ] }\noutput { name: "output__0" data_type: TYPE_FP32 dims: [ 1 ] }\n'
    'parameters [ { key: "model_type" value { string_value: "xgboost_json" } }, { key: "output_class" value { string_value: "false" } } ]\n'
)
TORCH = 'platform: "pytorch_libtorch"\n'
SAVED = 'platform: "tensorflow_savedmodel"\n'
FRAMEWORKS = {
    "torchscript": Good(TORCH, "model.pt", write_torchscript, tensors("x", "y__0"), body("x", 1, 2)),
    "exported": Good(
        'platform: "torch_aoti"\n', "model.pt2",
        write_exported,
        tensors("INPUT__0", "OUTPUT__0"), body("INPUT__0", 1, 2),
    ),
    "onnx": Good('platform: "onnxruntime_onnx"\n', "model.onnx", write_onnx, tensors("x", "y"), body("x", 1, 2)),
    "openvino": Good('backend: "openvino"\n', "model.xml", write_openvino, tensors("x", "y"), body("x", 1, 2)),
    "openvino_weights": Good('backend: "openvino"\n', "model.bin", write_openvino, tensors("x", "y"), body("x", 1, 2)),
    "savedmodel": Good(SAVED, "model.savedmodel/saved_model.pb", write_tensorflow, tensors("x", "y"), body("x", 1, 2)),
    "savedmodel_weights": Good(
        SAVED, "model.savedmodel/variables/variables.data-00000-of-00001", write_tensorflow, tensors("x", "y"), body("x", 1, 2)
    ),
    "graphdef": Good('platform: "tensorflow_graphdef"\n', "model.graphdef", write_graphdef, tensors("x", "y"), body("x", 1, 2)),
    "caffe2": Good('platform: "caffe2_netdef"\n', "model.netdef", write_caffe2, tensors("x", "y"), body("x", 1, 2)),
    "forest": Good('backend: "fil"\n', "xgboost.json", write_forest, FOREST, body("input__0", *ROW)),
    "dali": Good(
        'backend: "dali"\n', "model.dali", write_dali, "", {}
    ),
}  # fmt: skip
