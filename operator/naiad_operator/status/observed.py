"""What was seen of a service's objects, as data."""

import collections.abc
import dataclasses
import typing

from naiad_operator.builders.facts import ClusterFacts

Manifest = collections.abc.Mapping[str, typing.Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelState:
    """One model version, as a server's /status says.

    Attributes:
        state: READY, LOADING, UNLOADING or UNAVAILABLE; "" when nothing is known.
    """

    name: str
    version: str
    state: str
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Conflict:
    """An object that has the name of a child and is somebody else's.

    Attributes:
        owner: who it belongs to, e.g. "Deployment web", or "nobody".
    """

    kind: str
    name: str
    owner: str


@dataclasses.dataclass(frozen=True, slots=True)
class ApiError:
    """The API server's refusal of a child, in its words."""

    kind: str
    name: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Everything a status is computed from.

    Attributes:
        children: by (kind, name).
        pods: of the service's selector; may be empty when the service is ready.
        models: what the pods' /status said; None when nobody could be asked.
        facts: what the manifests were built from.
        leaving: children, by kind and name, that are wanted and on their way out: somebody's finalizer holds them, or they belong to a
            service that had this name before.
    """

    children: collections.abc.Mapping[tuple[str, str], Manifest]
    facts: ClusterFacts
    pods: collections.abc.Sequence[Manifest] = ()
    models: collections.abc.Sequence[ModelState] | None = None
    conflicts: collections.abc.Sequence[Conflict] = ()
    errors: collections.abc.Sequence[ApiError] = ()
    terminating: collections.abc.Sequence[tuple[str, str]] = ()
