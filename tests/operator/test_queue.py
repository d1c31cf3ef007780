"""Which key runs next, and how soon again: the schedule with numbers, the loop in virtual time."""

import asyncio
import typing

import pytest

from naiad_operator.queue import Deleted, Key, Outcome, Queue, QueueConfig, Result, Retry, Schedule

A, B, C = Key("ns", "a"), Key("ns", "b"), Key("other", "a")


def schedule(*, workers: int = 2, **config: typing.Any) -> Schedule:
    return Schedule(QueueConfig(workers=workers, **config), jitter=lambda: 0.5)


def test_a_key_that_is_added_often_is_in_the_queue_once() -> None:
    plan = schedule()
    for _ in range(5):
        plan.add(A, 0.0)
    assert plan.take(0.0) == A
    assert plan.take(0.0) is None
    assert plan.depth(0.0) == 0


def test_keys_come_in_the_order_in_which_they_were_added() -> None:
    plan = schedule(workers=3)
    for key in (C, A, B):
        plan.add(key, 0.0)
    assert [plan.take(0.0) for _ in range(3)] == [C, A, B]


def test_low_priority_keys_wait_behind_high_priority_ones() -> None:
    plan = schedule(workers=4)
    plan.add(A, 0.0, low_priority=True)
    plan.add(B, 1.0)
    plan.add(C, 2.0)
    assert [plan.take(3.0) for _ in range(4)] == [B, C, A, None]


def test_high_priority_keys_that_are_not_due_do_not_block_low_priority_ones() -> None:
    plan = schedule(workers=4)
    plan.add(A, 0.0, delay=10.0)
    plan.add(B, 0.0, low_priority=True)
    assert plan.next_due() == 0.0
    assert [plan.take(1.0) for _ in range(2)] == [B, None]
    assert plan.next_due() == 10.0


def test_after_the_starvation_limit_the_priorities_alternate() -> None:
    plan = schedule(workers=9, starvation_limit=30.0)
    old = [Key("ns", f"old-{number}") for number in range(2)]
    new = [Key("ns", f"new-{number}") for number in range(3)]
    for key in old:
        plan.add(key, 0.0, low_priority=True)
    for key in new:
        plan.add(key, 29.0)
    assert plan.take(29.0) == new[0]
    assert [plan.take(30.0) for _ in range(5)] == [old[0], new[1], old[1], new[2], None]


def test_a_key_moves_from_low_to_high_priority_and_not_back() -> None:
    plan = schedule(workers=4)
    plan.add(A, 0.0, low_priority=True)
    plan.add(B, 1.0)
    plan.add(A, 2.0)
    plan.add(A, 2.5, low_priority=True)
    assert plan.depth(3.0) == 2
    assert [plan.take(3.0) for _ in range(3)] == [A, B, None]
    plan.finish(A, Deleted(), 3.0)
    plan.finish(B, Result(), 3.0)
    assert plan.take(3.0) is None


def test_an_event_during_a_run_keeps_its_priority_and_a_resync_has_low_priority() -> None:
    plan = schedule(workers=1, resync_period=10.0)
    plan.add(A, 0.0)
    assert plan.take(0.0) == A
    plan.add(A, 0.5)
    plan.finish(A, Result(), 1.0)
    plan.add(B, 0.8, low_priority=True)
    assert plan.take(1.0) == A
    plan.finish(A, Result(), 2.0)
    assert plan.take(2.0) == B
    plan.finish(B, Deleted(), 2.0)
    plan.add(C, 12.5)
    assert [plan.take(13.0), plan.next_due()] == [C, None]
    plan.finish(C, Deleted(), 13.0)
    assert plan.take(13.0) == A


def test_there_are_at_most_as_many_runs_as_workers() -> None:
    plan = schedule(workers=1)
    plan.add(A, 0.0)
    plan.add(B, 0.0)
    assert plan.take(0.0) == A
    assert plan.take(0.0) is None
    assert plan.next_due() is None
    plan.finish(A, Deleted(), 1.0)
    assert plan.take(1.0) == B


