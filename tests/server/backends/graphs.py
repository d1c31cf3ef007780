"""Small ONNX models for tests, and backends that have loaded them."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from onnx import NodeProto, TensorProto, ValueInfoProto, helper

from naiad.backends.backend import ModelSource
from naiad.backends.instance import InstanceSpec
from naiad.backends.onnxruntime.backend import OnnxRuntimeBackend
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.core import datatypes
from naiad.core.clock import Clock, ManualClock
from naiad.core.inference import Inference
from tests.server.backends.configs import Instance, Loaded, inference, model_config, spec, tensor

Shape = Sequence[int | str | None] | None

ADD_CONFIG = model_config(
    inputs=[spec("A", datatypes.FP32, (2,)), spec("B", datatypes.FP32, (2,))],
    outputs=[spec("SUM", datatypes.FP32, (2,)), spec("DIFFERENCE", datatypes.FP32, (2,))],
)
"""The model of `write_add`."""


def value(name: str, shape: Shape, element: int = TensorProto.FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def write_graph(
    folder: pathlib.Path,
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    *,
    filename: str = "model.onnx",
    **more: Any,
) -> pathlib.Path:
    """Write `<folder>/1/<filename>`; gives back `folder`."""
    graph = helper.make_graph(nodes, "g", inputs, outputs, **more)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path = folder / "1" / filename
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return folder


def write_add(folder: pathlib.Path) -> pathlib.Path:
    """SUM = A + B and DIFFERENCE = A - B, float [n, 2]."""
    return write_graph(
        folder,
        [
            helper.make_node("Add", ["A", "B"], ["SUM"]),
            helper.make_node("Sub", ["A", "B"], ["DIFFERENCE"]),
        ],
        [value("A", ["n", 2]), value("B", ["n", 2])],
        [value("SUM", ["n", 2]), value("DIFFERENCE", ["n", 2])],
    )


def load(
    folder: pathlib.Path,
    config: ModelConfig,
    *,
    options: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> Loaded:
    backend = OnnxRuntimeBackend(clock=clock or ManualClock())
    source = ModelSource(
        config=config,
        version=1,
        model_dir=folder,
        options=options or {},
    )
    return Loaded(backend.load(source), config)


def instance_of(folder: pathlib.Path, config: ModelConfig, **more: Any) -> Instance:
    return load(folder, config, **more).make_instance(
        InstanceSpec(name="m_0_0", kind=InstanceKind.CPU, device_id=0)
    )


def add(a: Any, b: Any, **more: Any) -> Inference:
    """A request for the model of `write_add`."""
    return inference(tensor("A", a, datatypes.FP32), tensor("B", b, datatypes.FP32), **more)


def write_accumulate(
    folder: pathlib.Path, *, batched: bool = True, element: int = TensorProto.FLOAT
) -> pathlib.Path:
    """OUTPUT = INPUT + STATE_IN where START is 0, and INPUT where it is 1; STATE_OUT the same. Both of one value, START int32."""
    batch: list[int | str | None] = ["n", 1] if batched else [1]
    return write_graph(
        folder,
        [
            helper.make_node("Cast", ["START"], ["starts"], to=TensorProto.BOOL),
            helper.make_node("Add", ["INPUT", "STATE_IN"], ["sum"]),
            helper.make_node("Where", ["starts", "INPUT", "sum"], ["OUTPUT"]),
            helper.make_node("Identity", ["OUTPUT"], ["STATE_OUT"]),
        ],
        [
            value("INPUT", batch, element),
            value("START", batch, TensorProto.INT32),
            value("STATE_IN", batch, element),
        ],
        [value("OUTPUT", batch, element), value("STATE_OUT", batch, element)],
    )


ACCUMULATE = """
sequence_batching {
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] } }
  state { input_name: "STATE_IN" output_name: "STATE_OUT" data_type: TYPE_FP32 dims: 1 }
}
"""
"""The sequence batching of `write_accumulate`."""
