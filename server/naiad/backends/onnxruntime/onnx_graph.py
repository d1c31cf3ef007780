"""The inputs and outputs of an ONNX file, read without a framework and without its weights.

Importing onnxruntime costs 40 MB and making a session reads every weight; to check a config, names, types and
shapes are enough. So the protobuf wire format is walked over a memory map: a field that is not needed is stepped
over by its length, whatever it weighs. (Parsing by protobuf or by the package `onnx` would read and copy all weights, and ends at 2 GB.)

Nothing in the file is trusted: every length is checked against what encloses it, nothing recurses, and the number of fields and the
length of texts are bounded.

Field numbers are those of onnx.proto (ModelProto, GraphProto, ValueInfoProto, TypeProto, TensorProto).
"""

import collections.abc
import errno
import mmap
import pathlib
import typing

import msgspec

from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.core.file_kind import special_kind
from naiad.core.record import Record

MAX_FIELDS = 10_000_000
"""A graph of 100,000 nodes has about 200,000; walking this many takes some seconds."""
MAX_TEXT = 1 << 20
"""Bytes of a text."""

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


class OnnxGraph(Signature, frozen=True, kw_only=True):
    """What is read of an ONNX file: its signature and where else its weights are.

    Attributes:
        external_files: files beside the model that hold weights, as the model names them.
    """

    external_files: frozenset[str]


_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5

_Found = typing.TypeVar("_Found")


class _MalformedError(Exception):
    """What is wrong with the bytes; completes a sentence that begins with the file's name."""


class _Field(Record, frozen=True):
    """A field on the wire: its number and wire type, a number's value, or where a length-delimited field's bytes lie."""

    tag: tuple[int, int]
    value: int
    start: int
    end: int


