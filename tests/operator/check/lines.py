"""The lines that `naiad-operator check` says, without file and line."""

import typing

RUN = typing.Callable[..., tuple[int, list[str]]]
"""Checks documents; the exit status and the lines."""


def fields(lines: list[str]) -> list[str]:
    """The field of each finding."""
    return [line.removeprefix("warning: ").partition(":")[0] for line in lines[:-1]]
