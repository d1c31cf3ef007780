"""Versions of operators and servers: read from text, and compared by their three numbers."""

import re
import typing

from typing_extensions import override

from naiad_operator import __version__

_PATTERN = re.compile(r"v?([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})([-+._].*)?", re.ASCII)


class Version(typing.NamedTuple):
    """A release; pre-releases and builds count as the release that they are named after."""

    major: int
    minor: int
    patch: int

    @override
    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def parse(text: str) -> Version | None:
    """The version that a text such as "0.2.0", "v0.2.0" or "0.2.0-cuda12" begins with; None for any other text."""
    match = _PATTERN.fullmatch(text)
    return Version(*(int(number) for number in match.groups()[:3])) if match else None


def _own() -> Version:
    version = parse(__version__)
    assert version is not None
    return version


OWN = _own()
"""The version of this operator."""
