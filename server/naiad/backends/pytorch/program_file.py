"""What a .pt2 archive says of a program's inputs and results, read from the JSON in it without torch.

Its form is that of `torch/_export/serde/schema.py`: the graph with the tensors that it computes, and the signature that says which of them are the
user's.
"""

import pathlib
import zipfile
from typing import Any

import msgspec

from naiad.backends.pytorch.io_check import Described, Known
from naiad.backends.pytorch.storages import UNREADABLE

_MOST = 1 << 26
"""Bytes of the JSON that are read."""

_OLD_NAME = "serialized_exported_program.json"

_DATATYPES = {
    1: "TYPE_UINT8", 2: "TYPE_INT8", 3: "TYPE_INT16", 4: "TYPE_INT32", 5: "TYPE_INT64", 6: "TYPE_FP16", 7: "TYPE_FP32", 8: "TYPE_FP64", 12: "TYPE_BOOL",
    13: "TYPE_BF16",
}  # fmt: skip


def read(path: pathlib.Path) -> Described | None:
    """What the archive says; None where it does not show it, as that of a compiled package. Any other fault of the file is for the load to find."""
    try:
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if _is_program(name))
            with archive.open(name) as file:
                program = msgspec.json.decode(file.read(_MOST))["graph_module"]
        return _described(program)
    except (*UNREADABLE, TypeError, AttributeError, StopIteration, msgspec.DecodeError):
        return None


def _is_program(name: str) -> bool:
    inside = name.partition("/")[2]
    return name == _OLD_NAME or (inside.startswith("models/") and inside.endswith(".json"))


def _described(program: dict[str, Any]) -> Described:
    values = program["graph"]["tensor_values"]
    signature = program["signature"]
    whole = next(each for each in program["module_call_graph"] if not each["fqn"])["signature"]
    return Described(
        in_spec=whole["in_spec"],
        out_spec=whole["out_spec"],
        inputs=_tensors(signature["input_specs"], "user_input", values),
        outputs=_tensors(signature["output_specs"], "user_output", values),
    )


def _tensors(
    specs: list[dict[str, Any]], kind: str, values: dict[str, Any]
) -> tuple[Known | None, ...]:
    arguments = [spec[kind]["arg"] for spec in specs if kind in spec]
    return tuple(
        _known(values.get((each.get("as_tensor") or {}).get("name", ""))) for each in arguments
    )


def _known(value: dict[str, Any] | None) -> Known | None:
    if value is None or value["dtype"] not in _DATATYPES:
        return None
    return Known(
        _DATATYPES[value["dtype"]],
        tuple(size.get("as_int", -1) for size in value["sizes"]),
    )
