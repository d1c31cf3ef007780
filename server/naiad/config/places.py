"""Where a config really holds a field that a table names, and how that place is written. Pure."""

import collections.abc
from typing import Any

from naiad.config.document import FieldPath


def written(
    value: Any, pattern: tuple[str, ...], path: FieldPath = ()
) -> collections.abc.Iterator[FieldPath]:
    """The places where the message really holds what the pattern names.

    Args:
        value: the message.
        pattern: names of fields; "*" stands for each index or key.
        path: where `value` stands.
    """
    if not pattern:
        yield path
        return
    name, rest = pattern[0], pattern[1:]
    if name == "*":
        for index, item in enumerate(value):
            yield from written(item, rest, (*path, index))
    elif hasattr(value, "DESCRIPTOR"):
        field = value.DESCRIPTOR.fields_by_name[name]
        part = getattr(value, name)
        if value.HasField(name) if field.has_presence else bool(part):
            yield from written(part, rest, (*path, name))
    elif name in value:
        yield from written(value[name], rest, (*path, name))


def dotted(path: FieldPath) -> str:
    """A field as people write it: `instance_group[0].passive`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
