r"""One value of a field, read as the field's type: numbers, true or false, names of an enum, texts with their escapes.

What is right is what the official text format takes (measured against protobuf 6.33), but for escapes, where Triton's own
C++ parser decides: it refuses an unknown one such as `\m`, so do we. A wrong value comes back with a guess where one
is clear, so that the rest of the config can still be validated.
"""

import collections.abc
import math
import re
from typing import Any

import msgspec
from google.protobuf.descriptor import FieldDescriptor

from naiad.config.pbtxt.unknown_names import meant_value


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading a value: None when not even a guess is possible. What is wrong is "" when all is well."""

    value: bool | int | float | str | None = None
    message: str = ""
    suggestion: str = ""


INTEGER_RANGES: collections.abc.Mapping[int, tuple[int, int]] = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
"""By type; ModelConfig uses no other integer type."""

_FLOATS = frozenset((FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT))
_BOOL, _STRING, _ENUM, _MESSAGE = (
    FieldDescriptor.TYPE_BOOL,
    FieldDescriptor.TYPE_STRING,
    FieldDescriptor.TYPE_ENUM,
    FieldDescriptor.TYPE_MESSAGE,
)

_TAKES: collections.abc.Mapping[int, tuple[str, str]] = {
    **dict.fromkeys(INTEGER_RANGES, ("an integer", "8")),
    **dict.fromkeys(_FLOATS, ("a number", "0.5")),
    _BOOL: ("true or false", "true"),
    _STRING: ("a text in quotes", '"…"'),
    _MESSAGE: ("a block { … }", "{ }"),
}
"""By type: what a field takes, in words, and an example. Those of an enum are in its definition."""

_OCTAL = re.compile(r"([+-]?)0(\d+)")
_FLOAT_SPELLING = re.compile(r"(-?)(?:inf(?:inity)?|(nan))f?", re.IGNORECASE)


def is_text(field: Any) -> bool:
    """Whether a field takes a text in quotes."""
    return bool(field.type == _STRING)


def wanted(field: Any) -> str:
    """What a field takes, in words."""
    return f"one of {', '.join(_names(field))}" if field.type == _ENUM else _TAKES[field.type][0]


def example(field: Any) -> str:
    """A value that a field would take, to show how it is written."""
    if field.type == _ENUM:
        names = _names(field)
        return "TYPE_FP32" if "TYPE_FP32" in names else names[0]
    return _TAKES[field.type][1]


def _names(field: Any) -> list[str]:
    return [name for name in field.enum_type.values_by_name if not name.endswith("_INVALID")]


def advice(field: Any) -> str:
    """What to write in place of an invalid value."""
    if field.name == "dims":  # other tools write None, N, ? or a name
        return "write a number, or -1 for a size that varies"
    if field.type in INTEGER_RANGES or field.type in _FLOATS:
        return f"write a number, as in {field.name}: {example(field)}"
    return f"write {field.name}: {example(field)}"


def read_bare(field: Any, text: str) -> Reading:
    """Read what stands without quotes, without space around it, in a field of a scalar type."""
    if field.type in INTEGER_RANGES:
        return _integer(field, text)
    if field.type in _FLOATS:
        return _float(field, text)
    if field.type == _BOOL:
        return _bool(field, text)
    if field.type == _ENUM:
        return _enum(field, text)
    bare = text.strip("\"'")
    return Reading(
        value=bare,
        message=f"{field.name} takes a text in quotes, not {text}",
        suggestion=_write(field, f'"{bare}"'),
    )


def read_quoted(field: Any, value: str) -> Reading:
    """Read what stands in quotes, its escapes already undone."""
    if field.type == _STRING:
        return Reading(value=value)
    inner = read_bare(field, value.strip())
    if inner.value is None:
        return Reading(
            message=f'{field.name} takes {wanted(field)}, not the text "{value}"',
            suggestion=inner.suggestion,
        )
    shown = value.strip() if not inner.message else _shown(field, inner.value)
    kind = "name" if field.type == _ENUM else "value"
    return Reading(
        value=inner.value,
        message=f'{field.name} takes {wanted_short(field)}, and such a {kind} has no quotes around it: "{value}" is a text',
        suggestion=_write(field, f"{shown}"),
    )


def _write(field: Any, value: str) -> str:
    """How to write a value: in a list without the name."""
    return f"write {value}" if field.is_repeated else f"write {field.name}: {value}"


def wanted_short(field: Any) -> str:
    """What a field takes, without listing an enum's values."""
    if field.type == _ENUM:
        return f"one of the values of {field.enum_type.name}"
    return wanted(field)


