"""A classifier as scikit-learn exports it: an ONNX graph of `ai.onnx.ml` with one label per row, and a config for it."""

import pathlib

import numpy as np
import onnx
import tritonclient.http as triton
from onnx import TensorProto, helper

from tests.reference.process import ServerProcess, naiad_program

CONFIG = """\
max_batch_size: 8
output { name: "label" data_type: TYPE_INT64 dims: [ 1 ] reshape { shape: [ ] } }
output { name: "probabilities" data_type: TYPE_FP32 dims: [ 2 ] }
"""


def classifier() -> onnx.ModelProto:
    """Class 1 where the values sum to more than 0: what `to_onnx(…, options={"zipmap": False})` makes of a logistic regression."""
    node = helper.make_node(
        "LinearClassifier",
        ["X"],
        ["label", "probabilities"],
        domain="ai.onnx.ml",
        classlabels_ints=[0, 1],
        coefficients=[-1.0, -1.0, -1.0, 1.0, 1.0, 1.0],
        intercepts=[0.0, 0.0],
        multi_class=0,
        post_transform="LOGISTIC",
    )
    graph = helper.make_graph(
        [node],
        "classifier",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 3])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [None, 2]),
        ],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, ir_version=8, opset_imports=opsets)


def test_labels_of_a_batch_come_back_one_per_row(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "models" / "classifier" / "1"
    folder.mkdir(parents=True)
    onnx.save(classifier(), str(folder / "model.onnx"))
    (folder.parent / "config.pbtxt").write_text(CONFIG)
    with (
        ServerProcess(naiad_program(), [tmp_path / "models"], log=tmp_path / "log") as server,
        triton.InferenceServerClient(server.http) as client,
    ):
        rows = triton.InferInput("X", [3, 3], "FP32")
        rows.set_data_from_numpy(np.array([[1, 2, 3], [-1, -2, -3], [0, 0, 1]], np.float32))
        result = client.infer("classifier", [rows])
    assert result.as_numpy("label").tolist() == [[1], [0], [1]]
    assert result.as_numpy("probabilities").shape == (3, 2)
