"""Which Events a person is told, from one status to the next. Pure.

An Event is written on a transition and never on a repetition: Ready turned, or something that somebody has to look at came up.
The steps of an ordinary rollout are none: they are in the conditions, and a thousand new services would tell them all at once. As
Ready takes its reason from the first condition that fails, one Event tells the whole story. Beside that there is one Event for
each drift that was put back.
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
        "Progressing",
        "Loading",
        "NotAsked",
        "Complete",
        "ScaledToZero",
        "BeingDeleted",
    }
)
"""Reasons of Ready that are the ordinary course of things."""
_MOST_FIELDS = 3
_LONGEST_MESSAGE = 1000
"""The API server takes 1,024 bytes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """Something to tell.

    Attributes:
        type: Normal or Warning.
        reason: one word, in camel case.
        message: a sentence.
    """

    type: str
    reason: str
    message: str


def of_transition(before: Status, after: Status) -> list[Event]:
    """The Events for a status that changes from `before` to `after`."""
    return [*_of_ready(before, after), *_of_kept_replicas(before, after)]


def _of_kept_replicas(before: Status, after: Status) -> list[Event]:
    """From an autoscaler, or from replicas, to a spec that says nothing: the number of pods stays, which somebody should know."""
    kept = after.get("keptReplicas")
    if not before or kept is None or "keptReplicas" in before:
        return []
    said = f"nothing decides the number of pods any more, so it stays {kept}; to choose it, set spec.predictor.replicas"
    return [Event("Normal", "ReplicasKept", said)]


def _of_ready(before: Status, after: Status) -> list[Event]:
    old, new = _ready(before), _ready(after)
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
    """The Event for a child that somebody else changed."""
    more = len(fields) - _MOST_FIELDS
    told = ", ".join(fields[:_MOST_FIELDS]) + (f" and {more} more" if more > 0 else "")
    hint = ""
    if kind == "Deployment" and "spec.replicas" in fields:
        hint = "; to scale the service, use `kubectl scale infsvc` or set spec.predictor.replicas"
    return Event(
        "Warning",
        "DriftCorrected",
        _bounded(f"{kind} {name} was changed by someone else ({told}) and put back{hint}"),
    )


def of_recreation(kind: str, name: str) -> Event:
    """The Event for a child that should have been there."""
    return Event("Warning", "DriftCorrected", f"{kind} {name} was missing and has been made")


def _ready(status: Status) -> dict[str, typing.Any]:
    for condition in status.get("conditions") or ():
        if condition["type"] == "Ready":
            return dict(condition)
    return {}


def _bounded(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 1] + "…"
