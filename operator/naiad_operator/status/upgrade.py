"""The Upgraded condition: whether the pods have the template that this operator renders, and if not, what they wait for."""

import dataclasses
import enum
import typing

from naiad_operator.status.conditions import UPGRADED, Condition


class UpgradeState(enum.Enum):
    """Where a service is in the upgrade to this operator."""

    CURRENT = enum.auto()
    WAITING = enum.auto()
    PAUSED = enum.auto()
    UPGRADING = enum.auto()
    NEWER = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """The upgrade of one service.

    Attributes:
        template: the version of the operator that rendered the present pod template.
        operator: the version of this operator.
        limit: how many services replace their pods at a time.
        paused_by: the service because of which no other is upgraded, as namespace/name.
        since: when the pods began to be replaced.
        is_canary: whether it is about the canary's pods alone.
        is_awaited: whether services are still to be reconciled after the operator's start, so that a pause is not known yet.
    """

    state: UpgradeState
    template: str
    operator: str
    limit: int = 1
    paused_by: str = ""
    since: str = ""
    is_canary: bool = False
    is_awaited: bool = False


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
    match upgrade.state:
        case UpgradeState.CURRENT:
            return Condition(UPGRADED, "True", "Current", "")
        case UpgradeState.NEWER:
            message = f"the pods have the template of operator {upgrade.template}, and this is {upgrade.operator}: they keep it until spec.predictor changes"
            return Condition(UPGRADED, "True", "NewerOperator", message)
        case UpgradeState.UPGRADING if blocked:
            message = f"since {upgrade.since} the pods get the template of operator {upgrade.operator}, and they do not become ready, so no other service is upgraded: {blocked}"
            return Condition(UPGRADED, "False", FAILED, message)
        case UpgradeState.UPGRADING:
            message = (
                f"since {upgrade.since} the pods get the template of operator {upgrade.operator}"
            )
            return Condition(UPGRADED, "False", "Upgrading", message)
        case UpgradeState.PAUSED:
            message = f"{new}; the pods keep theirs, because {upgrade.paused_by} has got its new one and does not become ready"
            return Condition(UPGRADED, "False", "UpgradePaused", message)
        case UpgradeState.WAITING:
            message = f"{new}; the pods are replaced later, those of {upgrade.limit} services at a time (--max-concurrent-restarts)"
            return Condition(UPGRADED, "False", "UpgradePending", message)
