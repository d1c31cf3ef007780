"""A validation rule of the resource, written once, in CEL: the API server evaluates it there, `holds` in files and stored resources."""

import collections.abc
import dataclasses
import typing

from naiad_operator.api.rules import cel


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A validation rule over one object.

    Attributes:
        cel: the rule in CEL, over `self`; only what `cel` supports.
        message: what to write instead.
        field: the invalid field, relative to the object; "" for the object itself.
    """

    cel: str
    message: str
    field: str = ""

    def holds(self, value: collections.abc.Mapping[str, typing.Any]) -> bool:
        """Whether an object with its defaults filled in keeps the rule."""
        return cel.compiled(self.cel)(value)