def test_few_heavy_keys_run_at_once_and_the_others_do_not_wait_for_them() -> None:
    heavy = [Key("heavy", str(number)) for number in range(5)]
    plan = Schedule(
        QueueConfig(workers=9, heavy_workers=2),
        jitter=lambda: 0.5,
        is_heavy=lambda key: key in heavy,
    )
    for number, key in enumerate([*heavy[:4], A, B]):
        plan.add(key, float(number) / 10)
    plan.add(heavy[4], 1.0, low_priority=True)
    assert [plan.take(2.0) for _ in range(5)] == [*heavy[:2], A, B, None]
    assert plan.next_due() is None, "the loop waits for the end of a heavy one"
    assert (plan.depth(2.0), plan.oldest_wait(2.0)) == (3, 1.8)
    plan.finish(A, Result(), 3.0)
    assert plan.take(3.0) is None
    plan.finish(heavy[1], Result(), 4.0)
    plan.add(C, 4.0)
    assert [plan.take(4.0) for _ in range(3)] == [heavy[2], C, None], "in their order"
    plan.add(heavy[3], 4.0)  # an event, while it is held
    plan.finish(heavy[0], Result(), 5.0)
    plan.finish(heavy[2], Result(), 5.0)
    assert [plan.take(5.0) for _ in range(3)] == [heavy[3], heavy[4], None]


def test_a_key_that_is_added_during_its_run_runs_once_more_afterwards() -> None:
    plan = schedule()
    plan.add(A, 0.0)
    assert plan.take(0.0) == A
    plan.add(A, 0.1)
    plan.add(A, 0.2)
    assert plan.take(0.3) is None
    plan.finish(A, Result(), 1.0)
    assert plan.take(1.0) == A
    plan.finish(A, Result(), 2.0)
    assert plan.take(2.0) is None


def test_the_wait_after_a_failure_doubles_up_to_a_limit() -> None:
    plan = schedule(backoff=1.0, max_backoff=5.0)
    waits = []
    now = 0.0
    plan.add(A, now)
    for _ in range(5):
        assert plan.take(now) == A
        plan.finish(A, Retry(), now)
        due = plan.next_due()
        assert due is not None
        waits.append(due - now)
        now = due
    assert waits == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_success_ends_the_doubling() -> None:
    plan = schedule(backoff=1.0, resync_period=100.0)
    plan.add(A, 0.0)
    plan.take(0.0)
    plan.finish(A, Retry(), 0.0)
    plan.take(1.0)
    plan.finish(A, Result(), 1.0)
    plan.add(A, 2.0)
    plan.take(2.0)
    plan.finish(A, Retry(), 2.0)
    assert plan.next_due() == 3.0


def test_an_event_does_not_wait_for_a_failed_keys_backoff() -> None:
    plan = schedule(backoff=50.0)
    plan.add(A, 0.0)
    plan.take(0.0)
    plan.finish(A, Retry(), 0.0)
    plan.add(A, 1.0)
    assert plan.take(1.0) == A


def test_a_failing_key_holds_up_no_other() -> None:
    plan = schedule(workers=1, backoff=50.0)
    plan.add(A, 0.0)
    plan.take(0.0)
    plan.finish(A, Retry(), 0.0)
    plan.add(B, 0.1)
    assert plan.take(0.1) == B
    plan.finish(B, Result(), 0.2)
    assert plan.failing_keys() == [A]


def test_a_retry_waits_as_long_as_the_api_server_asked() -> None:
    plan = schedule(backoff=0.1)
    plan.add(A, 0.0)
    plan.take(0.0)
    plan.finish(A, Retry(after=7.0), 0.0)
    assert plan.next_due() == 7.0


def test_a_stream_of_events_cannot_postpone_a_delayed_key() -> None:
    plan = schedule()
    for step in range(10):
        plan.add(A, step * 0.01, delay=0.05)
    assert plan.next_due() == pytest.approx(0.05)


@pytest.mark.parametrize(("number", "due"), [(0.0, 90.0), (0.5, 100.0), (1.0, 110.0)])
def test_resyncs_are_spread_around_their_period(number: float, due: float) -> None:
    plan = Schedule(QueueConfig(resync_period=100.0), jitter=lambda: number)
    plan.add(A, 0.0)
    plan.take(0.0)
    plan.finish(A, Result(), 0.0)
    assert plan.next_due() == pytest.approx(due)


def test_requeue_after_is_at_most_the_resync_period() -> None:
    plan = schedule(resync_period=100.0)
    plan.add(A, 0.0)
    plan.take(0.0)
    plan.finish(A, Result(requeue_after=30.0), 0.0)
    assert plan.next_due() == 30.0
    plan.take(30.0)
    plan.finish(A, Result(requeue_after=5000.0), 30.0)
    assert plan.next_due() == 130.0


def test_a_deleted_key_is_removed_completely() -> None:
    plan = schedule()
    plan.add(A, 0.0)
    plan.take(0.0)
    plan.finish(A, Deleted(), 0.0)
    assert not plan.known(A)
    assert plan.next_due() is None


