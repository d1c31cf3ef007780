"""Random ModelConfig messages and random damage to their text, for the tests that hold our parser to the official one."""

import collections.abc
import random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from naiad.core.messages import model_config_pb2

_STRINGS = (
    "",
    "a",
    "INPUT0",
    "modèle",
    "日本",
    "quote \" and ' and \\",
    "tab\tline\nreturn\r",
    "\x00\x01\x7f",
    "# no comment",
    "$x {y}",
    "}{][<>",
    "\U0001f600",
)
_FLOATS = (0.0, -0.0, 0.5, 1e30, -1e-30, float("inf"), float("-inf"), float("nan"), 3.0)
_INTEGERS = {
    FieldDescriptor.TYPE_INT32: (0, 1, -1, 8, 2**31 - 1, -(2**31)),
    FieldDescriptor.TYPE_INT64: (0, 1, -1, 224, 2**63 - 1, -(2**63)),
    FieldDescriptor.TYPE_UINT32: (0, 1, 8, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 1, 100, 2**64 - 1),
}


def random_config(chance: random.Random) -> Any:
    """A ModelConfig with any of its fields set, each to any value of its type."""
    message = model_config_pb2.ModelConfig()
    _fill(message, chance, depth=0)
    return message


def _fill(message: Any, chance: random.Random, *, depth: int) -> None:
    for field in message.DESCRIPTOR.fields:
        if chance.random() < (0.75 if depth == 0 else 0.5):
            continue
        times = chance.randint(1, 3) if field.is_repeated else 1
        for _ in range(times):
            _set(message, field, chance, depth=depth)


def _set(message: Any, field: Any, chance: random.Random, *, depth: int) -> None:
    if field.message_type is None:
        value = _scalar(field, chance)
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)
    elif field.message_type.GetOptions().map_entry:
        parts = field.message_type.fields_by_name
        key = _scalar(parts["key"], chance)
        entries = getattr(message, field.name)
        if parts["value"].message_type is None:
            entries[key] = _scalar(parts["value"], chance)
        else:
            _fill(entries[key], chance, depth=depth + 1)
    elif field.is_repeated:
        _fill(getattr(message, field.name).add(), chance, depth=depth + 1)
    else:
        getattr(message, field.name).SetInParent()
        _fill(getattr(message, field.name), chance, depth=depth + 1)


def _scalar(field: Any, chance: random.Random) -> Any:
    if field.type in _INTEGERS:
        return chance.choice(_INTEGERS[field.type])
    if field.type in {FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE}:
        return chance.choice(_FLOATS)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return chance.random() < 0.5
    if field.type == FieldDescriptor.TYPE_ENUM:
        return chance.choice(field.enum_type.values).number
    return chance.choice(_STRINGS)


_PIECES: tuple[str, ...] = (
    *"{}[]<>:;,\"'#\\\n \t=.-+0189fxX$@%/|é“",
    "name",
    "max_batch_size: 4",
    "dims",
    "input {",
    "[ 1, 2 ]",
    "true",
    "inf",
    "TYPE_FP32",
    "FP32",
    "${x}",
    "{{x}}",
    "<x>",
    "0x1F",
    "017",
    "08",
    "1.5",
    "1e3",
    "-",
    "99999999999999999999",
    '"text"',
    "'",
    "\\x41",
    "\\u00e9",
    "\\q",
    'key: "a"',
    "dynamic_batching { }",
    "sequence_batching { }",
)


def damage(text: str, chance: random.Random) -> str:
    """A text with one to three random changes."""
    for _ in range(chance.randint(1, 3)):
        text = chance.choice(_CHANGES)(text, chance)
    return text


def _place(text: str, chance: random.Random) -> int:
    return chance.randint(0, len(text))


def _insert(text: str, chance: random.Random) -> str:
    at = _place(text, chance)
    return text[:at] + chance.choice(_PIECES) + text[at:]


def _delete(text: str, chance: random.Random) -> str:
    at = _place(text, chance)
    return text[:at] + text[at + chance.choice((1, 1, 1, 2, 5, 20)) :]


def _replace(text: str, chance: random.Random) -> str:
    at = _place(text, chance)
    return text[:at] + chance.choice(_PIECES) + text[at + 1 :]


def _cut(text: str, chance: random.Random) -> str:
    return text[: _place(text, chance)]


def _swap_lines(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return "\n".join(lines)


def _repeat_line(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    return "\n".join([*lines[: at + 1], *lines[at:]])


def _drop_line(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    del lines[chance.randrange(len(lines))]
    return "\n".join(lines)


_CHANGES: tuple[collections.abc.Callable[[str, random.Random], str], ...] = (
    _insert,
    _insert,
    _delete,
    _delete,
    _replace,
    _cut,
    _swap_lines,
    _repeat_line,
    _drop_line,
)
