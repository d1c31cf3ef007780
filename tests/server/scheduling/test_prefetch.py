"""A batch that an instance gets while it executes another one: when it begins, and each way in which it ends."""

import asyncio

import pytest

from naiad.config.model_config import DynamicBatching, QueuePolicy
from naiad.core.inference import Inference
from naiad.errors import ErrorCode, FailureReason, InferenceError
from tests.support.hosts import ScriptedHost, hosted
from tests.support.resources import CountedResources
from tests.support.scheduled import BACKEND_FAILED, MS, ScheduledModel, ids, turn

pytestmark = pytest.mark.looptime

FAILED = InferenceError(ErrorCode.UNAVAILABLE, "died", reason=FailureReason.BACKEND)


async def busy(
    batching: DynamicBatching | None = None, *, takes_s: float | None = None
) -> tuple[ScheduledModel, list[Inference], list[Inference]]:
    """A model of batches of two whose instance executes one and has another one, each of two requests."""
    model = ScheduledModel(
        batching or DynamicBatching(), max_batch_size=2, prefetches=True, takes_s=takes_s
    )
    first, second = [model.send(), model.send()], [model.send(), model.send()]
    await turn()
    assert (model.host.out, model.host.prefetched) == (first, second)
    return model, first, second


async def test_a_full_batch_is_handed_over_while_another_one_executes_and_begins_when_that_has_ended() -> (
    None
):
    model, first, second = await busy()
    third, fourth = model.send(), model.send()
    await turn()
    assert model.host.prefetched == second, "two batches at most"
    model.host.finish()
    assert model.host.out == second
    assert model.host.prefetched == [third, fourth]
    assert [model.error(each) for each in first] == [None, None]
    model.host.finish()
    model.host.finish()
    assert model.host.ids == [ids(*first), ids(*second), ids(third, fourth)]
    model.nothing_left()


async def test_a_batch_that_could_grow_waits_in_the_queue_and_grows() -> None:
    model = ScheduledModel(DynamicBatching(max_queue_delay_us=1_000), prefetches=True)
    first = [model.send() for _ in range(8)]
    await turn()
    assert model.host.out == first
    model.send()
    await asyncio.sleep(0.005)
    assert model.host.prefetched is None
    model.send()
    model.host.finish()
    assert len(model.host.out or ()) == 2


async def test_of_several_instances_the_first_one_that_is_free_takes_the_batch() -> None:
    model = ScheduledModel(instances=2, prefetches=True)
    model.send(), model.send()
    waiting = model.send()
    assert [host.prefetched for host in model.hosts] == [None, None]
    model.hosts[1].finish()
    assert model.hosts[1].out == [waiting]


async def test_an_instance_that_takes_resources_for_each_batch_gets_one_at_a_time() -> None:
    model = ScheduledModel(resources=CountedResources(1), prefetches=True)
    model.send(), model.send()
    assert model.host.prefetched is None


async def test_it_waits_in_the_queue_by_the_statistics_until_it_begins() -> None:
    model, *_ = await busy(takes_s=0.010)
    assert model.statistics.pending == 2
    await asyncio.sleep(0.010)
    await turn()
    assert model.statistics.pending == 0
    await asyncio.sleep(0.010)
    assert model.statistics.queue_ns == 2 * 10 * MS
    assert model.statistics.compute_infer_ns == (2 + 2) * 10 * MS
    model.nothing_left()


async def test_a_cancelled_request_of_it_is_answered_at_once_and_the_others_run() -> None:
    model, _, (left, stays) = await busy()
    left.cancel()
    assert model.reason(left) is FailureReason.CANCELED
    assert model.statistics.pending == 1
    model.host.finish()
    assert model.statistics.pending == 0
    stays.cancel()
    assert not stays.completed, "it has begun: the model may stop"
    model.host.finish()
    assert model.error(stays) is None
    assert (model.statistics.success_count, model.statistics.fail_count) == (3, 1)
    model.nothing_left()


async def test_a_request_of_it_whose_timeout_is_over_is_rejected_in_time() -> None:
    policy = QueuePolicy(default_timeout_us=20_000, allow_timeout_override=True, max_queue_size=2)
    model = ScheduledModel(
        DynamicBatching(default_queue_policy=policy), max_batch_size=2, prefetches=True
    )
    model.send(), model.send()
    sooner, later = model.send(timeout_us=5_000), model.send()
    await turn()
    assert model.host.prefetched == [sooner, later]
    await asyncio.sleep(0.007)
    assert model.reason(sooner) is FailureReason.REJECTED
    assert 5 <= model.when(sooner) < 7
    await asyncio.sleep(0.015)
    assert model.reason(later) is FailureReason.REJECTED
    model.send(), model.send()  # they wait no longer
    for _ in range(3):
        model.host.finish()
    assert len(model.answered) == 6
    model.nothing_left()


async def test_requests_that_wait_in_it_count_for_the_limit_of_the_queue() -> None:
    policy = QueuePolicy(max_queue_size=3)
    model, _, second = await busy(DynamicBatching(default_queue_policy=policy))
    model.send()
    with pytest.raises(InferenceError, match="Exceeds maximum queue size"):
        model.send()
    second[0].cancel()
    model.send()
    with pytest.raises(InferenceError, match="Exceeds maximum queue size"):
        model.send()
    model.host.finish()
    model.send()
    model.host.finish()
    model.host.finish()
    model.host.finish()
    model.nothing_left()


