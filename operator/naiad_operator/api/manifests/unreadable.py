"""What of an object cannot be read: the bounds on one object, and the mark of an object that exceeds them.

A user who may write an object may write one that nests a thousand levels or holds a hundred thousand values. Only the head of such an
object is read (`cluster.reading`), and everything that parses manifests refuses it in words. The mark cannot be forged: an API server
drops unknown fields beside `spec`.
"""

import collections.abc
import typing

MAX_LEVELS = 100
"""How deep objects and lists may be nested, the manifest itself included. Objects of Kubernetes have twenty levels, and what compares and writes values is recursive."""

MAX_CONTAINERS = 25_000
"""How many objects and lists a manifest may hold, its managed fields included: as Python objects they take a few megabytes, and as JSON a few milliseconds."""

_KEY = "unreadable"


def marked(head: collections.abc.Mapping[str, typing.Any], problem: str) -> dict[str, typing.Any]:
    """The readable part of an object, marked as one that cannot be read."""
    return {**head, _KEY: problem}


def problem_of(manifest: collections.abc.Mapping[str, typing.Any]) -> str:
    """Why an object cannot be read; "" when it was read completely."""
    return str(manifest.get(_KEY) or "")
