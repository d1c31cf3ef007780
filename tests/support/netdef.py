"""NetDef files for tests, written by protobuf itself: its messages with the field numbers of caffe2.proto."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FLOAT, _INT64, _TEXT, _BYTES, _MESSAGE = 2, 3, 9, 12, 11
_ONE, _MANY = 1, 3

_MESSAGES: dict[str, list[tuple[str, int, int, int, str]]] = {
    "Argument": [
        ("name", 1, _TEXT, _ONE, ""),
        ("f", 2, _FLOAT, _ONE, ""),
        ("i", 3, _INT64, _ONE, ""),
        ("s", 4, _BYTES, _ONE, ""),
        ("floats", 5, _FLOAT, _MANY, ""),
        ("ints", 6, _INT64, _MANY, ""),
        ("strings", 7, _BYTES, _MANY, ""),
    ],
    "OperatorDef": [
        ("input", 1, _TEXT, _MANY, ""),
        ("output", 2, _TEXT, _MANY, ""),
        ("name", 3, _TEXT, _ONE, ""),
        ("type", 4, _TEXT, _ONE, ""),
        ("arg", 5, _MESSAGE, _MANY, ".net.Argument"),
        ("engine", 7, _TEXT, _ONE, ""),
    ],
    "NetDef": [
        ("name", 1, _TEXT, _ONE, ""),
        ("op", 2, _MESSAGE, _MANY, ".net.OperatorDef"),
        ("type", 3, _TEXT, _ONE, ""),
        ("arg", 6, _MESSAGE, _MANY, ".net.Argument"),
        ("external_input", 7, _TEXT, _MANY, ""),
        ("external_output", 8, _TEXT, _MANY, ""),
    ],
}


def _net_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="net.proto", package="net", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label, other in fields:
            message.field.add(
                name=field, number=number, type=kind, label=label, type_name=other or None
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("net.NetDef"))


_Net = _net_class()

Op = tuple[str, Sequence[str], Sequence[str], Mapping[str, Any]]
"""An operator: type, inputs, outputs, arguments."""


def net(ops: Sequence[Op], inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> bytes:
    """A NetDef."""
    message = _Net(name="net", external_input=inputs, external_output=outputs)
    for kind, ins, outs, arguments in ops:
        operator = message.op.add(type=kind, input=ins, output=outs)
        for name, value in arguments.items():
            _set(operator.arg.add(name=name), value)
    content: bytes = message.SerializeToString()
    return content


def weights(arrays: Mapping[str, Any]) -> list[Op]:
    """Operators of an init net that make these blobs."""
    kinds = {"float32": "", "int32": "Int", "int64": "Int64", "bool": "Bool", "float64": "Double"}
    made: list[Op] = []
    for name, given in arrays.items():
        array = np.asarray(given)
        values = array.reshape(-1).tolist()
        if array.dtype.kind == "b":
            values = [int(each) for each in values]
        arguments = {"shape": list(array.shape), "values": values}
        made.append((f"GivenTensor{kinds[array.dtype.name]}Fill", (), (name,), arguments))
    return made


def write(
    folder: pathlib.Path,
    ops: Sequence[Op],
    inputs: Sequence[str],
    outputs: Sequence[str],
    blobs: Mapping[str, Any] | None = None,
    *,
    init: Sequence[Op] = (),
) -> pathlib.Path:
    """Write `model.netdef` and `init_model.netdef`; gives the path of the first."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = blobs or {}
    path = folder / "model.netdef"
    path.write_bytes(net(ops, [*inputs, *arrays], outputs))
    fills = [*weights(arrays), *init] or [("ConstantFill", (), ("unused",), {"shape": [1]})]
    (folder / "init_model.netdef").write_bytes(net(fills))
    return path


def _set(argument: Any, value: Any) -> None:
    match value:
        case bool() | int():
            argument.i = int(value)
        case float():
            argument.f = value
        case str():
            argument.s = value.encode()
        case [float(), *_]:
            argument.floats.extend(value)
        case [bytes(), *_]:
            argument.strings.extend(value)
        case _:
            argument.ints.extend(value)
