"""What a .pt2 archive says of a program's inputs and results, read from the JSON in it without torch.

Its form is that of `torch/_export/serde/schema.py`: the graph with the tensors that it computes, and the signature that says which of them are the
user's.
"""

import pathlib
import re
import zipfile
from typing import Any

import msgspec

from naiad.backends.pytorch.io_check import Described, Known, Other
from naiad.backends.pytorch.storages import UNREADABLE

_MOST = 1 << 26
"""Bytes of the JSON that are read."""

_OLD_NAME = "serialized_exported_program.json"

_SYMBOL = re.compile(r"Symbol\('(\w+)'[^()]*\)$")

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
                whole = msgspec.json.decode(file.read(_MOST))
        return _described(whole["graph_module"], whole.get("range_constraints") or {})
    except (*UNREADABLE, TypeError, AttributeError, StopIteration, msgspec.DecodeError):
        return None


def _is_program(name: str) -> bool:
    inside = name.partition("/")[2]
    return name == _OLD_NAME or (inside.startswith("models/") and inside.endswith(".json"))


def _described(program: dict[str, Any], ranges: dict[str, Any]) -> Described:
    values = program["graph"]["tensor_values"]
    signature = program["signature"]
    whole = next(each for each in program["module_call_graph"] if not each["fqn"])["signature"]
    return Described(
        in_spec=whole["in_spec"],
        out_spec=whole["out_spec"],
        inputs=_tensors(signature["input_specs"], values, ranges),
        outputs=_tensors(signature["output_specs"], values, ranges),
    )


def _tensors(
    specs: list[dict[str, Any]], values: dict[str, Any], ranges: dict[str, Any]
) -> tuple[Known | Other | None, ...]:
    """The user's among them: weights and buffers are not."""
    found: list[Known | Other | None] = []
    for spec in specs:
        (kind, what), *_ = spec.items()
        if kind == "constant_input":
            found.append(Other(_text(what["value"])))
        elif kind in ("user_input", "user_output"):
            tensor = what["arg"].get("as_tensor")
            found.append(
                Other(_text(what["arg"]))
                if tensor is None
                else _known(values.get(tensor["name"]), ranges)
            )
    return tuple(found)


def _text(argument: dict[str, Any]) -> str:
    """The value of what is not a tensor, or else its kind, such as "sym_int"."""
    (kind, value), *_ = argument.items()
    if kind == "as_none":
        return "None"
    return str(value) if isinstance(value, (bool, int, float, str)) else kind.removeprefix("as_")


def _known(value: dict[str, Any] | None, ranges: dict[str, Any]) -> Known | None:
    if value is None or value["dtype"] not in _DATATYPES:
        return None
    sizes = value["sizes"]
    return Known(
        _DATATYPES[value["dtype"]],
        tuple(size.get("as_int", -1) for size in sizes),
        _most(sizes[0], ranges) if sizes else None,
    )


def _most(size: dict[str, Any], ranges: dict[str, Any]) -> int | None:
    """The largest value of a size that is one symbol of its own; None where there is none, or where it is computed of symbols."""
    symbol = _SYMBOL.match((size.get("as_expr") or {}).get("expr_str", ""))
    found = (ranges.get(symbol[1]) or {}).get("max_val") if symbol else None
    return found if isinstance(found, int) else None
