"""The test hook that holds requests, and the end of a scheduler."""

import asyncio
import typing

import pytest

from naiad.config.model_config import DynamicBatching, QueuePolicy
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.metrics.statistics import CloseReason
from naiad.scheduling.factory import HOLD_VARIABLE
from tests.support.scheduled import ScheduledModel, ids, turn

pytestmark = pytest.mark.looptime


async def test_the_hold_of_the_environment_keeps_requests_until_enough_have_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(HOLD_VARIABLE, "3")
    policy = QueuePolicy(default_timeout_us=1_000)
    model = ScheduledModel(DynamicBatching(default_queue_policy=policy), takes_s=0.001)
    late = [model.send(), model.send()]
    await asyncio.sleep(1)
    assert model.answered == []
    last = model.send()
    await asyncio.sleep(1)
    assert model.host.ids == [ids(last)]
    assert [model.reason(each) for each in late] == [FailureReason.REJECTED] * 2


async def test_the_hold_is_not_for_the_default_scheduler_and_must_be_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(HOLD_VARIABLE, "3")
    direct = ScheduledModel()
    direct.send()
    assert len(direct.host.batches) == 1
    monkeypatch.setenv(HOLD_VARIABLE, "many")
    model = ScheduledModel(DynamicBatching())
    model.send()
    await turn()
    assert len(model.host.batches) == 1


@pytest.mark.parametrize("batching", [None, DynamicBatching(max_queue_delay_us=60_000_000)])
async def test_stop_refuses_new_requests_finishes_all_it_has_and_closes_the_hosts(
    batching: DynamicBatching | None,
) -> None:
    model = ScheduledModel(batching, max_batch_size=2, instances=2, takes_s=0.010)
    arrived = [model.send() for _ in range(7)]
    stopping = asyncio.create_task(model.scheduler.stop())
    await turn()
    with pytest.raises(InferenceError) as caught:
        model.send()
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert (
        "Server is stopping, scheduler for model has stopped accepting new inference requests"
        in caught.value.message
    )
    assert [host.closed for host in model.hosts] == [0, 0]
    await stopping
    assert [model.error(each) for each in arrived] == [None] * 7
    assert model.now_ms <= 40
    assert all(host.closed for host in model.hosts)
    model.nothing_left()


async def test_stop_sends_a_forming_batch_and_says_why() -> None:
    model = ScheduledModel(DynamicBatching(max_queue_delay_us=60_000_000), takes_s=0.001)
    model.send()
    await turn()
    await model.scheduler.stop()
    assert model.statistics.closes[CloseReason.STOP] == 1


async def test_a_stopped_scheduler_leaves_no_timer_behind() -> None:
    policy = QueuePolicy(default_timeout_us=60_000_000)
    model = ScheduledModel(DynamicBatching(default_queue_policy=policy), takes_s=0.001)
    model.send()
    await model.scheduler.stop()
    loop = asyncio.get_running_loop()
    timers = typing.cast("list[asyncio.TimerHandle]", vars(loop)["_scheduled"])
    assert [timer for timer in timers if not timer.cancelled()] == []


async def test_stop_ends_at_once_without_requests_and_when_called_again() -> None:
    model = ScheduledModel(DynamicBatching())
    await asyncio.gather(model.scheduler.stop(), model.scheduler.stop())
    await model.scheduler.stop()
    assert model.now_ms == 0
    assert model.host.closed


async def test_stop_lets_queued_requests_time_out_and_be_cancelled() -> None:
    policy = QueuePolicy(default_timeout_us=5_000)
    model = ScheduledModel(
        DynamicBatching(default_queue_policy=policy), max_batch_size=1, takes_s=1
    )
    running, expires, leaves = model.send(), model.send(), model.send()
    await turn()
    stopping = asyncio.create_task(model.scheduler.stop())
    await turn()
    leaves.cancel()
    await stopping
    assert [model.reason(each) for each in (running, expires, leaves)] == [
        None,
        FailureReason.REJECTED,
        FailureReason.CANCELED,
    ]
    assert model.when(expires) == pytest.approx(5, abs=1)
    model.nothing_left()


async def test_stop_releases_requests_that_the_environment_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(HOLD_VARIABLE, "9")
    model = ScheduledModel(DynamicBatching(), takes_s=0.001)
    held = model.send()
    await model.scheduler.stop()
    assert model.error(held) is None