async def test_a_timeout_does_not_count_once_it_has_begun() -> None:
    policy = QueuePolicy(default_timeout_us=5_000)
    model, _, second = await busy(DynamicBatching(default_queue_policy=policy))
    model.host.finish()
    await asyncio.sleep(1)
    model.host.finish()
    assert [model.error(each) for each in second] == [None, None]
    model.nothing_left()


async def test_both_batches_fail_when_the_worker_dies_and_the_next_one_serves() -> None:
    model, first, second = await busy()
    model.host.die(FAILED)
    assert [model.error(each) for each in (*first, *second)] == [FAILED] * 4
    model.nothing_left()
    model.host.usable(True)
    third = [model.send(), model.send()]
    await turn()
    assert model.host.out == third
    model.host.finish()
    model.nothing_left()


async def test_a_batch_that_fails_does_not_fail_the_next_one() -> None:
    model, first, second = await busy()
    model.host.fail(BACKEND_FAILED)
    assert [model.reason(each) for each in first] == [FailureReason.BACKEND] * 2
    model.host.finish()
    assert [model.error(each) for each in second] == [None, None]
    model.nothing_left()


async def test_one_that_cannot_be_handed_over_fails_alone_and_another_takes_its_place() -> None:
    model, first, second = await busy()
    third = [model.send(), model.send()]
    await turn()
    model.host.fail_prefetched(BACKEND_FAILED)
    assert model.host.prefetched == third
    assert [model.reason(each) for each in second] == [FailureReason.BACKEND] * 2
    assert model.host.out == first
    assert model.statistics.pending == 2
    model.host.finish()
    model.host.finish()
    model.nothing_left()


async def test_a_host_that_refuses_it_fails_its_requests_and_not_those_in_execution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = ScheduledModel(prefetches=True)
    first = model.send()

    def refuse(*_: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(model.host, "submit", refuse)
    second = model.send()
    await turn()
    assert model.reason(second) is FailureReason.BACKEND
    monkeypatch.undo()
    model.host.finish()
    assert model.error(first) is None
    model.nothing_left()


async def test_a_stop_waits_for_both_and_for_the_rest_of_the_queue() -> None:
    model, *_ = await busy(DynamicBatching(max_queue_delay_us=10_000_000), takes_s=0.010)
    model.send()
    await model.scheduler.stop()
    assert model.now_ms == pytest.approx(30)
    assert len(model.answered) == 5
    assert model.host.closed == 1
    model.nothing_left()


async def test_an_unload_gives_up_both_when_every_client_has_gone() -> None:
    model, first, second = await busy()
    for inference in (*first, *second):
        inference.cancel()
    await model.scheduler.stop()
    assert [model.reason(each) for each in (*first, *second)] == [FailureReason.CANCELED] * 4
    assert len(model.host.aborted) == 1
    model.nothing_left()


async def test_an_unload_that_takes_too_long_fails_both() -> None:
    model, first, second = await busy()
    await model.scheduler.stop()
    assert [model.reason(each) for each in (*first, *second)] == [FailureReason.BACKEND] * 4
    assert len(model.answered) == 4
    model.nothing_left()


async def test_responses_keep_their_order() -> None:
    model, first, second = await busy(DynamicBatching(preserve_ordering=True))
    model.host.fail_prefetched(BACKEND_FAILED)
    model.host.finish()
    assert {request_id for request_id, *_ in model.answered} == {*ids(*first, *second)}
    model.nothing_left()


async def test_an_instance_that_is_removed_finishes_both_and_one_that_is_added_gets_the_next() -> (
    None
):
    model, first, second = await busy()
    loop = asyncio.get_running_loop()
    other = ScriptedHost(clock=model.clock, loop=loop, name="m_0_1", prefetches=True)
    model.scheduler.resize(hosted([other]), hosted([model.host]))
    third = [model.send(), model.send()]
    await turn()
    assert other.out == third
    model.host.finish()
    assert (model.host.out, model.host.closed) == (second, 0)
    model.host.finish()
    await turn()
    assert model.host.closed == 1
    fourth = [model.send(), model.send()]
    await turn()
    assert other.prefetched == fourth
    other.finish()
    other.finish()
    assert [model.error(each) for each in (*first, *second, *third, *fourth)] == [None] * 8
    model.nothing_left()


async def test_two_instances_get_one_batch_each_once_there_are_two() -> None:
    model, _, _ = await busy()
    loop = asyncio.get_running_loop()
    other = ScriptedHost(clock=model.clock, loop=loop, name="m_0_1", prefetches=True)
    model.scheduler.resize(hosted([other]), [])
    waiting = [model.send() for _ in range(4)]
    await turn()
    assert (other.out, other.prefetched) == (waiting[:2], None)
    model.host.finish()
    assert model.host.prefetched is None
    other.finish()
    assert other.out == waiting[2:]
    other.finish()
    model.host.finish()
    model.nothing_left()
