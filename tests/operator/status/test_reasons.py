"""Reasons are API: docs/conditions.md has each of them, with the conditions and statuses that they come with, and no other."""

import pathlib
import re
import typing

import pytest

from naiad_operator.status import reasons
from tests.operator.status.cases import NOT, READY
from tests.support.observations import status

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "conditions.md"
ROWS = re.findall(
    r"^\| (\w+) \| (True|False|Unknown) \| `(\w+)` \| (.+) \| (.*)\|$",
    PAGE.read_text(),
    re.MULTILINE,
)
TABLE = {row[:3] for row in ROWS}


def test_the_page_has_every_reason_and_no_other() -> None:
    assert {reason for _, _, reason in TABLE} == set(typing.get_args(reasons.Reason))


def test_every_row_but_successes_says_what_to_do() -> None:
    silent = [row[2] for row in ROWS if row[1] != "True" and not row[4].strip()]
    assert silent == ["Complete", "Running"]


def test_no_row_is_written_twice() -> None:
    assert len(ROWS) == len(TABLE)


@pytest.mark.parametrize("case", [*READY, *NOT])
def test_a_condition_has_a_row(case: str) -> None:
    given = status(**(READY[case] if case in READY else NOT[case][0]))
    conditions = {c["type"]: c for c in given["conditions"]}
    ready = conditions.pop("Ready")
    stalled = conditions.pop("Stalled", ready)
    assert stalled["reason"] == ready["reason"]
    shown = {(c["type"], c["status"], c["reason"]) for c in conditions.values()}
    assert shown <= TABLE
    if ready["status"] == "False":
        # Of a condition that fails, or of a rollout or stop in progress.
        assert ready["reason"] in {c["reason"] for c in conditions.values()}
