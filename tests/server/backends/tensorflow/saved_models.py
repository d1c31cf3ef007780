"""SavedModels and GraphDefs by their structure alone, written without TensorFlow: fields of protobuf by number."""

import pathlib
from collections.abc import Mapping, Sequence

Shape = Sequence[int] | None
FLOAT, INT64, STRING, COMPLEX64 = 1, 9, 7, 8


def number(field: int, value: int) -> bytes:
    """A field of varint type."""
    return varint(field << 3) + varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def part(field: int, content: bytes | str) -> bytes:
    """A field of a length-delimited type."""
    data = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(data)) + data


def tensor(name: str, element: int, shape: Shape) -> bytes:
    """A TensorInfo; a shape of None is an unknown rank."""
    dims = number(3, 1) if shape is None else b"".join(part(2, number(1, size)) for size in shape)
    return part(1, name) + number(2, element) + part(3, dims)


def signature(inputs: Mapping[str, bytes], outputs: Mapping[str, bytes]) -> bytes:
    """A SignatureDef."""
    return b"".join(
        part(field, part(1, name) + part(2, info))
        for field, tensors in ((1, inputs), (2, outputs))
        for name, info in tensors.items()
    )


def saved_model(
    path: pathlib.Path, signatures: Mapping[str, bytes], *, tags: Sequence[str] = ("serve",)
) -> pathlib.Path:
    """Write a SavedModel with one graph into a folder."""
    path.mkdir(parents=True, exist_ok=True)
    info = part(1, b"".join(part(4, tag) for tag in tags))
    graph = info + b"".join(
        part(5, part(1, key) + part(2, definition)) for key, definition in signatures.items()
    )
    (path / "saved_model.pb").write_bytes(number(1, 1) + part(2, graph))
    return path


def graph_def(
    path: pathlib.Path, nodes: Mapping[str, str], datatypes: Mapping[str, int] | None = None
) -> pathlib.Path:
    """Write a GraphDef with nodes of these operators, some with TensorFlow's number of a datatype."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"".join(
            part(1, part(1, name) + part(2, operator) + _dtype((datatypes or {}).get(name)))
            for name, operator in nodes.items()
        )
    )
    return path


def _dtype(number: int | None) -> bytes:
    """The attribute of a node; none without a number."""
    if number is None:
        return b""
    return part(5, part(1, "dtype") + part(2, varint(6 << 3) + varint(number)))


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)
