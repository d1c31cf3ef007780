"""Reads NetDef files: protobuf's wire format, walked over a memory map (`wire_format`), so that no length in a file is trusted.

Field numbers are those of caffe2.proto (NetDef, OperatorDef, Argument). Weights are lists of floats that are not packed, a tag before each value: a run of
them is cut out at once.
"""

import pathlib
import struct

import numpy as np

from naiad.backends.caffe2.net import Argument, Net, NetDefError, Operator
from naiad.backends.model_files.wire_format import (
    FIXED32,
    FIXED32_ENTRY,
    LENGTH,
    VARINT,
    Field,
    MalformedError,
    WireFormat,
    walk,
)

_MAX_FILE = (1 << 31) - 1
"""Bytes of a file: protobuf, with which Caffe2 reads and writes them, ends there."""

_INT64_SIGN = 1 << 63

_OF_A_NET = frozenset(((1, LENGTH), (3, LENGTH), (7, LENGTH), (8, LENGTH)))
"""Fields of NetDef that a net without operators may have: its name, its type, and the blobs that go in and out."""

_FLOATS = 5
"""The field of Argument that holds a list of floats."""


def read(path: pathlib.Path, *, weights: bool = False) -> Net:
    """Read a net; an init net, with the `weights`, has no operators where the model has no weights.

    Raises:
        NetDefError: the file is missing, empty, too large, cut off, or no NetDef.
    """
    net = walk(path, lambda wire: _net(wire, path), what="a NetDef of Caffe2", error=NetDefError)
    if not net.operators and not (weights and net.known):
        raise NetDefError(f"'{path}' has no operators: it is not a NetDef of Caffe2")
    return net


def _net(wire: WireFormat, path: pathlib.Path) -> Net:
    whole = wire.whole()
    if whole.end > _MAX_FILE:
        raise MalformedError(f"has {whole.end} bytes, and a NetDef has at most {_MAX_FILE}")
    operators: list[Operator] = []
    inputs: list[str] = []
    outputs: list[str] = []
    known = False
    for field in wire.fields(whole):
        known = known or field.tag in _OF_A_NET
        if field.tag == (2, LENGTH):
            where = f"operator {len(operators)} of {path.name}"
            operators.append(_operator(wire, field, where))
        elif field.tag == (7, LENGTH):
            inputs.append(wire.text(field))
        elif field.tag == (8, LENGTH):
            outputs.append(wire.text(field))
    return Net(
        path=path,
        operators=tuple(operators),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        known=known,
    )


def _operator(wire: WireFormat, message: Field, where: str) -> Operator:
    kind = ""
    inputs: list[str] = []
    outputs: list[str] = []
    arguments: dict[str, Argument] = {}
    for field in wire.fields(message):
        if field.tag == (1, LENGTH):
            inputs.append(wire.text(field))
        elif field.tag == (2, LENGTH):
            outputs.append(wire.text(field))
        elif field.tag == (4, LENGTH):
            kind = wire.text(field)
        elif field.tag == (5, LENGTH):
            name, argument = _argument(wire, field)
            arguments[name] = argument
    return Operator(
        where=where,
        type=kind,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        arguments=arguments,
    )


def _argument(wire: WireFormat, message: Field) -> tuple[str, Argument]:  # noqa: C901 - a field each
    name, argument = "", Argument()
    floats: list[bytes] = []
    for field in wire.fields(message, run_of=_FLOATS):
        if field.tag == (1, LENGTH):
            name = wire.text(field)
        elif field.tag == (2, FIXED32):
            (argument.f,) = struct.unpack("<f", wire.content(field))
        elif field.tag == (3, VARINT):
            argument.i = _signed(field.value)
        elif field.tag == (4, LENGTH):
            argument.s = wire.content(field)
        elif field.tag == (_FLOATS, FIXED32):
            with wire.view(field) as run:
                floats.append(_without_tags(run))
        elif field.tag == (_FLOATS, LENGTH):  # packed
            floats.append(wire.content(field))
        elif field.tag == (6, VARINT):
            argument.ints.append(_signed(field.value))
        elif field.tag == (6, LENGTH):  # packed
            argument.ints += map(_signed, wire.varints(field))
        elif field.tag == (7, LENGTH):
            argument.strings.append(wire.content(field))
    argument.floats = floats[0] if len(floats) == 1 else b"".join(floats)
    return name, argument


def _without_tags(run: memoryview) -> bytes:
    """The values of a run of floats."""
    return np.frombuffer(run, np.uint8).reshape(-1, FIXED32_ENTRY)[:, 1:].tobytes()


def _signed(value: int) -> int:
    return value - 2 * _INT64_SIGN if value & _INT64_SIGN else value
