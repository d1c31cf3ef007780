"""The scheduler in virtual time: which requests share a batch, and which are rejected or cancelled."""

import asyncio
import re

import pytest

from naiad.config.model_config import DynamicBatching, QueuePolicy, TimeoutAction
from naiad.core.inference import Inference
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts.host import OnOutcome
from naiad.metrics.statistics import CloseReason
from naiad.scheduling.batching import BatchRun, Dispatch, WaitUntil, next_batch
from tests.support.inferences import (
    make_inference,
    make_spec,
    make_tensor,
)
from tests.support.scheduled import MS, ScheduledModel, ids, turn

pytestmark = pytest.mark.looptime


async def test_the_default_scheduler_sends_each_request_alone_and_at_once_to_a_free_instance() -> None:  # fmt: skip
    model = ScheduledModel(instances=2)
    first, second, third, fourth = (model.send(rows=2) for _ in range(4))
    assert [host.ids for host in model.hosts] == [[ids(first)], [ids(second)]]
    model.hosts[1].finish()
    model.hosts[0].finish()
    assert [host.ids[-1] for host in model.hosts] == [ids(fourth), ids(third)]
    assert model.statistics.closes[CloseReason.SINGLE] == 4


async def test_requests_of_one_turn_of_the_loop_share_a_batch_although_the_delay_is_zero() -> None:
    model = ScheduledModel(DynamicBatching())
    arrived = [model.send() for _ in range(5)]
    assert model.host.batches == []
    await turn()
    assert model.host.ids == [ids(*arrived)]
    assert model.statistics.closes[CloseReason.IDLE] == 1


async def test_what_queues_while_the_instance_is_busy_runs_in_the_fewest_batches() -> None:
    model = ScheduledModel(DynamicBatching(), takes_s=0.010)
    model.send()
    await turn()
    for _ in range(20):
        model.send()
    await asyncio.sleep(1)
    assert [len(batch) for batch in model.host.batches] == [1, 8, 8, 4]
    assert model.statistics.closes[CloseReason.FULL] == 2
    assert {count: entry.count for count, entry in model.statistics.batches.items()} == {
        1: 1,
        8: 2,
        4: 1,
    }
    model.nothing_left()


async def test_several_instances_work_side_by_side() -> None:
    model = ScheduledModel(DynamicBatching(), instances=3, takes_s=0.010)
    for _ in range(24):
        model.send()
    await asyncio.sleep(0.011)
    assert [len(host.batches) for host in model.hosts] == [1, 1, 1]
    assert len(model.answered) == 24


async def test_a_request_waits_for_others_no_longer_than_the_delay() -> None:
    model = ScheduledModel(DynamicBatching(max_queue_delay_us=5_000), takes_s=0.001)
    first = model.send()
    await asyncio.sleep(0.004)
    second = model.send()
    await asyncio.sleep(0.1)
    assert model.host.ids == [ids(first, second)]
    assert (model.when(first), model.when(second)) == (6.0, 6.0)
    assert model.statistics.closes[CloseReason.DELAY] == 1


async def test_a_full_batch_does_not_wait_for_the_delay() -> None:
    model = ScheduledModel(DynamicBatching(max_queue_delay_us=10_000_000), takes_s=0.001)
    arrived = []
    for _ in range(8):
        arrived.append(model.send())
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.010)
    assert model.host.ids == [ids(*arrived)]
    assert model.when(arrived[-1]) == 8.0


async def test_arrivals_that_cannot_complete_a_batch_cause_no_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decisions = 0

    def count(run: BatchRun, now: int, *, draining: bool) -> Dispatch | WaitUntil | None:
        nonlocal decisions
        decisions += 1
        return next_batch(run, now, draining=draining)

    monkeypatch.setattr("naiad.scheduling.dynamic.next_batch", count)
    model = ScheduledModel(DynamicBatching(max_queue_delay_us=5_000_000), takes_s=0.001)
    for _ in range(8):
        model.send()
        await turn()
    assert [len(batch) for batch in model.host.batches] == [8]
    assert decisions == 2, "at the first request and at the eighth"


async def test_a_host_that_answers_at_once_does_not_nest_ten_thousand_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = ScheduledModel()
    submit = model.host.submit

    def submit_and_finish(batch: list[Inference], on_outcome: OnOutcome) -> None:
        submit(batch, on_outcome)
        model.host.finish()

    first = model.send()
    for _ in range(10_000):
        model.send()
    monkeypatch.setattr(model.host, "submit", submit_and_finish)
    model.host.finish()
    assert len(model.answered) == 10_001
    assert first.completed
    model.nothing_left()


async def test_a_cancel_of_the_oldest_does_not_shorten_the_others_delay() -> None:
    model = ScheduledModel(DynamicBatching(max_queue_delay_us=10_000), takes_s=0)
    oldest = model.send()
    await asyncio.sleep(0.004)
    other = model.send()
    oldest.cancel()
    await asyncio.sleep(1)
    assert model.when(other) == 14.0


async def test_a_request_of_higher_priority_overtakes_what_waits() -> None:
    model = ScheduledModel(
        DynamicBatching(priority_levels=2, default_priority_level=2), max_batch_size=2, takes_s=0.01
    )
    model.send()
    await turn()
    low = [model.send() for _ in range(3)]
    high = model.send(priority=1)
    await asyncio.sleep(1)
    assert model.host.ids[1:] == [ids(high, low[0]), ids(*low[1:])]


