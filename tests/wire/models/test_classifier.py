"""A classifier as scikit-learn exports it: an ONNX graph of `ai.onnx.ml` with one label per row, and a config for it."""

import pathlib
import typing

import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton_grpc
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


@pytest.mark.parametrize("module", [triton, triton_grpc], ids=["http", "grpc"])
def test_a_client_gets_the_classes_with_their_labels(
    tmp_path: pathlib.Path, module: typing.Any
) -> None:
    folder = tmp_path / "models" / "classifier" / "1"
    folder.mkdir(parents=True)
    onnx.save(classifier(), str(folder / "model.onnx"))
    labelled = CONFIG.replace("dims: [ 2 ]", 'dims: [ 2 ] label_filename: "labels.txt"')
    (folder.parent / "config.pbtxt").write_text(labelled)
    (folder.parent / "labels.txt").write_text("low\nhigh\n")
    with ServerProcess(naiad_program(), [tmp_path / "models"], log=tmp_path / "log") as server:
        url = server.http if module is triton else server.grpc
        with module.InferenceServerClient(url) as client:
            rows = module.InferInput("X", [2, 3], "FP32")
            rows.set_data_from_numpy(np.array([[1, 2, 3], [-1, -2, -3]], np.float32))
            wanted = [
                module.InferRequestedOutput("probabilities", class_count=1),
                module.InferRequestedOutput("label"),
            ]
            result = client.infer("classifier", [rows], outputs=wanted)
            integers = [module.InferRequestedOutput("label", class_count=2)]
            whole = client.infer("classifier", [rows], outputs=integers)
    assert result.as_numpy("probabilities").tolist() == [[b"0.997527:1:high"], [b"0.997527:0:low"]]
    assert result.as_numpy("label").tolist() == [[1], [0]]
    assert whole.as_numpy("label").tolist() == [[b"1:0"], [b"0:0"]]
