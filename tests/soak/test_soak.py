"""A short soak in every test run; `make soak` is the long one."""

import pathlib

import pytest

from tests.soak.plan import Plan
from tests.soak.run import run


@pytest.mark.timeout(600)
def test_kills_cancels_and_reloads_leave_no_request_without_an_end_and_nothing_behind(
    tmp_path: pathlib.Path,
) -> None:
    plan = Plan(requests=1000, kill_every_s=1.0, reload_every_s=0.4, tenants=8)

    result = run(tmp_path, plan, progress=lambda _: None)

    assert result.faults == []
    assert sum(result.outcomes.values()) == plan.requests
    assert result.reloads
