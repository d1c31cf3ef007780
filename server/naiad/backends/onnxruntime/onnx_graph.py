"""The inputs and outputs of an ONNX file, read without a framework and without its weights.

Importing onnxruntime costs 40 MB and making a session reads every weight; to check a config, names, types and
shapes are enough. So the protobuf wire format is walked over a memory map: a field that is not needed is stepped
over by its length, whatever it weighs (`wire_format`, which trusts nothing in the file).

Field numbers are those of onnx.proto (ModelProto, GraphProto, ValueInfoProto, TypeProto, TensorProto).
"""

import collections.abc
import errno
import mmap
import pathlib

import msgspec

from naiad.backends.onnxruntime.wire_format import LENGTH, MAX_TEXT, Field, MalformedError, Wire
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
_LFS_HEAD = b"version https://git-lfs"


class OnnxFileError(Exception):
    """The file is not a whole ONNX model; the message says in what way and what to do."""


class GraphTensor(msgspec.Struct, frozen=True, kw_only=True):
    """An input or output of the graph.

    Attributes:
        name: as in the graph.
        kind: "tensor", or what it is instead ("sequence", "map", …), which cannot be served.
        datatype: None when the element type is one that cannot be served.
        type_name: the element type in words, for messages.
        shape: -1 where any size is allowed; None when the graph does not say how many dimensions there are.
        symbols: for each dimension the name the graph gives a free one, or "".
    """

    name: str
    kind: str
    datatype: DataType | None
    type_name: str
    shape: tuple[int, ...] | None
    symbols: tuple[str, ...]

    @property
    def shape_text(self) -> str:
        """The shape as the graph writes it, e.g. "[N, 2048]"."""
        if self.shape is None:
            return "of unknown rank"
        sizes = (
            symbol or ("?" if size < 0 else str(size))
            for size, symbol in zip(self.shape, self.symbols, strict=True)
        )
        return f"[{', '.join(sizes)}]"


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """The tensors that a model takes and gives, as its file or a session describes them.

    Attributes:
        inputs: what a caller must give, in the graph's order; without the initialisers that are listed among the inputs.
        overridable: initialisers listed among the inputs: a caller may give them (row 16.3).
        outputs: in the graph's order.
    """

    inputs: tuple[GraphTensor, ...]
    overridable: tuple[GraphTensor, ...]
    outputs: tuple[GraphTensor, ...]

    def input(self, name: str) -> GraphTensor | None:
        """The input or overridable initialiser of that name."""
        given = (*self.inputs, *self.overridable)
        return next((tensor for tensor in given if tensor.name == name), None)


class OnnxGraph(Signature, frozen=True, kw_only=True):
    """What is read of an ONNX file: its signature and what it says of itself.

    Attributes:
        ir_version: of the file format.
        opset: of the default operator domain; 0 when the file names none.
        producer: who wrote it, e.g. "pytorch 2.5.1".
        metadata: the model's own properties.
        initializers: names of all weights of the graph.
        external_files: files beside the model that hold weights, as the model names them.
    """

    ir_version: int
    opset: int
    producer: str
    metadata: collections.abc.Mapping[str, str]
    initializers: frozenset[str]
    external_files: frozenset[str]


def read(path: pathlib.Path) -> OnnxGraph:
    """Read the outside of the ONNX model in `path`.

    Raises:
        OnnxFileError: the file is missing, empty, cut off, or no ONNX model.
    """
    try:
        with path.open("rb") as file:
            try:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:  # what mmap says of a file without a byte
                raise OnnxFileError(f"'{path}' is empty: copy the model again") from None
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise OnnxFileError(f"unable to find '{path}'") from error
        raise OnnxFileError(f"unable to read '{path}': {error.strerror}") from error
    with data:
        if data[: len(_LFS_HEAD)] == _LFS_HEAD:
            raise OnnxFileError(
                f"'{path}' is a Git LFS pointer, not the model itself: run `git lfs pull` in its checkout"
            )
        try:
            return _model(Wire(data))
        except MalformedError as error:
            raise OnnxFileError(f"'{path}' {error}") from None


