"""What `check` finds in a manifest."""

import collections.abc
import typing

from typing_extensions import override

from naiad_operator.errors import Problem


class Finding(typing.NamedTuple):
    """A problem, or a warning about something that may be meant as it is.

    Attributes:
        problem: the field and the message.
        is_warning: whether the manifest is valid all the same.
    """

    problem: Problem
    is_warning: bool = False

    @override
    def __str__(self) -> str:
        return f"{'warning: ' if self.is_warning else ''}{self.problem}"


Findings = collections.abc.Iterator[Finding]


def error(path: str, message: str) -> Finding:
    """A problem that makes the manifest invalid."""
    return Finding(Problem(path, message))


def warning(path: str, message: str) -> Finding:
    """A problem of a valid manifest."""
    return Finding(Problem(path, message), is_warning=True)


def texts(value: typing.Any) -> list[str]:
    """A list of strings; empty for anything else, which is an error of the schema."""
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return list(value)
    return []
