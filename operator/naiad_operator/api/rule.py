"""One rule of the resource: in CEL for the API server, in Python for files."""

import collections.abc
import dataclasses
import functools
import re
import typing

Value = collections.abc.Mapping[str, typing.Any]


def matches(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern as the API server reads it: `$` is the very end, also where a line break stands before it."""
    return _compiled(pattern).search(text) is not None


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("$", r"\Z"), re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule over one object.

    Attributes:
        cel: the rule, over `self`.
        message: what to write instead.
        field: the field at fault, below the object; "" for the object itself.
        holds: the same rule, over the object with its defaults filled in.
    """

    cel: str
    message: str
    holds: collections.abc.Callable[[Value], bool]
    field: str = ""