def _model(wire: Wire) -> OnnxGraph:
    ir_version = opset = 0
    producer = ["", ""]
    metadata: dict[str, str] = {}
    graph: Field | None = None
    for field in wire.fields(wire.whole()):
        match field.number, field.wire_type:
            case 1, 0:
                ir_version = field.value
            case ((2 | 3), 2):
                producer[field.number - 2] = wire.text(field)
            case 7, 2:
                graph = field
            case 8, 2 if wire.text_of(field, 1) in {"", "ai.onnx"}:
                opset = wire.number_of(field, 2)
            case 14, 2 if field.end - field.start <= MAX_TEXT:
                metadata[wire.text_of(field, 1)] = wire.text_of(field, 2)
            case _:
                pass
    if graph is None:
        raise MalformedError("holds no graph: it is not an ONNX model, or its copy ended early")
    outside = _outside(wire, graph)
    return OnnxGraph(
        ir_version=ir_version,
        opset=opset,
        producer=" ".join(part for part in producer if part),
        metadata=metadata,
        inputs=tuple(item for item in outside.listed if item.name not in outside.initializers),
        overridable=tuple(item for item in outside.listed if item.name in outside.initializers),
        outputs=tuple(outside.outputs),
        initializers=frozenset(outside.initializers),
        external_files=frozenset(outside.external_files),
    )


class _Outside(msgspec.Struct):
    """A GraphProto's values as they are listed, before initialisers are taken out of the inputs."""

    listed: list[GraphTensor] = msgspec.field(default_factory=list)
    outputs: list[GraphTensor] = msgspec.field(default_factory=list)
    initializers: set[str] = msgspec.field(default_factory=set)
    external_files: set[str] = msgspec.field(default_factory=set)


def _outside(wire: Wire, graph: Field) -> _Outside:
    outside = _Outside()
    for field in wire.fields(graph):
        match field.number, field.wire_type:
            case 5, 2:
                outside.initializers.add(_weight(wire, field, outside.external_files))
            case 15, 2:
                for values in wire.parts(field, 1):
                    outside.initializers.add(_weight(wire, values, outside.external_files))
            case 11, 2:
                outside.listed.append(_tensor(wire, field))
            case 12, 2:
                outside.outputs.append(_tensor(wire, field))
            case _:
                pass
    return outside


def _weight(wire: Wire, tensor: Field, external_files: set[str]) -> str:
    """A TensorProto's name; the file that holds its data, if another one does, is added."""
    name = ""
    for field in wire.fields(tensor):
        match field.number, field.wire_type:
            case 8, 2:
                name = wire.text(field)
            case 13, 2 if wire.text_of(field, 1) == "location":
                external_files.add(wire.text_of(field, 2))
            case _:
                pass
    return name


def _tensor(wire: Wire, value_info: Field) -> GraphTensor:
    """A ValueInfoProto."""
    name, kind, element = "", "value of unknown type", 0
    sizes: list[tuple[int, str]] | None = None
    for field in wire.fields(value_info):
        match field.number, field.wire_type:
            case 1, 2:
                name = wire.text(field)
            case 2, 2:
                for choice in wire.fields(field):
                    if choice.wire_type == LENGTH and choice.number in _KINDS:
                        kind = _KINDS[choice.number]
                        if choice.number == 1:
                            element, sizes = _tensor_type(wire, choice)
            case _:
                pass
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


def _tensor_type(wire: Wire, tensor_type: Field) -> tuple[int, list[tuple[int, str]] | None]:
    """A TypeProto.Tensor: its element type, and size and symbol of each dimension."""
    element = 0
    sizes: list[tuple[int, str]] | None = None
    for field in wire.fields(tensor_type):
        match field.number, field.wire_type:
            case 1, 0:
                element = field.value
            case 2, 2:
                sizes = [_dimension(wire, dimension) for dimension in wire.parts(field, 1)]
            case _:
                pass
    return element, sizes


def _dimension(wire: Wire, dimension: Field) -> tuple[int, str]:
    """A TensorShapeProto.Dimension; without a value, or with a negative one, any size is allowed."""
    size, symbol = -1, ""
    for field in wire.fields(dimension):
        match field.number, field.wire_type:
            case 1, 0:
                size, symbol = (field.value if field.value <= _INT64_MAX else -1), ""
            case 2, 2:
                size, symbol = -1, wire.text(field)
            case _:
                pass
    return size, symbol
