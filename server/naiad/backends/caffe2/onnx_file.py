"""Writes an ONNX model: the few messages of onnx.proto that a translated net needs, as protobuf's wire format.

Field numbers are those of onnx.proto (ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto, ValueInfoProto). Weights go from their arrays to the
file without a copy, one after the other.
"""

import collections.abc
import struct
import typing
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

OPSET = 16
"""The first release whose RoiAlign knows both of Caffe2's."""

_IR_VERSION = 8

ELEMENTS: collections.abc.Mapping[str, int] = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
}
"""numpy's names to TensorProto.DataType."""

Attribute = int | float | str | collections.abc.Sequence[int]
Parts = list[bytes | memoryview]
"""Pieces of a message, in order."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the graph; an empty input is one that is left out."""

    operator: str
    name: str
    inputs: collections.abc.Sequence[str]
    outputs: collections.abc.Sequence[str]
    attributes: collections.abc.Mapping[str, Attribute]


class GraphTensor(msgspec.Struct, frozen=True, kw_only=True):
    """An input or output of the graph; -1 in `dims` for any size, None where the number of dimensions is not known."""

    name: str
    dtype: np.dtype[Any]
    dims: tuple[int, ...] | None


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """A whole model. What is known of the shapes of outputs is written, because the runtime does not always work out as much."""

    inputs: collections.abc.Sequence[GraphTensor]
    outputs: collections.abc.Sequence[GraphTensor]
    nodes: collections.abc.Sequence[Node]
    weights: collections.abc.Mapping[str, npt.NDArray[Any]]


def write(graph: Graph, file: typing.BinaryIO) -> None:
    """Write the model. Blocking."""
    file.writelines(_model(graph))


def size_of(graph: Graph) -> int:
    """The size of the file, in bytes."""
    return _length(_model(graph))


def _model(graph: Graph) -> Parts:
    parts: Parts = []
    for node in graph.nodes:
        parts += _message(1, _node(node))
    parts += _text(2, "net")
    for name, array in graph.weights.items():
        parts += _message(5, _tensor(name, array))
    for each in graph.inputs:
        parts += _message(11, _described(each, named=True))
    for each in graph.outputs:
        parts += _message(12, _described(each, named=False))
    opset = _message(8, _number(2, OPSET))
    return [*_number(1, _IR_VERSION), *_text(2, "naiad"), *opset, *_message(7, parts)]


def _node(node: Node) -> Parts:
    parts: Parts = []
    for name in node.inputs:
        parts += _text(1, name)
    for name in node.outputs:
        parts += _text(2, name)
    parts += _text(3, node.name) + _text(4, node.operator)
    for name, value in node.attributes.items():
        parts += _message(5, _attribute(name, value))
    return parts


def _attribute(name: str, value: Attribute) -> Parts:
    parts = _text(1, name)
    if isinstance(value, int):
        return parts + _number(3, value) + _number(20, 2)
    if isinstance(value, float):
        return [*parts, _key(2, 5) + struct.pack("<f", value), *_number(20, 1)]
    if isinstance(value, str):
        return parts + _text(4, value) + _number(20, 3)
    for item in value:
        parts += _number(8, item)
    return parts + _number(20, 7)


def _tensor(name: str, array: npt.NDArray[Any]) -> Parts:
    parts: Parts = []
    for size in array.shape:
        parts += _number(1, size)
    parts += _number(2, ELEMENTS[array.dtype.name]) + _text(8, name)
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return parts + _message(9, [flat.data])


def _described(tensor: GraphTensor, *, named: bool) -> Parts:
    shape: Parts = []
    for axis, size in enumerate(tensor.dims or ()):
        # A name stands for a free size of an input; each free one has its own, but the first, which is the batch in every input.
        free = "batch" if axis == 0 else f"{tensor.name}.{axis}"
        known = _number(1, size) if size >= 0 else _text(2, free) if named else []
        shape += _message(1, known)
    kind = _number(1, ELEMENTS[tensor.dtype.name])
    if tensor.dims is not None:
        kind = [*kind, *_message(2, shape)]
    return [*_text(1, tensor.name), *_message(2, _message(1, kind))]


def _message(number: int, parts: Parts) -> Parts:
    return [_key(number, 2) + _varint(_length(parts)), *parts]


def _length(parts: Parts) -> int:
    return sum(map(len, parts))


def _text(number: int, text: str) -> Parts:
    return _message(number, [text.encode()])


def _number(number: int, value: int) -> Parts:
    return [_key(number, 0) + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)]


def _key(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
