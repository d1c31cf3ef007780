"""The observed state of a service's objects, as data."""

import collections.abc
import dataclasses
import typing

from naiad_operator import versions
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.status.upgrade import Upgrade

Manifest = collections.abc.Mapping[str, typing.Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelState:
    """One model version as a server's /status reports it.

    Attributes:
        version: "" while the model's config is not read, or when it cannot be used.
        state: READY, LOADING, UNLOADING or UNAVAILABLE; "" when unknown.
        reason: why it is not READY.
    """

    name: str
    version: str
    state: str
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """The last response of a pod's /status.

    Attributes:
        pod: the name of the pod that responded.
        models: None when no pod has responded, or has anything to report yet.
        is_starting: whether the pod responded, and its server has not listed its models yet.
        problem: why there are no models, in words; may be empty.
        is_awaited: whether pods are being polled and none of them has responded, or failed to, since this operator runs. What the status says stays.
        server_version: the server's version; None when it does not report it, as 0.1.0.
    """

    pod: str = ""
    models: tuple[ModelState, ...] | None = None
    is_starting: bool = False
    problem: str = ""
    is_awaited: bool = False
    server_version: versions.Version | None = None


NOT_REPORTED = ModelReport()
"""There is no pod that could respond."""
AWAITED = ModelReport(is_awaited=True)
"""The first response is awaited, as after a restart of the operator."""


@dataclasses.dataclass(frozen=True, slots=True)
class Conflict:
    """An object of another owner that has the name of a child.

    Attributes:
        owner: the controlling owner, e.g. "Deployment web"; "" when the object has none.
    """

    kind: str
    name: str
    owner: str


@dataclasses.dataclass(frozen=True, slots=True)
class ApiError:
    """The API server's refusal of a child, with its message."""

    kind: str
    name: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Everything from which a status is computed.

    Attributes:
        children: by (kind, name).
        pods: the pods of the service; may be empty when the service is ready.
        models: what a pod reported of its models.
        canary_models: what a pod of the canary reported.
        facts: the facts from which the manifests were built.
        terminating: wanted children, by kind and name, that are being deleted: a finalizer holds them, or they belong to an earlier
            service of the same name.
        shared_hosts: sentences about hosts that another service claims as well; None while other services are not known yet.
        upgrade: the upgrade to this operator; None when there is no Deployment to upgrade.
        unwatched: wanted children, by kind and name, that the operator cannot watch, each with the reason and what to do.
    """

    children: collections.abc.Mapping[tuple[str, str], Manifest]
    facts: ClusterFacts
    pods: collections.abc.Sequence[Manifest] = ()
    models: ModelReport = NOT_REPORTED
    canary_models: ModelReport = NOT_REPORTED
    conflicts: collections.abc.Sequence[Conflict] = ()
    errors: collections.abc.Sequence[ApiError] = ()
    terminating: collections.abc.Sequence[tuple[str, str]] = ()
    shared_hosts: tuple[str, ...] | None = ()
    upgrade: Upgrade | None = None
    unwatched: collections.abc.Mapping[tuple[str, str], str] = dataclasses.field(
        default_factory=dict
    )
