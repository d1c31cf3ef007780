"""Paths of fields: those that a config holds of a pattern, and how a path is written. Pure."""

import collections.abc
from typing import Any

from naiad.config.document import FieldPath


def present(
    value: Any, pattern: tuple[str, ...], path: FieldPath = ()
) -> collections.abc.Iterator[FieldPath]:
    """The paths of the pattern's fields that the message holds.

    Args:
        value: the message.
        pattern: names of fields; "*" stands for each index or key.
        path: of `value`.
    """
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
