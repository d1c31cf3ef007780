"""A detector whose file does not say that it gives a fixed number of boxes: the server completes its config from what onnxruntime works out."""

import json
import pathlib

import onnx
import pytest
from onnx import TensorProto, helper

from tests.wire.models.worker_models import launched
from tests.wire.plain_http import call, get


def write_detector(version: pathlib.Path) -> None:
    """The five best scores over a batch of a hundred each."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMax", ["x"], ["flat"], axes=[0], keepdims=0),
            helper.make_node("TopK", ["flat", "k"], ["scores", "index"]),
        ],
        "g",
        [value("x", TensorProto.FLOAT, ["batch", 100])],
        [value("scores", TensorProto.FLOAT, ["num"]), value("index", TensorProto.INT64, ["num"])],
        [helper.make_tensor("k", TensorProto.INT64, [1], [5])],
    )
    version.mkdir(parents=True)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, version / "model.onnx")


@pytest.mark.parametrize("host", ["thread", "process"])
def test_models_load_whose_session_contradicts_what_the_file_declares(
    tmp_path: pathlib.Path, host: str
) -> None:
    configs = {
        "noconfig": "",
        "zero": 'backend: "onnxruntime"\nmax_batch_size: 0\n',
        "platform": 'platform: "onnxruntime_onnx"\n',
    }
    for name, config in configs.items():
        write_detector(tmp_path / "models" / name / "1")
        if config:
            (tmp_path / "models" / name / "config.pbtxt").write_text(config)
    options = (f"--backend-config=onnxruntime,host={host}",)
    with launched(tmp_path / "models", tmp_path, *options) as server:
        for name in configs:
            config = json.loads(get(server.http, f"/v2/models/{name}/config")[1])
            assert config["max_batch_size"] == 0
            assert [[int(size) for size in each["dims"]] for each in config["output"]] == [[5], [5]]
            body = {
                "inputs": [
                    {"name": "x", "datatype": "FP32", "shape": [1, 100], "data": [*range(100)]}
                ]
            }
            status, reply = call(server.http, "POST", f"/v2/models/{name}/infer", body)
            assert status == 200
            outputs = {each["name"]: each["data"] for each in json.loads(reply)["outputs"]}
            assert outputs["index"] == [99, 98, 97, 96, 95]
