"""The signatures of a SavedModel and the nodes of a GraphDef, read without TensorFlow and without their weights (`wire_format`).

Field numbers are those of saved_model.proto, meta_graph.proto, graph.proto and tensor_shape.proto.
"""

import collections.abc
import pathlib

import msgspec

from naiad.backends.model_files.signature import GraphTensor, Signature
from naiad.backends.model_files.wire_format import (
    LENGTH,
    VARINT,
    Field,
    ModelFileError,
    WireFormat,
    walk,
)
from naiad.core import datatypes
from naiad.core.datatypes import DataType

DEFAULT_TAG = "serve"
DEFAULT_SIGNATURE = "serving_default"

FILE = "saved_model.pb"

_NOT_FOR_SERVING = frozenset(("__saved_model_init_op", "__saved_model_train_op"))

ELEMENT_TYPES: collections.abc.Mapping[int, DataType] = {
    1: datatypes.FP32,
    2: datatypes.FP64,
    3: datatypes.INT32,
    4: datatypes.UINT8,
    5: datatypes.INT16,
    6: datatypes.INT8,
    7: datatypes.BYTES,
    9: datatypes.INT64,
    10: datatypes.BOOL,
    14: datatypes.BF16,
    17: datatypes.UINT16,
    19: datatypes.FP16,
    22: datatypes.UINT32,
    23: datatypes.UINT64,
}
"""tensorflow.DataType to ours; the others (complex, quantized, resources …) cannot be served."""

_OTHER_TYPES = {
    8: "DT_COMPLEX64", 11: "DT_QINT8", 12: "DT_QUINT8", 13: "DT_QINT32", 15: "DT_QINT16", 16: "DT_QUINT16", 18: "DT_COMPLEX128",
    20: "DT_RESOURCE", 21: "DT_VARIANT",
}  # fmt: skip

_INT64_MAX = (1 << 63) - 1


class ServedSignature(Signature, frozen=True, kw_only=True):
    """A signature of a SavedModel.

    Attributes:
        key: its name.
        tags: of its graph.
        inputs_in_graph: the name of each input in the graph, by its name in the signature.
        outputs_in_graph: that of each output.
    """

    key: str
    tags: frozenset[str]
    inputs_in_graph: collections.abc.Mapping[str, str]
    outputs_in_graph: collections.abc.Mapping[str, str]


class Placeholder(msgspec.Struct, frozen=True):
    """A node of a GraphDef that is given a value.

    Attributes:
        type_name: its datatype as the config writes it, or else in TensorFlow's words; "" if the file does not say it.
        shape: -1 for any size; None if the file does not say it.
    """

    type_name: str = ""
    shape: tuple[int, ...] | None = None


class GraphNodes(msgspec.Struct, frozen=True):
    """The nodes of a GraphDef: placeholders may be inputs, all others outputs."""

    placeholders: collections.abc.Mapping[str, Placeholder]
    others: frozenset[str]


def read_signature(folder: pathlib.Path, *, tag: str = "", signature: str = "") -> ServedSignature:
    """The signature of a SavedModel that a config names, or the one that is served where it names none.

    Raises:
        ModelFileError: there is no such file, it is not a whole SavedModel, or it has no such tag or signature; lists those that it has.
    """
    graphs = walk(folder / FILE, _graphs, what="a SavedModel of TensorFlow")
    wanted = tag or DEFAULT_TAG
    fitting = [found for found in graphs if any(wanted in each.tags for each in found)]
    if not fitting:
        known = sorted({" ".join(sorted(each.tags)) for found in graphs for each in found})
        raise ModelFileError(
            f"expected '{wanted}' tag; '{folder}' has {', '.join(known) or 'none'}: write the parameter TF_GRAPH_TAG"
        )
    by_key = {each.key: each for each in fitting[0]}
    key = signature or DEFAULT_SIGNATURE
    if not signature and key not in by_key:
        key = next((each for each in sorted(by_key) if each not in _NOT_FOR_SERVING), key)
    if key not in by_key:
        raise ModelFileError(
            f"expected '{key}' signature; '{folder}' has {', '.join(sorted(by_key)) or 'none'}: write the parameter TF_SIGNATURE_DEF"
        )
    return by_key[key]


def read_nodes(path: pathlib.Path, *, model: str) -> GraphNodes:
    """The nodes of a GraphDef.

    Raises:
        ModelFileError: there is no such file, it is not a whole GraphDef, or it has no nodes.
    """
    nodes = walk(path, _nodes, what="a GraphDef of TensorFlow")
    if not nodes.placeholders and not nodes.others:
        raise ModelFileError(f"model {model} has an empty network")
    return nodes


def _graphs(wire: WireFormat) -> list[list[ServedSignature]]:
    """The signatures of each graph, which share its tags."""
    return [_signatures(wire, graph) for graph in wire.parts(wire.whole(), 2)]


