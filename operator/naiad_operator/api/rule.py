"""One rule of the resource: in CEL for the API server, in Python for files."""

import collections.abc
import dataclasses
import typing

Value = collections.abc.Mapping[str, typing.Any]


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
