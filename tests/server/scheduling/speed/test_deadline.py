"""`naiad_deadline_ms` and the state of the queue, in virtual time."""

import asyncio
import typing

import pytest

from naiad.config.model_config import DynamicBatching
from naiad.errors import ErrorCode, FailureReason, InferenceError
from tests.support.scheduled import ScheduledModel

pytestmark = pytest.mark.looptime


async def warm(model: ScheduledModel) -> None:
    """A batch has run, so durations are known."""
    model.send()
    await asyncio.sleep(1)


async def test_a_request_that_cannot_be_met_is_refused_when_it_comes_and_one_that_can_is_not() -> None:  # fmt: skip
    model = ScheduledModel(takes_s=0.010)
    await warm(model)
    for _ in range(4):
        model.send()
    await asyncio.sleep(0.004)
    with pytest.raises(InferenceError) as refused:
        model.send(parameters={"naiad_deadline_ms": 45})
    assert (refused.value.code, refused.value.reason) == (
        ErrorCode.UNAVAILABLE,
        FailureReason.REJECTED,
    )
    assert (
        "The deadline of 45 ms (naiad_deadline_ms) cannot be met: model 'm' would begin the request in about 36.0 ms and respond after about "
        "46.0 ms (requests that wait: 3, instances: 1)"
    ) in refused.value.message
    taken = model.send(parameters={"naiad_deadline_ms": 47.5})
    came_ms = model.now_ms
    await asyncio.sleep(1)
    assert model.when(taken) - came_ms == pytest.approx(46.0)
    model.nothing_left()


async def test_without_the_parameter_and_before_the_first_batch_nothing_is_refused() -> None:
    model = ScheduledModel(takes_s=0.010)
    for _ in range(20):
        model.send(parameters={"naiad_deadline_ms": 1})
    await asyncio.sleep(1)
    for _ in range(20):
        model.send(parameters={"other": 1})
    await asyncio.sleep(1)
    model.nothing_left()


async def test_a_request_of_higher_priority_is_taken_where_a_low_one_is_refused() -> None:
    model = ScheduledModel(
        DynamicBatching(priority_levels=2, default_priority_level=2), max_batch_size=1, takes_s=0.010
    )  # fmt: skip
    await warm(model)
    for _ in range(10):
        model.send()
    soon = {"naiad_deadline_ms": 30}
    with pytest.raises(InferenceError, match="cannot be met"):
        model.send(parameters=soon)
    high = model.send(priority=1, parameters=soon)
    await asyncio.sleep(1)
    assert model.error(high) is None


@pytest.mark.parametrize("value", [0, -3, "50", True, float("nan")])
async def test_a_deadline_that_is_not_a_number_of_milliseconds_is_invalid(
    value: typing.Any,
) -> None:
    model = ScheduledModel()
    with pytest.raises(InferenceError, match="expected the milliseconds") as invalid:
        model.send(parameters={"naiad_deadline_ms": value})
    assert invalid.value.code is ErrorCode.INVALID_ARG


@pytest.mark.parametrize("value", [1e305, float("inf"), 10**400], ids=["float", "inf", "int"])
async def test_a_deadline_beyond_all_times_is_met(value: float) -> None:
    model = ScheduledModel(takes_s=0.010)
    await warm(model)
    sent = model.send(parameters={"naiad_deadline_ms": value})
    await asyncio.sleep(1)
    assert model.error(sent) is None


async def test_the_state_of_the_queue() -> None:
    levels = DynamicBatching(priority_levels=3, default_priority_level=2)
    model = ScheduledModel(levels, instances=2, max_batch_size=1, takes_s=0.010)
    assert model.statistics.queue is not None
    idle = model.statistics.queue()
    assert (idle.waiting, idle.busy, idle.instances, idle.batch_ns) == (0, 0, 2, 0)
    assert idle.levels[2].estimated_wait_ns is None
    await warm(model)
    for priority in (2, 2, 2, 3, 1):
        model.send(priority=priority)
    await asyncio.sleep(0.006)
    state = model.statistics.queue()
    assert {level: each.waiting for level, each in state.levels.items()} == {1: 0, 2: 2, 3: 1} or (
        {level: each.waiting for level, each in state.levels.items()} == {2: 2, 3: 1}
    )
    assert (state.waiting, state.busy, state.batch_ns) == (3, 2, 10_000_000)
    assert state.oldest_wait_ns == 6_000_000
    waits = {level: each.estimated_wait_ns for level, each in state.levels.items()}
    assert (waits[2], waits[3]) == (14_000_000, 14_000_000)
    await asyncio.sleep(1)
    await model.scheduler.stop()
    assert model.statistics.queue is None
