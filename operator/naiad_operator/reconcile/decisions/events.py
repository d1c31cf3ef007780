"""The Events for a change from one status to the next. Pure.

An Event is written on a transition and never on a repetition: Ready has changed, or something needs a user's attention, like a model that
fails beside others that serve. The steps
of an ordinary rollout cause none: they are in the conditions, and a thousand new services would write all of them at once. Because
Ready takes its reason from the first condition that fails, one Event is enough. In addition, each corrected drift causes an Event.
"""

import collections.abc
import dataclasses
import typing

from naiad_operator.api import names
from naiad_operator.status import upgrade
from naiad_operator.status.conditions import CANARY_READY, MODELS_LOADED, READY, UPGRADED
from naiad_operator.status.reasons import ORDINARY

Status = collections.abc.Mapping[str, typing.Any]

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
        *_of_upgrade(before, after),
        *_of_kept_replicas(before, after),
    ]


def _of_canary(before: Status, after: Status) -> list[Event]:
    """The Event for a canary that is ready, or fails."""
    old, new = _condition(before, CANARY_READY), _condition(after, CANARY_READY)
    reason = new.get("reason") or "Unknown"
    if not new or (old.get("status"), old.get("reason")) == (new.get("status"), reason):
        return []
    if new.get("status") == "True":
        return [Event("Normal", "CanaryReady", _bounded(new.get("message") or ""))]
    if reason in ORDINARY:
        return []
    return [Event("Warning", reason, _bounded(f"canary: {new.get('message') or reason}"))]


def _of_upgrade(before: Status, after: Status) -> list[Event]:
    """The Event for a service because of which the upgrade to a new operator pauses."""
    old, new = _condition(before, UPGRADED), _condition(after, UPGRADED)
    if new.get("reason") != upgrade.FAILED or old.get("reason") == upgrade.FAILED:
        return []
    return [Event("Warning", upgrade.FAILED, _bounded(new["message"]))]


def _of_kept_replicas(before: Status, after: Status) -> list[Event]:
    """The Event for a spec that no longer sets the number of pods: the number stays as it was."""
    kept_replicas = after.get("keptReplicas")
    if not before or kept_replicas is None or "keptReplicas" in before:
        return []
    message = f"nothing decides the number of pods any more, so it stays {kept_replicas}; to choose it, set spec.predictor.replicas"
    return [Event("Normal", "ReplicasKept", message)]


def _of_models(before: Status, after: Status) -> list[Event]:
    """The Event for models that fail while the service is ready, because the others serve; else Ready has the reason."""
    old, new = _condition(before, MODELS_LOADED), _condition(after, MODELS_LOADED)
    reason = new.get("reason")
    if reason not in _MODEL_FAILURES or reason == old.get("reason"):
        return []
    if _condition(after, READY).get("reason") == reason:
        return []
    return [Event("Warning", reason, _bounded(new.get("message") or reason))]


def _of_ready(before: Status, after: Status) -> list[Event]:
    old, new = _condition(before, READY), _condition(after, READY)
    if (old.get("status"), old.get("reason")) == (new.get("status"), new.get("reason")):
        return []
    reason = new.get("reason") or "Unknown"
    if new.get("status") == "True":
        url = after.get("url") or (after.get("address") or {}).get("url") or ""
        return [Event("Normal", "Ready", f"the service is ready{f' at {url}' if url else ''}")]
    quiet = reason in ORDINARY
    if quiet and old.get("status") != "True":
        return []
    kind = "Normal" if quiet else "Warning"
    return [Event(kind, reason, _bounded(new.get("message") or reason))]


def manifest(event: Event, service: Status, *, name: str, now: str) -> dict[str, typing.Any]:
    """The object that holds an Event about a service.

    Args:
        event: the Event.
        service: the manifest of the service.
        name: the object's own name.
        now: the time as Kubernetes writes it.
    """
    metadata = service["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": names.FIELD_MANAGER},
        "reportingComponent": names.FIELD_MANAGER,
        "reportingInstance": names.FIELD_MANAGER,
    }


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
