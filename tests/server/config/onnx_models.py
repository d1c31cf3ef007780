"""Small ONNX files for the tests: made with `onnx.helper`, saved where a test wants them."""

import pathlib
from collections.abc import Mapping, Sequence

import onnx
from onnx import TensorProto, helper

Dims = Sequence[int | str | None] | None
"""Sizes, names of free dimensions, None for a nameless one; None as a whole for an unknown rank."""


def value(name: str, dims: Dims, elem: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """A graph input or output."""
    return helper.make_tensor_value_info(name, elem, dims)


def model(
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    *,
    initializers: Mapping[str, Sequence[float]] | None = None,
    ir_version: int = 8,
) -> onnx.ModelProto:
    """A model whose outputs copy the first input, in turn; never checked, only read."""
    first = inputs[0].name if inputs else "w"
    nodes = [helper.make_node("Identity", [first], [output.name]) for output in outputs]
    weights = [
        helper.make_tensor(name, TensorProto.FLOAT, [len(values)], values)
        for name, values in (initializers or {}).items()
    ]
    graph = helper.make_graph(nodes, "g", list(inputs), list(outputs), weights)
    return helper.make_model(
        graph,
        producer_name="tests",
        ir_version=ir_version,
        opset_imports=[helper.make_opsetid("", 17)],
    )


def save(proto: onnx.ModelProto, path: pathlib.Path) -> pathlib.Path:
    """Write the model there, its folder too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(proto.SerializeToString())
    return path
