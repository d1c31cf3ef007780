"""Which template a Deployment gets, and when: a table of what is recorded, rendered and running."""

import dataclasses
import typing

import pytest

from naiad_operator.builders.workload.image import Recorded
from naiad_operator.status.upgrade import UpgradeState
from naiad_operator.upgrade import choice
from naiad_operator.upgrade.choice import Change, Rendered, Rollout
from naiad_operator.upgrade.record import Mark, Record
from naiad_operator.versions import Version

OLD, OWN, NEWER = Version(0, 1, 0), Version(0, 2, 0), Version(0, 3, 0)
NOW, BEFORE = "2026-01-31T12:00:00Z", "2026-01-31T11:00:00Z"
TEMPLATE = {"spec": {"containers": [{"name": "server", "args": ["--old"]}]}}
NEW_TEMPLATE = {"spec": {"containers": [{"name": "server", "args": ["--new"]}]}}
SERVING = Rollout(desired=3, total=3, updated=3, available=3)
RECORD = Record(
    operator=OLD, template_version=OLD, template=TEMPLATE, made_from=Recorded("image", "pods", OLD)
)
MARKED = dataclasses.replace(
    RECORD, operator=OWN, template_version=OWN, template=NEW_TEMPLATE, mark=Mark(BEFORE, 2)
)


def rendered(template: dict[str, typing.Any] = NEW_TEMPLATE, pods: str = "pods") -> Rendered:
    made_from = Recorded("new image", pods, OWN)
    return Rendered(template=template, made_from=made_from, kept_replicas=3, operator=OWN)


def change(
    record: Record | None, made: Rendered, pods: Rollout = SERVING, *, downgrade: bool = False
) -> Change:
    return choice.change(record, made, pods, allow_downgrade=downgrade)


def of(record: Record, **changes: typing.Any) -> Record:
    return dataclasses.replace(record, **changes)


@pytest.mark.parametrize(
    ("record", "made", "pods", "expected"),
    [
        (None, rendered(), Rollout(), Change.FREE),
        (RECORD, rendered(TEMPLATE), SERVING, Change.SAME),
        (RECORD, rendered(TEMPLATE, pods="edited"), SERVING, Change.SAME),
        (RECORD, rendered(), SERVING, Change.STAGED),
        (RECORD, rendered(pods="edited"), SERVING, Change.FREE),
        (RECORD, rendered(), Rollout(desired=0), Change.FREE),  # suspended
        (RECORD, rendered(), Rollout(desired=3), Change.FREE),  # a quota refuses its pods
        (of(RECORD, template_version=NEWER), rendered(), SERVING, Change.NEWER),
        (of(RECORD, template_version=NEWER), rendered(pods="edited"), SERVING, Change.FREE),
        (of(RECORD, template_version=NEWER), rendered(TEMPLATE), SERVING, Change.SAME),
        (of(RECORD, template_version=OWN), rendered(), SERVING, Change.STAGED),  # other defaults
        (
            of(MARKED, template=TEMPLATE),
            rendered(),
            SERVING,
            Change.BEGUN,
        ),  # a release that fixes it
    ],
    ids=str,
)
def test_why_a_template_changes(
    record: Record | None, made: Rendered, pods: Rollout, expected: Change
) -> None:
    assert change(record, made, pods) is expected


def test_an_administrator_may_go_back_to_an_older_operator() -> None:
    newer = of(RECORD, operator=NEWER, template_version=NEWER)
    assert change(newer, rendered(), downgrade=True) is Change.STAGED
    made = choice.choose(Change.STAGED, newer, rendered(), SERVING, admitted=True, now=NOW)
    assert (made.operator, made.template_version) == (OWN, OWN)


def choose(
    why: Change, record: Record | None, pods: Rollout = SERVING, *, admitted: bool = False
) -> Record:
    made = choice.choose(why, record, rendered(), pods, admitted=admitted, now=NOW)
    assert made.kept_replicas == 3
    return made