async def test_requests_of_another_shape_run_in_a_batch_of_their_own() -> None:
    model = ScheduledModel(DynamicBatching(), inputs=[make_spec("x", -1)], takes_s=0.01)
    small, large = model.send(make_tensor("x", 1, 2)), model.send(make_tensor("x", 1, 3))
    await asyncio.sleep(1)
    assert model.host.ids == [ids(small), ids(large)]
    assert model.statistics.closes[CloseReason.SHAPE] == 1


@pytest.mark.parametrize("spacing_s", [0, 0.000_001, 0.010])
async def test_a_limit_of_two_admits_exactly_two_beside_what_runs(spacing_s: float) -> None:
    policy = QueuePolicy(max_queue_size=2)
    model = ScheduledModel(DynamicBatching(default_queue_policy=policy), max_batch_size=1)
    model.send()
    refused: list[FailureReason] = []
    for _ in range(6):
        await asyncio.sleep(spacing_s)
        try:
            model.send()
        except InferenceError as error:
            refused.append(error.reason)
    assert refused == [FailureReason.REJECTED] * 4
    assert model.scheduler.inflight() == 3
    assert model.statistics.pending == 2
    assert model.statistics.fail_count == 0, "the caller counts a refusal, by its reason"


async def test_a_burst_in_one_turn_is_not_refused_while_an_instance_is_free() -> None:
    policy = QueuePolicy(max_queue_size=2)
    model = ScheduledModel(DynamicBatching(default_queue_policy=policy), instances=2)
    for _ in range(6):
        model.send()
    with pytest.raises(InferenceError, match="Exceeds maximum queue size"):
        model.send()


async def test_a_request_is_rejected_at_its_timeout_although_the_instance_is_busy() -> None:
    policy = QueuePolicy(default_timeout_us=200_000)
    model = ScheduledModel(DynamicBatching(default_queue_policy=policy), takes_s=10)
    running = model.send()
    await asyncio.sleep(0.1)
    waiting = model.send()
    await asyncio.sleep(20)
    assert model.when(running) == 10_000
    assert model.when(waiting) == pytest.approx(300, abs=1)
    error = model.error(waiting)
    assert error is not None
    assert error.code is ErrorCode.UNAVAILABLE
    assert re.match(r"Request timeout expired: it waited 20\d\.\d ms", error.message)
    assert "may wait 200.0 ms" in error.message
    assert model.statistics.failures[FailureReason.REJECTED] == 1
    assert model.statistics.fail_ns == pytest.approx(200 * MS, abs=MS)
    assert len(model.host.batches) == 1
    model.nothing_left()


async def test_a_request_s_own_shorter_timeout_counts_where_the_model_allows_it() -> None:
    policy = QueuePolicy(default_timeout_us=200_000, allow_timeout_override=True)
    model = ScheduledModel(DynamicBatching(default_queue_policy=policy), takes_s=10)
    model.send()
    await turn()
    patient, hasty = model.send(), model.send(timeout_us=50_000)
    await asyncio.sleep(1)
    assert model.when(hasty) == pytest.approx(50, abs=1)
    assert model.when(patient) == pytest.approx(200, abs=1)


async def test_the_default_scheduler_knows_no_timeout() -> None:
    model = ScheduledModel(takes_s=10)
    model.send(timeout_us=1)
    late = model.send(timeout_us=1)
    await asyncio.sleep(30)
    assert (model.when(late), model.error(late)) == (20_000, None)


async def test_delayed_requests_run_after_those_in_time_and_are_never_rejected() -> None:
    policy = QueuePolicy(timeout_action=TimeoutAction.DELAY, default_timeout_us=5_000)
    model = ScheduledModel(
        DynamicBatching(default_queue_policy=policy), max_batch_size=1, takes_s=0.010
    )
    model.send()
    await turn()
    late = model.send()
    await asyncio.sleep(0.006)
    fresh = model.send()
    await asyncio.sleep(1)
    assert model.host.ids[1:] == [ids(fresh), ids(late)]
    assert model.error(late) is None


@pytest.mark.parametrize("batching", [None, DynamicBatching()])
async def test_a_cancel_in_the_queue_ends_it_at_once_and_it_never_runs(
    batching: DynamicBatching | None,
) -> None:
    model = ScheduledModel(batching, max_batch_size=1)
    running, gone, stays = model.send(), model.send(), model.send()
    await turn()
    assert model.statistics.pending == 2
    gone.cancel()
    gone.cancel()
    error = model.error(gone)
    assert error is not None
    assert (error.code, error.message) == (ErrorCode.CANCELLED, "")
    assert model.statistics.failures[FailureReason.CANCELED] == 1
    assert model.statistics.pending == 1
    model.host.finish()
    model.host.finish()
    assert model.host.ids == [ids(running), ids(stays)]
    model.nothing_left()


async def test_a_cancel_during_execution_sets_the_flag_and_affects_no_other_request() -> None:
    model = ScheduledModel(DynamicBatching())
    one, two = model.send(), model.send()
    await turn()
    one.cancel()
    assert one.cancelled
    assert model.answered == []
    model.host.finish()
    assert (model.error(one), model.error(two)) == (None, None)
    model.nothing_left()


async def test_who_left_before_it_was_queued_is_refused_as_cancelled() -> None:
    model = ScheduledModel(DynamicBatching())
    inference = make_inference()
    inference.cancel()
    with pytest.raises(InferenceError) as caught:
        model.scheduler.submit(inference)
    assert caught.value.code is ErrorCode.CANCELLED
    model.nothing_left()
