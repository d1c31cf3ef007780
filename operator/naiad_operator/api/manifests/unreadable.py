"""What of an object cannot be read: the bounds on one object, and the mark of an object that exceeds them.

A user who may write an object may write one that nests a thousand levels or holds a hundred thousand values. Only the head of such an
object is read (`cluster.reading`), and everything that parses manifests refuses it in words. The mark cannot be forged: an API server
drops unknown fields beside `spec`.
"""

import collections.abc
import typing


class Bound(typing.NamedTuple):
    """A bound on a whole manifest, which `check` and the operator hold in the same words, and the API server does not.

    Attributes:
        most: the largest number that is allowed.
        message: what is wrong with a manifest beyond it, and what it may have.
        why: why no rule of the CRD holds it.
    """

    most: int
    message: str
    why: str


MAX_LEVELS = 100
"""How deep objects and lists may be nested, the manifest itself included. Objects of Kubernetes have twenty levels, and what compares and writes values is recursive."""

MAX_CONTAINERS = 12_500
"""How many objects and lists a manifest may hold, its managed fields included: as Python objects they take a few megabytes, and as JSON a few milliseconds."""

MAX_VALUES = 25_000
"""How many commas the JSON of a manifest may hold, which are about its values: to read one takes up to 0.1 microseconds."""

MAX_FRACTIONS = 2_500
"""How many numbers with a fraction or an exponent a manifest may hold: to read one takes half a microsecond. Kubernetes' own types have none."""

MAX_ESCAPES = 75_000
"""How many quotes and backslashes the JSON of a manifest may hold: two for each text, and two for each quote in one."""

LEVELS = Bound(
    MAX_LEVELS,
    f"nested too deeply to be meant: an object may have {MAX_LEVELS} levels",
    "the fields of Kubernetes' own types (affinity, podTemplate, triggers …) preserve unknown fields: CEL sees nothing below them, and has neither recursion nor a function "
    "for depth; a schema of these types would be ten times the CRD, and refuse fields of newer versions of Kubernetes",
)
CONTAINERS = Bound(
    MAX_CONTAINERS,
    f"it holds more than {MAX_CONTAINERS:,} objects and lists",
    "as for levels; and the managed fields, which the API server itself adds, count as well, so that a file may have fewer than half of them",
)
VALUES = Bound(
    MAX_VALUES,
    f"it holds more than {MAX_VALUES:,} values, or commas in texts",
    "as for levels: CEL sees nothing of lists and texts in fields that preserve unknown fields, and the API server bounds the size of a request alone",
)
FRACTIONS = Bound(
    MAX_FRACTIONS,
    f"it holds more than {MAX_FRACTIONS:,} numbers with a fraction or an exponent",
    "as for values: fields that preserve unknown fields hold any number of them",
)
ESCAPES = Bound(
    MAX_ESCAPES,
    f"its JSON holds more than {MAX_ESCAPES:,} quotes and backslashes",
    "as for values; and the JSON that the API server writes is not what it was given, which CEL does not see",
)
BOUNDS = (LEVELS, CONTAINERS, VALUES, FRACTIONS, ESCAPES)
"""What `api.rules.table` cannot have, since the API server could not evaluate it."""

_KEY = "unreadable"


def marked(head: collections.abc.Mapping[str, typing.Any], problem: str) -> dict[str, typing.Any]:
    """The readable part of an object, marked as one that cannot be read."""
    return {**head, _KEY: problem}


def problem_of(manifest: collections.abc.Mapping[str, typing.Any]) -> str:
    """Why an object cannot be read; "" when it was read completely."""
    return str(manifest.get(_KEY) or "")
