"""The inputs and outputs of an ONNX file, read without a framework and without its weights (`wire_format`).

Importing onnxruntime costs 40 MB and making a session reads every weight; to check a config, names, types and shapes are enough.

Field numbers are those of onnx.proto (ModelProto, GraphProto, ValueInfoProto, TypeProto, TensorProto).
"""

import collections.abc
import pathlib
import typing

from naiad.backends.model_files.signature import GraphTensor, Signature
from naiad.backends.model_files.wire_format import (
    LENGTH,
    VARINT,
    Field,
    MalformedError,
    ModelFileError,
    WireFormat,
    walk,
)
from naiad.core import datatypes
from naiad.core.datatypes import DataType

ELEMENT_TYPES: collections.abc.Mapping[int, DataType] = {
    1: datatypes.FP32,
    2: datatypes.UINT8,
    3: datatypes.INT8,
    4: datatypes.UINT16,
    5: datatypes.INT16,
    6: datatypes.INT32,
    7: datatypes.INT64,
    8: datatypes.BYTES,
    9: datatypes.BOOL,
    10: datatypes.FP16,
    11: datatypes.FP64,
    12: datatypes.UINT32,
    13: datatypes.UINT64,
    16: datatypes.BF16,
}
"""TensorProto.DataType to ours (row 16.12); the others (complex, 8 and 4 bit floats …) cannot be served."""

_OTHER_TYPES = {
    14: "complex64",
    15: "complex128",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
}

_KINDS = {1: "tensor", 4: "sequence", 5: "map", 7: "opaque", 8: "sparse tensor", 9: "optional"}
"""The fields of TypeProto's oneof."""

_INT64_MAX = (1 << 63) - 1


class OnnxFileError(ModelFileError):
    """The file is not a whole ONNX model; the message says in what way and what to do."""


_Found = typing.TypeVar("_Found")


class OnnxGraph(Signature, frozen=True, kw_only=True):
    """What is read of an ONNX file: its signature and where else its weights are.

    Attributes:
        external_files: files beside the model that hold weights, as the model names them.
    """

    external_files: frozenset[str]


def read(path: pathlib.Path) -> OnnxGraph:
    """Read the outside of the ONNX model in `path`.

    Raises:
        OnnxFileError: the file is missing, empty, cut off, or no ONNX model.
    """
    return _walk(path, _model)


def has_operator(path: pathlib.Path, names: collections.abc.Set[str]) -> bool:
    """Whether a node of the model, of a subgraph or of a function of it is one of these operators. Ends with the first one.

    Raises:
        OnnxFileError: as `read`.
    """
    return _walk(path, lambda wire: any(name in names for name in _operators(wire)))


def attributes_of(path: pathlib.Path, operator: str) -> list[dict[str, str | int]]:
    """The attributes of each node of an operator that are a text, a list of texts (its last one) or an integer, by name.

    Raises:
        OnnxFileError: as `read`.
    """
    return _walk(
        path,
        lambda wire: [
            _plain_attributes(wire, attributes)
            for name, attributes in _nodes(wire)
            if name == operator
        ],
    )


def _walk(path: pathlib.Path, visit: collections.abc.Callable[[WireFormat], _Found]) -> _Found:
    return walk(path, visit, what="an ONNX model", error=OnnxFileError)


def _model(wire: WireFormat) -> OnnxGraph:
    *_, graph = (None, *wire.parts(wire.whole(), 7))
    if graph is None:
        raise MalformedError("holds no graph: it is not an ONNX model, or its copy ended early")
    listed: list[GraphTensor] = []
    outputs: list[GraphTensor] = []
    initializers: set[str] = set()
    external_files: set[str] = set()
    for field in wire.fields(graph):
        if field.tag == (5, LENGTH):
            initializers.add(_weight(wire, field, external_files))
        elif field.tag == (15, LENGTH):
            for values in wire.parts(field, 1):
                initializers.add(_weight(wire, values, external_files))
        elif field.tag == (11, LENGTH):
            listed.append(_tensor(wire, field))
        elif field.tag == (12, LENGTH):
            outputs.append(_tensor(wire, field))
    return OnnxGraph(
        inputs=tuple(tensor for tensor in listed if tensor.name not in initializers),
        overridable=tuple(tensor for tensor in listed if tensor.name in initializers),
        outputs=tuple(outputs),
        external_files=frozenset(external_files),
    )


