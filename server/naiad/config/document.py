"""A config file as it was read: the message, the position of each value in the text, and the problems found while reading.

The rules of the config (validate, resolve) work on the message and look up positions here, so that every problem points at its
line. It holds no rules itself.
"""

import collections.abc
import pathlib
from typing import Any

import msgspec

from naiad.config.problem import Position, Problem

FieldPath = tuple[str | int, ...]
"""`("input", 0, "dims", 1)`; an entry of a map is named by its key: `("parameters", "key", "string_value")`."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading a config file.

    Attributes:
        path: the file; it need not exist: then `text` is "" and `message` is empty.
        text: what was read, without a byte order mark.
        message: model_config_pb2.ModelConfig, with all that could be read. Where a name was misspelled and one
            field was clearly meant, its value stands there, so that later rules do not complain about its absence.
        positions: of each value, each block (its name, or its brace inside a list), and each list as a whole. A map
            entry whose value is a block stands where its key is written.
        problems: what syntax and typing found, in file order; a file with any is never served.
        warnings: what is read as protobuf reads it, and is hardly meant.
        is_file: whether `path` is meant to be a file: not for a config that a load request brings.
        overridden: the fields, and entries of maps, that `--model-config-override` has replaced, and which are therefore not in the text.
        override: the option that has, for problems with these.
    """

    path: pathlib.Path
    text: str
    message: Any
    positions: collections.abc.Mapping[FieldPath, Position]
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...] = ()
    is_file: bool = True
    overridden: frozenset[FieldPath] = frozenset()
    override: str = ""

    def position(self, path: FieldPath) -> Position | None:
        """The position of a field, else of the nearest block around it; None when neither is in the file."""
        for length in range(len(path), 0, -1):
            position = self.positions.get(path[:length])
            if position is not None:
                return position
        return None

    def problem(self, path: FieldPath, message: str, suggestion: str = "") -> Problem:
        """A problem with a field, at its position in the file, or with the option that has replaced it."""
        if any(path[:length] in self.overridden for length in range(1, len(path) + 1)):
            where = pathlib.Path(self.override)
            return Problem(path=where, position=None, message=message, suggestion=suggestion)
        position = self.position(path)
        return Problem(
            path=self.path,
            position=position,
            message=message,
            suggestion=suggestion,
            line_text="" if position is None else self.line(position.line),
        )

    def line(self, number: int) -> str:
        """The text of a 1-based line without its end; "" when there is no such line."""
        lines = self.text.split("\n")
        return lines[number - 1].removesuffix("\r") if 0 < number <= len(lines) else ""


def present(
    value: Any, pattern: tuple[str, ...], path: FieldPath = ()
) -> collections.abc.Iterator[FieldPath]:
    """The paths of the pattern's fields that a message holds; "*" in the pattern stands for each index or key."""
    if not pattern:
        yield path
        return
    name, rest = pattern[0], pattern[1:]
    if name == "*":
        for index, item in enumerate(value):
            yield from present(item, rest, (*path, index))
    elif hasattr(value, "DESCRIPTOR"):
        field = value.DESCRIPTOR.fields_by_name[name]
        part = getattr(value, name)
        if value.HasField(name) if field.has_presence else bool(part):
            yield from present(part, rest, (*path, name))
    elif name in value:
        yield from present(value[name], rest, (*path, name))


def dotted(path: FieldPath) -> str:
    """A path as a config's author would write it: `instance_group[0].passive`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