@pytest.mark.parametrize(
    ("why", "record", "admitted"),
    [(Change.FREE, None, False), (Change.FREE, MARKED, False), (Change.STAGED, RECORD, True)],
)
def test_the_new_template_comes_with_the_record_of_what_it_is_made_from(
    why: Change,
    record: Record | None,
    admitted: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    made = choose(why, record, admitted=admitted)
    assert (made.template, made.template_version) == (NEW_TEMPLATE, OWN)
    assert made.made_from == rendered().made_from
    assert made.mark == (Mark(NOW, 3) if admitted else None)


@pytest.mark.parametrize(
    ("why", "record"), [(Change.STAGED, RECORD), (Change.NEWER, of(RECORD, template_version=NEWER))]
)
def test_a_service_that_waits_keeps_its_template_and_what_it_was_made_from(
    why: Change, record: Record
) -> None:
    made = choose(why, record)
    assert made.template is record.template
    assert (made.template_version, made.made_from) == (record.template_version, record.made_from)
    assert made.operator == OWN


@pytest.mark.parametrize(
    ("pods", "is_finished"),
    [
        (Rollout(desired=3, total=3, updated=3, available=2), True),  # as many as before
        (Rollout(desired=3, total=3, updated=3, available=1), False),
        (Rollout(desired=3, total=3, updated=2, available=3), False),
        (Rollout(desired=3, total=3, updated=3, available=3, current=False), False),
        (Rollout(desired=1, total=1, updated=1, available=1), True),  # scaled down meanwhile
        (Rollout(desired=0), True),
    ],
    ids=str,
)
def test_an_upgrade_ends_when_as_many_pods_serve_as_before(
    pods: Rollout,
    is_finished: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    made = choose(Change.SAME, MARKED, pods)
    assert made.mark == (None if is_finished else MARKED.mark)


def test_pods_that_did_not_serve_are_not_waited_for() -> None:
    stuck = Rollout(desired=3, total=3, updated=3, available=0, late=True)
    assert choose(Change.STAGED, RECORD, stuck, admitted=True).mark is None


def test_a_deployment_whose_record_was_just_written_is_not_passed_over() -> None:
    """Annotations raise its generation; the order of services must not depend on when its controller sees that."""
    assert dataclasses.replace(SERVING, current=False).serves
    assert not dataclasses.replace(SERVING, updated=1).serves
    assert not dataclasses.replace(SERVING, available=0).serves


def test_another_new_template_before_the_turn_has_ended_keeps_the_place() -> None:
    made = choose(Change.BEGUN, of(MARKED, template=TEMPLATE))
    assert (made.template, made.mark) == (NEW_TEMPLATE, Mark(NOW, 2))


@pytest.mark.parametrize(
    ("why", "record", "admitted", "paused_by", "expected"),
    [
        (Change.SAME, RECORD, False, "", UpgradeState.CURRENT),
        (Change.SAME, MARKED, False, "", UpgradeState.UPGRADING),
        (Change.FREE, RECORD, False, "models/a", UpgradeState.CURRENT),
        (Change.STAGED, RECORD, False, "", UpgradeState.WAITING),
        (Change.STAGED, RECORD, False, "models/a", UpgradeState.PAUSED),
        (Change.STAGED, RECORD, True, "", UpgradeState.UPGRADING),
        (Change.NEWER, of(RECORD, template_version=NEWER), False, "", UpgradeState.NEWER),
    ],
    ids=str,
)
def test_the_state_that_the_condition_reports(
    why: Change,
    record: Record,
    admitted: bool,  # noqa: FBT001 - a parameter of the table
    paused_by: str,
    expected: UpgradeState,
) -> None:
    pods = Rollout(desired=3, total=3, updated=1, available=2)
    pods = SERVING if admitted else pods
    made = choice.choose(why, record, rendered(), pods, admitted=admitted, now=NOW)
    given = choice.state(why, made, rendered(), limit=1, paused_by=paused_by)
    assert given.state is expected


def test_the_numbers_are_those_of_the_deployment() -> None:
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
    live = {
        "metadata": {"generation": 4},
        "spec": {"replicas": 3},
        "status": {
            "observedGeneration": 3,
            "replicas": 4,
            "updatedReplicas": 1,
            "availableReplicas": 2,
            "conditions": [{"type": "Available", "status": "True"}, late],
        },
    }
    assert choice.rollout(live) == Rollout(
        desired=3, total=4, updated=1, available=2, current=False, late=True
    )
    assert choice.rollout({"metadata": {}, "spec": {}}) == Rollout(desired=1)
