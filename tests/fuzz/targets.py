"""The fuzzer's targets by name; each module says what an input is and what must hold."""

import collections.abc
import importlib
import typing

NAMES = (
    "http_infer",
    "grpc_infer",
    "both_wires",
    "config",
    "framing",
    "worker_link",
    "large_bodies",
)

LONGEST = 4096
"""Bytes of an input. More of them find nothing new here and cost time."""


class Target(typing.Protocol):
    """A module of this package."""

    WORDS: "collections.abc.Sequence[str]"
    """What a mutation may insert, with backslash escapes as libFuzzer's dictionaries have them."""

    def seeds(self) -> list[bytes]:
        """Inputs to begin with."""
        ...

    def check(self, data: bytes) -> None:
        """Raise if something does not hold for an input."""
        ...


def load(name: str) -> Target:
    """A target's module."""
    return typing.cast("Target", importlib.import_module(f"tests.fuzz.{name}"))
