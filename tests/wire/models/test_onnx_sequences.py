"""Control inputs and null rows of an ONNX model, as its graph sees them; and a state that the server keeps for it."""

import collections.abc

import numpy as np
import onnx
import pytest
import tritonclient.http as httpclient
from onnx import TensorProto, helper

from tests.reference.process import ServerProcess, naiad_program

CONTROLS = """\
  control_input [
    { name: "START" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } },
    { name: "END" control { kind: CONTROL_SEQUENCE_END fp32_false_true: [ 0, 10 ] } },
    { name: "READY" control { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 100 ] } },
    { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_INT64 } }
  ]
"""
CONFIG = """\
backend: "onnxruntime"
max_batch_size: 4
input { name: "X" data_type: TYPE_FP32 dims: 1 }
output [{ name: "SUM" data_type: TYPE_FP32 dims: 1 }, { name: "ID" data_type: TYPE_INT64 dims: 1 }]
instance_group { kind: KIND_CPU count: 1 }
sequence_batching {
  direct { }
  max_sequence_idle_microseconds: 60000000
%s}
"""
STATE = """\
  state { input_name: "BEFORE" output_name: "AFTER" data_type: TYPE_FP32 dims: 1 initial_state { name: "i" data_type: TYPE_FP32 dims: 1 zero_data: true } }
"""
WARMUP = """\
model_warmup {
  name: "all inputs"
  batch_size: 2
  inputs { key: "X" value { data_type: TYPE_FP32 dims: 1 zero_data: true } }
  inputs { key: "START" value { data_type: TYPE_FP32 dims: 1 zero_data: true } }
  inputs { key: "END" value { data_type: TYPE_FP32 dims: 1 zero_data: true } }
  inputs { key: "READY" value { data_type: TYPE_FP32 dims: 1 random_data: true } }
  inputs { key: "CORRID" value { data_type: TYPE_INT64 dims: 1 zero_data: true } }
  inputs { key: "BEFORE" value { data_type: TYPE_FP32 dims: 1 zero_data: true } }
}
"""


def graph(*, stateful: bool) -> onnx.ModelProto:
    """SUM is X and the controls, with a state also what was there before; AFTER is before and X."""
    floats = ["X", "START", "END", "READY"]
    inputs = [helper.make_tensor_value_info(each, TensorProto.FLOAT, ["N", 1]) for each in floats]
    inputs.append(helper.make_tensor_value_info("CORRID", TensorProto.INT64, ["N", 1]))
    outputs = [
        helper.make_tensor_value_info("SUM", TensorProto.FLOAT, ["N", 1]),
        helper.make_tensor_value_info("ID", TensorProto.INT64, ["N", 1]),
    ]
    nodes = [helper.make_node("Identity", ["CORRID"], ["ID"])]
    if stateful:
        inputs.append(helper.make_tensor_value_info("BEFORE", TensorProto.FLOAT, ["N", 1]))
        outputs.append(helper.make_tensor_value_info("AFTER", TensorProto.FLOAT, ["N", 1]))
        nodes.append(helper.make_node("Add", ["BEFORE", "X"], ["AFTER"]))
        nodes.append(helper.make_node("Sum", [*floats[1:], "AFTER"], ["SUM"]))
    else:
        nodes.append(helper.make_node("Sum", floats, ["SUM"]))
    made = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(made, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    repository = tmp_path_factory.mktemp("models")
    for name, stateful in (("controls", False), ("stateful", True)):
        version = repository / name / "1"
        version.mkdir(parents=True)
        onnx.save(graph(stateful=stateful), version / "model.onnx")
        text = CONFIG % (CONTROLS + (STATE if stateful else "")) + (WARMUP if stateful else "")
        (version.parent / "config.pbtxt").write_text(text)
    log = tmp_path_factory.mktemp("log") / "server.log"
    options = ["--exit-timeout-secs=4"]
    with ServerProcess(naiad_program(), [repository], log=log, options=options) as running:
        yield running


def infer(server: ServerProcess, model: str, key: int, x: float, flags: str = "") -> list[float]:
    tensor = httpclient.InferInput("X", [1, 1], "FP32")
    tensor.set_data_from_numpy(np.array([[x]], np.float32))
    with httpclient.InferenceServerClient(server.http) as client:
        result = client.infer(
            model,
            [tensor],
            sequence_id=key,
            sequence_start="s" in flags,
            sequence_end="e" in flags,
        )
    assert {each["name"] for each in result.get_response()["outputs"]} == {"SUM", "ID"}
    return [float(result.as_numpy("SUM")[0][0]), float(result.as_numpy("ID")[0][0])]


def test_controls_and_rows_that_are_null(server: ServerProcess) -> None:
    assert infer(server, "controls", 5, 0.5, "s") == [101.5, 5]
    assert infer(server, "controls", 6, 0.25, "s") == [101.25, 6]
    assert infer(server, "controls", 6, 0.75) == [100.75, 6]
    assert infer(server, "controls", 6, 0.75, "e") == [110.75, 6]
    assert infer(server, "controls", 5, 0.5, "e") == [110.5, 5]
    with httpclient.InferenceServerClient(server.http) as client:
        (entry,) = client.get_inference_statistics("controls")["model_stats"]
    sizes = {each["batch_size"]: each["compute_infer"]["count"] for each in entry["batch_stats"]}
    assert sizes == {1: 2, 2: 3}
    assert entry["inference_count"] == 5


def test_each_sequence_has_the_state_of_its_own(server: ServerProcess) -> None:
    """Its samples, which list controls and the state, leave no state behind (row 14.34)."""
    sums = []
    for flags in ("s", "", "e"):
        sums += [infer(server, "stateful", key, key, flags)[0] for key in (1, 2)]
    assert sums == [102, 103, 102, 104, 113, 116]
    with httpclient.InferenceServerClient(server.http) as client:
        (entry,) = client.get_inference_statistics("stateful")["model_stats"]
    assert entry["inference_count"] == 6 + 2
