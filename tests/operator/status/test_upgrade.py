"""The Upgraded condition: what it says in each state, and when pods that get a new template count as blocked."""

import re
import typing

import pytest

from naiad_operator.status import ModelState
from naiad_operator.status.upgrade import Upgrade, UpgradeState, upgraded
from tests.support import manifests, observations

NOW = "2026-01-31T12:00:00Z"


def upgrade(state: UpgradeState, **fields: typing.Any) -> Upgrade:
    known = {"template": "0.1.0", "operator": "0.2.0", "limit": 3, "since": NOW}
    return Upgrade(state=state, **{**known, **fields})


@pytest.mark.parametrize(
    ("given", "blocked", "status", "reason", "words"),
    [
        (upgrade(UpgradeState.CURRENT), "", "True", "Current", ""),
        (upgrade(UpgradeState.CURRENT), "CrashLoopBackOff", "True", "Current", ""),
        (upgrade(UpgradeState.WAITING), "", "False", "UpgradePending", "than operator 0.1.0; .* 3 services at a time"),
        (upgrade(UpgradeState.WAITING, template="0.2.0"), "", "False", "UpgradePending", "present profile and defaults"),
        (upgrade(UpgradeState.PAUSED, paused_by="models/a"), "", "False", "UpgradePaused", "because models/a "),
        (upgrade(UpgradeState.UPGRADING), "", "False", "Upgrading", f"since {NOW}"),
        (upgrade(UpgradeState.UPGRADING), "ImagePullBackOff: no", "False", "UpgradeFailed", "ImagePullBackOff: no"),
        (upgrade(UpgradeState.PAUSED, paused_by="x"), "", "False", "UpgradePaused", "30 minutes after that began, the next service"),
        (upgrade(UpgradeState.HELD, held_by="so"), "", "False", "UpgradePaused", "keep theirs, because so"),
        (upgrade(UpgradeState.SKIPPED, held_by="so"), "", "True", "UpgradeSkipped", "until spec.predictor changes, because so"),
        (upgrade(UpgradeState.UPGRADING, time_limit_s=60), "X: no", "False", "UpgradeFailed", "for up to 1 minute.: X: no"),
        (upgrade(UpgradeState.UPGRADING, is_overdue=True), "X: no", "False", "UpgradeFailed", "no longer wait for it, after 30 minutes"),
        (upgrade(UpgradeState.NEWER, template="0.3.0"), "", "True", "NewerOperator", "0.3.0, and this is 0.2.0"),
    ],
)  # fmt: skip
def test_what_the_condition_says(
    given: Upgrade, blocked: str, status: str, reason: str, words: str
) -> None:
    condition = upgraded(given, blocked)
    assert (condition.status, condition.reason) == (status, reason)
    assert re.search(words, condition.message)


def test_until_a_pause_is_known_the_condition_stays() -> None:
    """After a restart the operator does not know yet whether a service that is upgraded becomes ready."""
    paused = upgraded(upgrade(UpgradeState.PAUSED, paused_by="models/a"), "")
    started = upgrade(UpgradeState.WAITING, is_awaited=True)
    assert upgraded(started, "", paused) == paused
    assert upgraded(started, "", None).reason == "UpgradePending"
    current = upgraded(upgrade(UpgradeState.CURRENT), "")
    assert upgraded(started, "", current).reason == "UpgradePending"
    known = upgrade(UpgradeState.WAITING)
    assert upgraded(known, "", paused).reason == "UpgradePending"


def test_the_condition_of_a_paused_service_survives_a_restart() -> None:
    resource = manifests.resource(replicas=2)
    paused = upgrade(UpgradeState.PAUSED, paused_by="models/a")
    resource["status"] = observations.status(resource, upgrade=paused)
    started = upgrade(UpgradeState.WAITING, is_awaited=True)
    assert observations.status(resource, upgrade=started) == resource["status"]


def reason_of(**observed: typing.Any) -> str:
    given = observations.status(upgrade=upgrade(UpgradeState.UPGRADING), **observed)
    return observations.condition(given, "Upgraded")[1]


LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}


def test_pods_that_start_are_not_blocked_and_pods_that_fail_are() -> None:
    starting = {("Deployment", "demo"): observations.deployment(updated=1, ready=1)}
    late = {("Deployment", "demo"): observations.deployment(ready=1, conditions=[LATE])}
    crashing = observations.ended("error: no such option")
    assert reason_of(children=starting) == "Upgrading"
    assert reason_of(children=starting, pods=[crashing]) == "UpgradeFailed"
    assert reason_of(children=late) == "UpgradeFailed"
    broken = ModelState(name="a", version="1", state="UNAVAILABLE", reason="no such file")
    assert reason_of(children=starting, models=[broken]) == "UpgradeFailed"