def test_a_key_that_is_added_again_during_its_last_run_runs() -> None:
    plan = schedule()
    plan.add(A, 0.0)
    plan.take(0.0)
    plan.add(A, 0.1)
    plan.finish(A, Deleted(), 0.2)
    assert plan.take(0.2) == A


def test_depth_and_age_count_only_what_waits_for_a_worker() -> None:
    plan = schedule(workers=1, backoff=50.0)
    plan.add(A, 0.0)
    plan.take(0.0)
    plan.add(B, 1.0)
    plan.add(C, 2.0, delay=100.0)
    assert (plan.depth(5.0), plan.oldest_wait(5.0)) == (1, 4.0)
    assert plan.longest_work(5.0) == (A, 5.0)


async def finished(queue: Queue, after: float) -> None:
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(after)
    await queue.drain(100.0)
    await task


@pytest.mark.looptime
async def test_the_loop_sleeps_until_something_is_due() -> None:
    times: list[float] = []
    loop = asyncio.get_running_loop()

    async def work(key: Key) -> Outcome:
        times.append(loop.time())
        return Result(requeue_after=10.0)

    queue = Queue(work, QueueConfig())
    queue.add(A, delay=5.0)
    await finished(queue, 27.0)
    assert times == pytest.approx([5.0, 15.0, 25.0])


@pytest.mark.looptime
async def test_two_workers_never_have_the_same_key() -> None:
    at_once: list[Key] = []
    together = 0

    async def work(key: Key) -> Outcome:
        nonlocal together
        assert key not in at_once
        at_once.append(key)
        together = max(together, len(at_once))
        await asyncio.sleep(1.0)
        at_once.remove(key)
        return Result(requeue_after=0.5)

    queue = Queue(work, QueueConfig(workers=2))
    for key in (A, B, C):
        queue.add(key)
    asyncio.get_running_loop().call_later(0.5, queue.add, A)
    await finished(queue, 20.0)
    assert together == 2


@pytest.mark.looptime
async def test_an_exception_in_the_work_is_retried_and_does_not_stop_other_keys(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[Key] = []

    async def work(key: Key) -> Outcome:
        seen.append(key)
        if key == A and seen.count(A) < 3:
            raise RuntimeError("a bug")
        return Result()

    queue = Queue(work, QueueConfig(backoff=1.0))
    queue.add(A)
    queue.add(B)
    await finished(queue, 30.0)
    assert (seen.count(A), seen.count(B)) == (3, 1)
    assert "a bug" in caplog.text


@pytest.mark.looptime
async def test_a_drain_waits_for_running_work_and_starts_none() -> None:
    ended: list[Key] = []

    async def work(key: Key) -> Outcome:
        await asyncio.sleep(3.0)
        ended.append(key)
        return Result()

    queue = Queue(work, QueueConfig(workers=1))
    queue.add(A)
    queue.add(B)
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(1.0)
    assert await queue.drain(10.0) == 0
    await task
    assert ended == [A]


@pytest.mark.looptime
async def test_a_drain_cancels_work_that_does_not_end_in_time() -> None:
    async def work(key: Key) -> Outcome:
        await asyncio.sleep(1000.0)
        return Result()

    queue = Queue(work, QueueConfig())
    queue.add(A)
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(1.0)
    assert await queue.drain(5.0) == 1
    await task
    assert asyncio.get_running_loop().time() == pytest.approx(6.0, abs=0.1)


@pytest.mark.looptime
async def test_a_long_queue_that_makes_progress_is_not_stalled() -> None:
    async def work(key: Key) -> Outcome:
        await asyncio.sleep(10.0)
        return Result()

    queue = Queue(work, QueueConfig(workers=1, resync_period=10_000.0))
    for number in range(50):
        queue.add(Key("ns", f"service-{number}"))
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(455.0)
    assert queue.schedule.oldest_wait(asyncio.get_running_loop().time()) > 400
    assert queue.stall_reason(waiting=60.0, working=100.0) == ""
    await queue.drain(60.0)
    await task


@pytest.mark.looptime
async def test_a_queue_whose_worker_hangs_is_stalled() -> None:
    async def work(key: Key) -> Outcome:
        await asyncio.sleep(1000.0)
        return Result()

    queue = Queue(work, QueueConfig(workers=1))
    queue.add(A)
    queue.add(B)
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(50.0)
    assert queue.stall_reason(waiting=60.0, working=100.0) == ""
    await asyncio.sleep(15.0)
    assert "no worker was free for 65 s" in queue.stall_reason(waiting=60.0, working=100.0)
    await asyncio.sleep(40.0)
    assert "ns/a has been worked on for 105 s" in queue.stall_reason(waiting=60.0, working=100.0)
    await queue.drain(0.1)
    await task
