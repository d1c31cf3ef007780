"""Conditions: their types, and when each last changed."""

import collections.abc
import dataclasses
import typing

from naiad_operator.status.reasons import ORDINARY, PASSING, Reason

Manifest = collections.abc.Mapping[str, typing.Any]
State = typing.Literal["True", "False", "Unknown"]

READY = "Ready"
AVAILABLE = "Available"
PROGRESSING = "Progressing"
SPEC_VALID = "SpecValid"
MODELS_LOADED = "ModelsLoaded"
NETWORK_READY = "NetworkReady"
AUTOSCALING_READY = "AutoscalingReady"
MONITORING_READY = "MonitoringReady"
STOPPED = "Stopped"
UPGRADED = "Upgraded"
STALLED = "Stalled"
CANARY_READY = "CanaryReady"
CANARY_MODELS_LOADED = "CanaryModelsLoaded"
TRANSFORMER_READY = "TransformerReady"
EXPLAINER_READY = "ExplainerReady"

_LONGEST = 1000
_REASONS = frozenset(typing.get_args(Reason))


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """One condition without its timestamp."""

    type: str
    status: State
    reason: Reason
    message: str = ""

    @property
    def fails(self) -> bool:
        """Whether the status is False; Unknown is not a failure."""
        return self.status == "False"


def stalled(ready: Condition) -> Condition:
    """Stalled, with Ready's reason: True while a service is not ready and waiting alone changes nothing.

    Flux and other readers of kstatus give up at Stalled, and wait while Ready is False without it. It is never left out: `kubectl wait` does not
    see a condition that is not there as False.
    """
    if not ready.fails or ready.reason in ORDINARY or ready.reason in PASSING:
        return Condition(STALLED, "False", ready.reason, "")
    return Condition(STALLED, "True", ready.reason, ready.message)


def dated(
    conditions: collections.abc.Iterable[Condition],
    *,
    before: Manifest,
    generation: int,
    now: str,
) -> list[dict[str, typing.Any]]:
    """The conditions as a status contains them. The time changes only when a condition's status changes.

    Args:
        conditions: in the order in which to show them.
        before: the previous status.
        generation: the spec's generation.
        now: the time as Kubernetes writes it.
    """
    times = {
        old["type"]: old["lastTransitionTime"]
        for old in before.get("conditions") or ()
        for new in conditions
        if old["type"] == new.type and old["status"] == new.status
    }
    return [
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": shortened(condition.message),
            "lastTransitionTime": times.get(condition.type, now),
            "observedGeneration": generation,
        }
        for condition in conditions
    ]


def shortened(message: str, longest: int = _LONGEST) -> str:
    """A message as one line of limited length."""
    line = " ".join(message.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def reason_of(status: Manifest, type_: str) -> str:
    """The reason of a condition in a status; "" if there is no such condition."""
    for condition in status.get("conditions") or ():
        if condition["type"] == type_:
            return str(condition.get("reason") or "")
    return ""


def condition_of(status: Manifest, type_: str) -> Condition | None:
    """A condition in a status; None if there is no such condition, or if another release wrote it with a reason that this one does not have."""
    for condition in status.get("conditions") or ():
        if condition["type"] == type_ and condition.get("reason") in _REASONS:
            return Condition(
                type_, condition["status"], condition["reason"], condition.get("message") or ""
            )
    return None