def _shown(field: Any, value: float | str) -> str:
    if field.type == _ENUM:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else str(known.name)
    if field.type == _BOOL:
        return "true" if value else "false"
    return str(value)


def _integer(field: Any, text: str) -> Reading:
    number = _parse_integer(text)
    if number is None:
        return _not_an_integer(field, text)
    low, high = INTEGER_RANGES[field.type]
    if low <= number <= high:
        return Reading(value=number)
    if number < 0 == low:
        return Reading(
            message=f"{field.name} cannot be negative: {text}",
            suggestion=f"write a number from 0 to {high}",
        )
    extreme = "small" if number < low else "large"
    return Reading(
        message=f"{field.name} is out of range: {_short(text)} is too {extreme}",
        suggestion=f"write a number from {low} to {high}",
    )


def _parse_integer(text: str) -> int | None:
    octal = _OCTAL.fullmatch(text)
    if octal is not None:
        text = f"{octal[1]}0o{octal[2]}"
    if not text.isascii():
        return None
    try:
        return int(text, 0)
    except ValueError:
        return None


def _not_an_integer(field: Any, text: str) -> Reading:
    number = _parse_float(text)
    if number is not None and math.isfinite(number) and number == int(number):
        low, high = INTEGER_RANGES[field.type]
        return Reading(
            value=int(number) if low <= number <= high else None,
            message=f"{field.name} takes an integer, and {_short(text)} is written as a fraction",
            suggestion=_write(field, f"{int(number)}") if abs(number) < 1e19 else "",  # noqa: PLR2004 - 64 bits
        )
    octal = _OCTAL.fullmatch(text)
    if octal is not None:
        return Reading(
            message=f"{text} is not a number: a leading 0 means octal, which has no digits 8 and 9",
            suggestion=_write(field, f"{octal[1]}{octal[2].lstrip('0')}"),
        )
    return Reading(
        message=f"{field.name} takes an integer, not {_short(text)}",
        suggestion=advice(field),
    )


def _float(field: Any, text: str) -> Reading:
    number = _parse_float(text)
    if number is not None:
        return Reading(value=number)
    if _OCTAL.fullmatch(text):
        return Reading(
            message=f"{text} has a leading 0, which means octal, and a fraction cannot be octal",
            suggestion=_write(field, f"{text.lstrip('+-0') or '0'}"),
        )
    return Reading(
        message=f"{field.name} takes a number, not {_short(text)}",
        suggestion=advice(field),
    )


def _parse_float(text: str) -> float | None:
    if re.match(r"-?0[0-9]+", text) or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        pass
    named = _FLOAT_SPELLING.fullmatch(text)
    if named is not None:
        return math.nan if named[2] else math.inf * (-1 if named[1] else 1)
    try:
        return float(text.rstrip("fF"))
    except ValueError:
        return None


_BOOLEANS = {"true": True, "True": True, "t": True, "1": True, "false": False, "False": False, "f": False, "0": False}  # fmt: skip
_YES = frozenset({"true", "yes", "y", "on", "enable", "enabled"})
_NO = frozenset({"false", "no", "n", "off", "disable", "disabled", "none", "null"})


def _bool(field: Any, text: str) -> Reading:
    if text in _BOOLEANS:
        return Reading(value=_BOOLEANS[text])
    lower = text.lower()
    guess = True if lower in _YES else False if lower in _NO else None
    return Reading(
        value=guess,
        message=f"{field.name} takes true or false, not {_short(text)}",
        suggestion="write true or false, in small letters"
        if guess is None
        else _write(field, _shown(field, guess)),
    )


def _enum(field: Any, text: str) -> Reading:
    values = field.enum_type.values_by_name
    known = values.get(text)
    if known is not None:
        return Reading(value=known.number)
    if re.fullmatch(r"[+-]?\d[\w]*", text) and text.isascii():
        return _enum_number(field, text)
    guess = meant_value(field.enum_type, text)
    if guess is not None:
        return Reading(
            value=values[guess].number,
            message=f'{field.name} has no value "{text}"',
            suggestion=f"did you mean {guess}?",
        )
    return Reading(
        message=f'{field.name} has no value "{_short(text)}"', suggestion=f"write {wanted(field)}"
    )


def _enum_number(field: Any, text: str) -> Reading:
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    known = {value.number for value in field.enum_type.values}
    if number in known:  # its own `values_by_number` compares the lowest 32 bits only
        return Reading(value=number)
    return Reading(
        message=f"{field.name} has no value with the number {_short(text)}",
        suggestion=f"write {wanted(field)}",
    )


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"  # noqa: PLR2004 - a message stays on its line