def _operators(wire: WireFormat) -> collections.abc.Iterator[str]:
    """The operator of each node, those of subgraphs and functions included."""
    return (operator for operator, _ in _nodes(wire))


def _nodes(wire: WireFormat) -> collections.abc.Iterator[tuple[str, list[Field]]]:
    """The operator and the attributes of each node, those of subgraphs and functions included."""
    model = wire.whole()
    # What holds nodes, each with the field's number: a graph in field 1, a function in field 7.
    holders = [(graph, 1) for graph in wire.parts(model, 7)]
    holders += [(function, 7) for function in wire.parts(model, 25)]
    while holders:
        holder, number = holders.pop()
        for node in wire.parts(holder, number):
            operator, attributes = "", list[Field]()
            for field in wire.fields(node):
                if field.tag == (4, LENGTH):
                    operator = wire.text(field)
                elif field.tag == (5, LENGTH):  # an attribute, which may hold graphs
                    attributes.append(field)
                    holders += [
                        (part, 1)
                        for part in wire.fields(field)
                        if part.tag in {(6, LENGTH), (11, LENGTH)}
                    ]
            yield operator, attributes


def _plain_attributes(wire: WireFormat, attributes: list[Field]) -> dict[str, str | int]:
    """Those that are a text or an integer, by name; of a list of texts the last one."""
    plain: dict[str, str | int] = {}
    for attribute in attributes:
        for field in wire.fields(attribute):
            if field.tag in {(4, LENGTH), (9, LENGTH)}:
                plain[wire.text_of(attribute, 1)] = wire.text(field)
            elif field.tag == (3, VARINT):
                plain[wire.text_of(attribute, 1)] = field.value
    return plain


def _weight(wire: WireFormat, tensor: Field, external_files: set[str]) -> str:
    """A TensorProto's name; the file that holds its data, if another one does, is added."""
    name = ""
    for field in wire.fields(tensor):
        if field.tag == (8, LENGTH):
            name = wire.text(field)
        elif field.tag == (13, LENGTH) and wire.text_of(field, 1) == "location":
            external_files.add(wire.text_of(field, 2))
    return name


def _tensor(wire: WireFormat, value_info: Field) -> GraphTensor:
    """A ValueInfoProto."""
    name, kind, element = "", "value of unknown type", 0
    sizes: list[tuple[int, str]] | None = None
    for field in wire.fields(value_info):
        if field.tag == (1, LENGTH):
            name = wire.text(field)
        elif field.tag == (2, LENGTH):
            for choice in wire.fields(field):
                number, wire_type = choice.tag
                if wire_type == LENGTH and number in _KINDS:
                    kind = _KINDS[number]
                    if number == 1:
                        element, sizes = _tensor_type(wire, choice)
    datatype = ELEMENT_TYPES.get(element)
    type_name = datatype.config_name if datatype else _OTHER_TYPES.get(element, f"type {element}")
    return GraphTensor(
        name=name,
        kind=kind,
        datatype=datatype,
        type_name=type_name,
        shape=None if sizes is None else tuple(size for size, _ in sizes),
        symbols=() if sizes is None else tuple(symbol for _, symbol in sizes),
    )


def _tensor_type(wire: WireFormat, tensor_type: Field) -> tuple[int, list[tuple[int, str]] | None]:
    """A TypeProto.Tensor: its element type, and size and symbol of each dimension."""
    element = 0
    sizes: list[tuple[int, str]] | None = None
    for field in wire.fields(tensor_type):
        if field.tag == (1, VARINT):
            element = field.value
        elif field.tag == (2, LENGTH):
            sizes = [_dimension(wire, dimension) for dimension in wire.parts(field, 1)]
    return element, sizes


def _dimension(wire: WireFormat, dimension: Field) -> tuple[int, str]:
    """A TensorShapeProto.Dimension; without a value, or with a negative one, any size is allowed."""
    size, symbol = -1, ""
    for field in wire.fields(dimension):
        if field.tag == (1, VARINT):
            size, symbol = (field.value if field.value <= _INT64_MAX else -1), ""
        elif field.tag == (2, LENGTH):
            size, symbol = -1, wire.text(field)
    return size, symbol