def _signatures(wire: WireFormat, graph: Field) -> list[ServedSignature]:
    tags = frozenset(wire.text(tag) for info in wire.parts(graph, 1) for tag in wire.parts(info, 4))
    found: list[ServedSignature] = []
    for entry in wire.parts(graph, 5):
        inputs: dict[str, tuple[str, GraphTensor]] = {}
        outputs: dict[str, tuple[str, GraphTensor]] = {}
        for definition in wire.parts(entry, 2):
            for number, tensors in ((1, inputs), (2, outputs)):
                for each in wire.parts(definition, number):
                    name = wire.text_of(each, 1)
                    for info in wire.parts(each, 2):
                        tensors[name] = _tensor(wire, name, info)
        found.append(
            ServedSignature(
                key=wire.text_of(entry, 1),
                tags=tags,
                inputs=tuple(tensor for _, tensor in map(inputs.__getitem__, sorted(inputs))),
                overridable=(),
                outputs=tuple(tensor for _, tensor in map(outputs.__getitem__, sorted(outputs))),
                inputs_in_graph={name: there for name, (there, _) in inputs.items()},
                outputs_in_graph={name: there for name, (there, _) in outputs.items()},
            )
        )
    return found or [
        ServedSignature(
            key="",
            tags=tags,
            inputs=(),
            overridable=(),
            outputs=(),
            inputs_in_graph={},
            outputs_in_graph={},
        )
    ]


def _tensor(wire: WireFormat, name: str, info: Field) -> tuple[str, GraphTensor]:
    """A TensorInfo: the tensor's name in the graph, and what is known of it. A scalar is taken for a tensor of unknown rank, as in Triton."""
    there, element, kind = "", 0, "sparse tensor"
    sizes: list[int] | None = None
    for field in wire.fields(info):
        if field.tag == (1, LENGTH):
            there, kind = wire.text(field), "tensor"
        elif field.tag == (2, VARINT):
            element = field.value
        elif field.tag == (3, LENGTH):
            sizes = [_size(wire, dimension) for dimension in wire.parts(field, 2)]
    datatype = ELEMENT_TYPES.get(element)
    return there, GraphTensor(
        name=name,
        kind=kind,
        datatype=datatype,
        type_name=_type_name(element),
        shape=tuple(sizes) if sizes else None,
        symbols=("",) * len(sizes or ()),
    )


def _size(wire: WireFormat, dimension: Field) -> int:
    """The size of a dimension; -1 for any."""
    size = 0
    for field in wire.fields(dimension):
        if field.tag == (1, VARINT):
            size = field.value if field.value <= _INT64_MAX else -1
    return size


def _nodes(wire: WireFormat) -> GraphNodes:
    placeholders: dict[str, Placeholder] = {}
    others: set[str] = set()
    for node in wire.parts(wire.whole(), 1):
        name = operator = ""
        attributes: dict[str, Field] = {}
        for field in wire.fields(node):
            if field.tag == (1, LENGTH):
                name = wire.text(field)
            elif field.tag == (2, LENGTH):
                operator = wire.text(field)
            elif field.tag == (5, LENGTH) and operator == "Placeholder":
                attributes[wire.text_of(field, 1)] = field
        if operator == "Placeholder":
            placeholders[name] = Placeholder(_datatype(wire, attributes), _shape(wire, attributes))
        else:
            others.add(name)
    return GraphNodes(placeholders, frozenset(others))


def _datatype(wire: WireFormat, attributes: dict[str, Field]) -> str:
    """The datatype in the attribute `dtype` of a node; "" if it has none."""
    for field in _values(wire, attributes, "dtype"):
        if field.tag == (6, VARINT) and field.value:
            return _type_name(field.value)
    return ""


def _shape(wire: WireFormat, attributes: dict[str, Field]) -> tuple[int, ...] | None:
    """The shape in the attribute `shape` of a node; None if it has none, or one of any rank, for which TensorFlow takes that of a scalar, too."""
    for field in _values(wire, attributes, "shape"):
        if field.tag == (7, LENGTH):
            if any(each.tag == (3, VARINT) and each.value for each in wire.fields(field)):
                return None
            return tuple(_size(wire, dimension) for dimension in wire.parts(field, 2)) or None
    return None


def _values(
    wire: WireFormat, attributes: dict[str, Field], name: str
) -> collections.abc.Iterator[Field]:
    """The fields of the value of an attribute."""
    if name in attributes:
        for value in wire.parts(attributes[name], 2):
            yield from wire.fields(value)


def _type_name(element: int) -> str:
    datatype = ELEMENT_TYPES.get(element)
    return datatype.config_name if datatype else _OTHER_TYPES.get(element, f"type {element}")
