"""The Events for a change from one status to the next. Pure.

An Event is written on a transition and never on a repetition: Ready has changed, or something needs a user's attention, like a model that
fails beside others that serve. The steps
of an ordinary rollout cause none: they are in the conditions, and a thousand new services would write all of them at once. Because
Ready takes its reason from the first condition that fails, one Event is enough. In addition, each corrected drift causes an Event.
"""

import collections.abc
import dataclasses
import typing

Status = collections.abc.Mapping[str, typing.Any]

_QUIET = frozenset(
    {
        "Ready",
        "RollingOut",
        "NewTemplate",
        "Suspended",
        "WaitingForNode",
        "SchedulingGated",
        "Loading",
        "Complete",
        "ScaledToZero",
        "BeingDeleted",
    }
)
"""Reasons of Ready that belong to ordinary operation."""
_MODEL_FAILURES = frozenset(("ModelFailed", "ModelNotFound"))
_MOST_FIELDS = 3
_LONGEST_MESSAGE = 1000
"""The API server accepts 1,024 bytes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes Event.

    Attributes:
        type: Normal or Warning.
        reason: one word in CamelCase.
        message: a sentence.
    """

    type: str
    reason: str
    message: str


def of_transition(before: Status, after: Status) -> list[Event]:
    """The Events for a status that changes from `before` to `after`."""
    return [
        *_of_ready(before, after),
        *_of_models(before, after),
        *_of_canary(before, after),
        *_of_kept_replicas(before, after),
    ]


def _of_canary(before: Status, after: Status) -> list[Event]:
    """The Event for a canary that is ready, or fails."""
    old, new = _condition(before, "CanaryReady"), _condition(after, "CanaryReady")
    reason = new.get("reason") or "Unknown"
    if not new or (old.get("status"), old.get("reason")) == (new.get("status"), reason):
        return []
    if new.get("status") == "True":
        return [Event("Normal", "CanaryReady", _bounded(new.get("message") or ""))]
    if reason in _QUIET:
        return []
    return [Event("Warning", reason, _bounded(f"canary: {new.get('message') or reason}"))]


def _of_kept_replicas(before: Status, after: Status) -> list[Event]:
    """The Event for a spec that no longer sets the number of pods: the number stays as it was."""
    kept_replicas = after.get("keptReplicas")
    if not before or kept_replicas is None or "keptReplicas" in before:
        return []
    message = f"nothing decides the number of pods any more, so it stays {kept_replicas}; to choose it, set spec.predictor.replicas"
    return [Event("Normal", "ReplicasKept", message)]


def _of_models(before: Status, after: Status) -> list[Event]:
    """The Event for models that fail while the service is ready, because the others serve; else Ready has the reason."""
    old, new = _condition(before, "ModelsLoaded"), _condition(after, "ModelsLoaded")
    reason = new.get("reason")
    if reason not in _MODEL_FAILURES or reason == old.get("reason"):
        return []
    if _condition(after, "Ready").get("reason") == reason:
        return []
    return [Event("Warning", reason, _bounded(new.get("message") or reason))]


def _of_ready(before: Status, after: Status) -> list[Event]:
    old, new = _condition(before, "Ready"), _condition(after, "Ready")
    if (old.get("status"), old.get("reason")) == (new.get("status"), new.get("reason")):
        return []
    reason = new.get("reason") or "Unknown"
    if new.get("status") == "True":
        url = after.get("url") or (after.get("address") or {}).get("url") or ""
        return [Event("Normal", "Ready", f"the service is ready{f' at {url}' if url else ''}")]
    quiet = reason in _QUIET
    if quiet and old.get("status") != "True":
        return []
    kind = "Normal" if quiet else "Warning"
    return [Event(kind, reason, _bounded(new.get("message") or reason))]


def of_drift(kind: str, name: str, fields: collections.abc.Sequence[str]) -> Event:
    """The Event for a child that was changed by another client and put back."""
    more = len(fields) - _MOST_FIELDS
    field_names = ", ".join(fields[:_MOST_FIELDS]) + (f" and {more} more" if more > 0 else "")
    hint = ""
    if kind == "Deployment" and "spec.replicas" in fields:
        hint = "; to scale the service, use `kubectl scale infsvc` or set spec.predictor.replicas"
    return Event(
        "Warning",
        "DriftCorrected",
        _bounded(f"{kind} {name} was changed by another client ({field_names}) and put back{hint}"),
    )


def of_recreation(kind: str, name: str) -> Event:
    """The Event for a child that was missing."""
    return Event("Warning", "DriftCorrected", f"{kind} {name} was missing and has been created")


def _condition(status: Status, type_: str) -> dict[str, typing.Any]:
    for condition in status.get("conditions") or ():
        if condition["type"] == type_:
            return dict(condition)
    return {}


def _bounded(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 1] + "…"
