"""The Upgraded condition: whether the pods have the template that this operator renders, and if not, what they wait for."""

import dataclasses
import enum
import typing

from naiad_operator.status.conditions import UPGRADED, Condition, State
from naiad_operator.status.reasons import Reason


class UpgradeState(enum.Enum):
    """Where a service is in the upgrade to this operator."""

    CURRENT = enum.auto()
    WAITING = enum.auto()
    PAUSED = enum.auto()
    HELD = enum.auto()
    SKIPPED = enum.auto()
    UPGRADING = enum.auto()
    NEWER = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """The upgrade of one service.

    Attributes:
        template: the version of the operator that rendered the present pod template.
        operator: the version of this operator.
        limit: how many services replace their pods at a time.
        paused_by: the service because of which no other is upgraded: as namespace/name in the same namespace, otherwise without its name.
        held_by: the option or annotation that holds the service, in words.
        time_limit_s: how long others wait for a service that does not become ready.
        is_overdue: whether the pods have not become ready in that time.
        since: when the pods began to be replaced.
        is_canary: whether it is about the canary's pods alone.
        component: the transformer or the explainer, if it is about the pods of this one alone.
        is_awaited: whether services are still to be reconciled after the operator's start, so that a pause is not known yet.
    """

    state: UpgradeState
    template: str
    operator: str
    limit: int = 1
    paused_by: str = ""
    held_by: str = ""
    time_limit_s: float = 1800.0
    is_overdue: bool = False
    since: str = ""
    is_canary: bool = False
    component: str = ""
    is_awaited: bool = False

    @property
    def is_awaited_by_others(self) -> bool:
        """Whether others wait until its pods are ready, or its time is over."""
        return self.state is UpgradeState.UPGRADING and not self.is_overdue


FAILED: typing.Final = "UpgradeFailed"
"""The reason of a service whose pods do not become ready with the new template."""


_WAITING: typing.Final = ("UpgradePending", "UpgradePaused")


def upgraded(upgrade: Upgrade, blocked: str, before: Condition | None = None) -> Condition:
    """The condition.

    Args:
        upgrade: the upgrade of the service.
        blocked: why its pods do not become ready; "" while they may.
        before: what the status says now; None if nothing.
    """
    waits = upgrade.state in (UpgradeState.WAITING, UpgradeState.PAUSED)
    if upgrade.is_awaited and waits and before is not None and before.reason in _WAITING:
        return before
    return _condition(upgrade, blocked)


def _condition(upgrade: Upgrade, blocked: str) -> Condition:
    new = f"operator {upgrade.operator} has another pod template than operator {upgrade.template}"
    if upgrade.operator == upgrade.template:
        new = (
            "with the present profile and defaults of the operator the pod template is another one"
        )
    keeps = f"{new}; the pods keep theirs"
    since = f"since {upgrade.since} the pods get the template of operator {upgrade.operator}"
    status: State = "False"
    reason: Reason
    match upgrade.state:
        case UpgradeState.CURRENT:
            status, reason, message = "True", "Current", ""
        case UpgradeState.NEWER:
            status, reason = "True", "NewerOperator"
            message = f"the pods have the template of operator {upgrade.template}, and this is {upgrade.operator}: they keep it until spec.predictor changes"
        case UpgradeState.SKIPPED:
            status, reason = "True", "UpgradeSkipped"
            message = f"{keeps} until spec.predictor changes, because {upgrade.held_by}"
        case UpgradeState.HELD:
            reason, message = "UpgradePaused", f"{keeps}, because {upgrade.held_by}"
        case UpgradeState.UPGRADING:
            reason, message = (
                ("UpgradeFailed", f"{since}, {_failed(upgrade)}: {blocked}")
                if blocked
                else ("Upgrading", since)
            )
        case UpgradeState.PAUSED:
            reason = "UpgradePaused"
            message = f"{keeps}, because {upgrade.paused_by} has got its new one and does not become ready; {_minutes(upgrade)} after that began, the next service is upgraded"
        case UpgradeState.WAITING:
            reason = "UpgradePending"
            message = f"{new}; the pods are replaced later, those of {upgrade.limit} services at a time (--max-concurrent-restarts)"
    return Condition(UPGRADED, status, reason, message)


def _failed(upgrade: Upgrade) -> str:
    others = f"no other service is upgraded for up to {_minutes(upgrade)}"
    if upgrade.is_overdue:
        others = f"others no longer wait for it, after {_minutes(upgrade)}"
    return f"and they do not become ready ({others})"


def _minutes(upgrade: Upgrade) -> str:
    minutes = upgrade.time_limit_s / 60
    return f"{minutes:g} minute{'s' * (minutes != 1)}"
