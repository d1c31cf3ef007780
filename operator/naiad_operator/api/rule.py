"""A validation rule of the resource: in CEL for the API server, in Python for files."""

import collections.abc
import dataclasses
import functools
import re
import typing

Value = collections.abc.Mapping[str, typing.Any]


def matches(pattern: str, text: str) -> bool:
    """Whether a text matches a pattern as in the API server: `$` is the very end, also when a line break precedes it."""
    return _compiled(pattern).search(text) is not None


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("$", r"\Z"), re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A validation rule over one object.

    Attributes:
        cel: the rule in CEL, over `self`.
        message: what to write instead.
        field: the invalid field, relative to the object; "" for the object itself.
        holds: the same rule in Python, over the object with its defaults filled in.
    """

    cel: str
    message: str
    holds: collections.abc.Callable[[Value], bool]
    field: str = ""