class _Wire:
    """Protobuf's wire format over mapped bytes."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._fields_left = MAX_FIELDS

    def whole(self) -> _Field:
        """The file as if it were a field that holds the outermost message."""
        return _Field((0, _LENGTH), len(self._data), 0, len(self._data))

    def fields(self, message: _Field) -> collections.abc.Iterator[_Field]:
        """The fields of the message that `message` holds."""
        at, end = message.start, message.end
        while at < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise _MalformedError(f"has more than {MAX_FIELDS} fields: it is not an ONNX model")
            tag, at = self._varint(at, end)
            number, wire_type = tag >> 3, tag & 7
            value = begin = 0
            if wire_type == _LENGTH:
                value, begin = self._varint(at, end)
                at = begin + value
            elif wire_type == _VARINT:
                value, at = self._varint(at, end)
            elif wire_type == _FIXED32:
                at += 4
            elif wire_type == _FIXED64:
                at += 8
            else:
                number = 0
            if number == 0:
                raise _MalformedError("is not an ONNX model")
            if at > end:
                raise _MalformedError(self._ended(end))
            yield _Field((number, wire_type), value, begin, at)

    def parts(self, message: _Field, number: int) -> collections.abc.Iterator[_Field]:
        """The length-delimited fields with this number."""
        for part in self.fields(message):
            if part.tag == (number, _LENGTH):
                yield part

    def text(self, field: _Field) -> str:
        """A string field."""
        if field.end - field.start > MAX_TEXT:
            raise _MalformedError(f"holds a name of more than {MAX_TEXT} bytes")
        return self._data[field.start : field.end].decode("utf-8", "replace")

    def text_of(self, message: _Field, number: int) -> str:
        """The last string with this number, as protobuf has it, or ""."""
        text = ""
        for part in self.parts(message, number):
            text = self.text(part)
        return text

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        """The number at `at` and the position after it."""
        data = self._data
        value = shift = 0
        while at < end and shift < 70:  # noqa: PLR2004 - ten groups of seven bits hold 64 bits
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the continuation bit
                return value & 0xFFFF_FFFF_FFFF_FFFF, at
            shift += 7
        raise _MalformedError(self._ended(end) if at >= end else "is not an ONNX model")

    def _ended(self, end: int) -> str:
        """Running out of bytes at the end of the file is a partial copy; elsewhere it is another format."""
        size = len(self._data)
        if end == size:
            return f"is cut off after {size} bytes, or is not an ONNX model: copy it again"
        return "is not an ONNX model"


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


def _walk(path: pathlib.Path, visit: collections.abc.Callable[["_Wire"], _Found]) -> _Found:
    """What `visit` finds in a model file."""
    try:
        if kind := special_kind(path):
            raise OnnxFileError(f"'{path}' is {kind}, and not a file: copy the model there")
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
            return visit(_Wire(data))
        except _MalformedError as error:
            raise OnnxFileError(f"'{path}' {error}") from None


def _model(wire: _Wire) -> OnnxGraph:
    *_, graph = (None, *wire.parts(wire.whole(), 7))
    if graph is None:
        raise _MalformedError("holds no graph: it is not an ONNX model, or its copy ended early")
    listed: list[GraphTensor] = []
    outputs: list[GraphTensor] = []
    initializers: set[str] = set()
    external_files: set[str] = set()
    for field in wire.fields(graph):
        if field.tag == (5, _LENGTH):
            initializers.add(_weight(wire, field, external_files))
        elif field.tag == (15, _LENGTH):
            for values in wire.parts(field, 1):
                initializers.add(_weight(wire, values, external_files))
        elif field.tag == (11, _LENGTH):
            listed.append(_tensor(wire, field))
        elif field.tag == (12, _LENGTH):
            outputs.append(_tensor(wire, field))
    return OnnxGraph(
        inputs=tuple(tensor for tensor in listed if tensor.name not in initializers),
        overridable=tuple(tensor for tensor in listed if tensor.name in initializers),
        outputs=tuple(outputs),
        external_files=frozenset(external_files),
    )


def _operators(wire: _Wire) -> collections.abc.Iterator[str]:
    """The operator of each node, those of subgraphs and functions included."""
    return (operator for operator, _ in _nodes(wire))


def _nodes(wire: _Wire) -> collections.abc.Iterator[tuple[str, list[_Field]]]:
    """The operator and the attributes of each node, those of subgraphs and functions included."""
    model = wire.whole()
    # What holds nodes, each with the field's number: a graph in field 1, a function in field 7.
    holders = [(graph, 1) for graph in wire.parts(model, 7)]
    holders += [(function, 7) for function in wire.parts(model, 25)]
    while holders:
        holder, number = holders.pop()
        for node in wire.parts(holder, number):
            operator, attributes = "", list[_Field]()
            for field in wire.fields(node):
                if field.tag == (4, _LENGTH):
                    operator = wire.text(field)
                elif field.tag == (5, _LENGTH):  # an attribute, which may hold graphs
                    attributes.append(field)
                    holders += [
                        (part, 1)
                        for part in wire.fields(field)
                        if part.tag in {(6, _LENGTH), (11, _LENGTH)}
                    ]
            yield operator, attributes


def _plain_attributes(wire: _Wire, attributes: list[_Field]) -> dict[str, str | int]:
    """Those that are a text or an integer, by name; of a list of texts the last one."""
    plain: dict[str, str | int] = {}
    for attribute in attributes:
        for field in wire.fields(attribute):
            if field.tag in {(4, _LENGTH), (9, _LENGTH)}:
                plain[wire.text_of(attribute, 1)] = wire.text(field)
            elif field.tag == (3, _VARINT):
                plain[wire.text_of(attribute, 1)] = field.value
    return plain


def _weight(wire: _Wire, tensor: _Field, external_files: set[str]) -> str:
    """A TensorProto's name; the file that holds its data, if another one does, is added."""
    name = ""
    for field in wire.fields(tensor):
        if field.tag == (8, _LENGTH):
            name = wire.text(field)
        elif field.tag == (13, _LENGTH) and wire.text_of(field, 1) == "location":
            external_files.add(wire.text_of(field, 2))
    return name


def _tensor(wire: _Wire, value_info: _Field) -> GraphTensor:
    """A ValueInfoProto."""
    name, kind, element = "", "value of unknown type", 0
    sizes: list[tuple[int, str]] | None = None
    for field in wire.fields(value_info):
        if field.tag == (1, _LENGTH):
            name = wire.text(field)
        elif field.tag == (2, _LENGTH):
            for choice in wire.fields(field):
                number, wire_type = choice.tag
                if wire_type == _LENGTH and number in _KINDS:
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


def _tensor_type(wire: _Wire, tensor_type: _Field) -> tuple[int, list[tuple[int, str]] | None]:
    """A TypeProto.Tensor: its element type, and size and symbol of each dimension."""
    element = 0
    sizes: list[tuple[int, str]] | None = None
    for field in wire.fields(tensor_type):
        if field.tag == (1, _VARINT):
            element = field.value
        elif field.tag == (2, _LENGTH):
            sizes = [_dimension(wire, dimension) for dimension in wire.parts(field, 1)]
    return element, sizes


def _dimension(wire: _Wire, dimension: _Field) -> tuple[int, str]:
    """A TensorShapeProto.Dimension; without a value, or with a negative one, any size is allowed."""
    size, symbol = -1, ""
    for field in wire.fields(dimension):
        if field.tag == (1, _VARINT):
            size, symbol = (field.value if field.value <= _INT64_MAX else -1), ""
        elif field.tag == (2, _LENGTH):
            size, symbol = -1, wire.text(field)
    return size, symbol
