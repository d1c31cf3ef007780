"""Priority levels under load, in virtual time: how long each level waits, and what each level's queue policy does meanwhile.

One instance takes 10 ms for a batch of one; requests come faster than that.
"""

import asyncio
import contextlib

import hypothesis
import looptime
import pytest
from hypothesis import strategies as st

from naiad.config.model_config import DynamicBatching, QueuePolicy, TimeoutAction
from naiad.core.inference import Inference
from naiad.errors import FailureReason, InferenceError
from tests.support.scheduled import ScheduledModel

pytestmark = pytest.mark.looptime


def levels(count: int, default: int, **policies: QueuePolicy) -> DynamicBatching:
    """Priority levels; `policies` by `level_N`, or `default`."""
    return DynamicBatching(
        priority_levels=count,
        default_priority_level=default,
        default_queue_policy=policies.pop("default", QueuePolicy()),
        queue_policies={int(name.removeprefix("level_")): each for name, each in policies.items()},
    )


def one_by_one(batching: DynamicBatching, max_batch_size: int = 1) -> ScheduledModel:
    return ScheduledModel(batching, max_batch_size=max_batch_size, takes_s=0.010)


async def overload(
    model: ScheduledModel, *, seconds: float, every_s: float, priority: int
) -> list[Inference]:
    """Send requests of a level at a steady rate, whether they are taken or not."""
    sent: list[Inference] = []
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        with contextlib.suppress(InferenceError):
            sent.append(model.send(priority=priority))
        await asyncio.sleep(every_s)
    return sent


async def test_the_highest_level_waits_for_one_batch_at_most_however_many_others_wait() -> None:
    model = one_by_one(levels(2, 2))
    low = asyncio.create_task(overload(model, seconds=2, every_s=0.002, priority=2))
    await asyncio.sleep(0.5)
    waited = []
    for _ in range(20):
        inference = model.send(priority=1)
        sent_ms = model.now_ms
        await asyncio.sleep(0.033)
        waited.append(model.when(inference) - sent_ms)
    assert max(waited) <= 20.0  # what is left of the batch in execution, and its own
    for each in await low:
        each.cancel()


async def test_a_full_level_refuses_its_own_requests_and_no_others() -> None:
    model = one_by_one(levels(2, 2, level_2=QueuePolicy(max_queue_size=3)))
    model.send()
    waiting = [model.send() for _ in range(3)]
    with pytest.raises(
        InferenceError, match="Exceeds maximum queue size: 3 requests wait already for priority level 2"
    ):  # fmt: skip
        model.send()
    high = [model.send(priority=1) for _ in range(5)]
    await asyncio.sleep(1)
    assert [model.when(each) for each in high] == [20.0, 30.0, 40.0, 50.0, 60.0]
    assert [model.when(each) for each in waiting] == [70.0, 80.0, 90.0]
    model.nothing_left()


async def test_a_level_that_gets_no_turn_is_rejected_when_its_timeout_is_over() -> None:
    policy = QueuePolicy(default_timeout_us=100_000)
    model = one_by_one(levels(2, 2, level_2=policy))
    high = asyncio.create_task(overload(model, seconds=0.5, every_s=0.005, priority=1))
    await asyncio.sleep(0.0201)
    starved = model.send(priority=2)
    await asyncio.sleep(0.15)
    assert model.reason(starved) is FailureReason.REJECTED
    assert model.when(starved) == pytest.approx(120.1, abs=1.0)
    for each in await high:
        each.cancel()


async def test_an_own_timeout_counts_only_in_a_level_that_allows_it() -> None:
    allows = QueuePolicy(default_timeout_us=500_000, allow_timeout_override=True)
    model = one_by_one(
        levels(3, 2, level_1=allows, level_2=QueuePolicy(default_timeout_us=500_000))
    )
    for _ in range(20):
        model.send(priority=1)
    short, ignored, none = (model.send(priority=each, timeout_us=50_000) for each in (1, 2, 3))
    await asyncio.sleep(1)
    assert (model.reason(short), model.when(short)) == (FailureReason.REJECTED, 50.0)
    assert (model.when(ignored), model.when(none)) == (210.0, 220.0)


async def test_a_delayed_request_goes_behind_its_level_but_before_the_next_one() -> None:
    delays = QueuePolicy(default_timeout_us=5_000, timeout_action=TimeoutAction.DELAY)
    model = one_by_one(levels(3, 2, level_2=delays))
    model.send(priority=1)
    late, low = model.send(priority=2), model.send(priority=3)
    await asyncio.sleep(0.007)
    fresh = model.send(priority=2)
    await asyncio.sleep(1)
    assert [model.when(each) for each in (fresh, late, low)] == [20.0, 30.0, 40.0]


async def test_batches_are_filled_across_levels_from_the_highest_on() -> None:
    model = one_by_one(levels(3, 2), max_batch_size=4)
    model.send()
    await asyncio.sleep(0.001)
    sent = [model.send(priority=each) for each in (3, 3, 2, 1, 2, 3)]
    await asyncio.sleep(1)
    assert [len(batch) for batch in model.host.batches] == [1, 4, 2]
    assert [model.when(each) for each in sent] == [20.0, 30.0, 20.0, 20.0, 20.0, 30.0]


@hypothesis.given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 30)), min_size=1, max_size=40),
    st.integers(1, 4),
)
def test_no_request_runs_while_a_higher_one_or_an_earlier_one_of_its_level_waits(
    arrivals: list[tuple[int, int]], max_batch_size: int
) -> None:
    async def run() -> None:
        model = one_by_one(levels(3, 2), max_batch_size=max_batch_size)
        sent: list[tuple[int, int, Inference]] = []
        for number, (priority, pause_ms) in enumerate(arrivals):
            await asyncio.sleep(pause_ms / 1000)
            sent.append((priority, number, model.send(priority=priority)))
        await asyncio.sleep(5)
        model.nothing_left()
        begun = {id(each): at for at, batch in enumerate(model.host.batches) for each in batch}
        for batch_number, batch in enumerate(model.host.batches):
            started_ms = model.when(batch[0]) - 10.0
            lowest = max((p, n) for p, n, each in sent if begun[id(each)] == batch_number)
            waiting = [
                (p, n)
                for p, n, each in sent
                if begun[id(each)] > batch_number and each.queued_ns / 1e6 < started_ms
            ]
            assert all(each > lowest for each in waiting)

    loop = looptime.new_event_loop()
    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
