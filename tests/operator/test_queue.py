"""Which key runs next, and how soon again: the schedule with numbers, the loop in virtual time."""

import asyncio

import pytest

from naiad_operator.queue import Done, Forget, Key, Outcome, Pace, Queue, Retry, Schedule

A, B, C = Key("ns", "a"), Key("ns", "b"), Key("other", "a")


def schedule(**pace: float) -> Schedule:
    workers = int(pace.pop("workers", 2))
    return Schedule(Pace(workers=workers, **pace), spread=lambda: 0.5)


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


def test_news_of_what_was_made_waits_behind_what_has_to_be_made() -> None:
    plan = schedule(workers=4)
    plan.add(A, 0.0, behind=True)
    plan.add(B, 1.0)
    plan.add(C, 2.0)
    assert [plan.take(3.0) for _ in range(4)] == [B, C, A, None]


def test_a_lane_whose_keys_are_not_due_yet_is_in_nobodys_way() -> None:
    plan = schedule(workers=4)
    plan.add(A, 0.0, delay=10.0)
    plan.add(B, 0.0, behind=True)
    assert plan.next_due() == 0.0
    assert [plan.take(1.0) for _ in range(2)] == [B, None]
    assert plan.next_due() == 10.0


def test_what_waits_in_the_second_lane_for_long_takes_turns_with_the_first() -> None:
    plan = schedule(workers=9, patience=30.0)
    old = [Key("ns", f"old-{number}") for number in range(2)]
    new = [Key("ns", f"new-{number}") for number in range(3)]
    for key in old:
        plan.add(key, 0.0, behind=True)
    for key in new:
        plan.add(key, 29.0)
    assert plan.take(29.0) == new[0]
    assert [plan.take(30.0) for _ in range(5)] == [old[0], new[1], old[1], new[2], None]


def test_a_key_goes_from_the_second_lane_to_the_first_and_not_back() -> None:
    plan = schedule(workers=4)
    plan.add(A, 0.0, behind=True)
    plan.add(B, 1.0)
    plan.add(A, 2.0)
    plan.add(A, 2.5, behind=True)
    assert plan.depth(3.0) == 2
    assert [plan.take(3.0) for _ in range(3)] == [A, B, None]
    plan.finish(A, Forget(), 3.0)
    plan.finish(B, Done(), 3.0)
    assert plan.take(3.0) is None


def test_an_event_during_the_work_keeps_its_lane_and_a_resync_is_news() -> None:
    plan = schedule(workers=1, resync=10.0)
    plan.add(A, 0.0)
    assert plan.take(0.0) == A
    plan.add(A, 0.5)
    plan.finish(A, Done(), 1.0)
    plan.add(B, 0.8, behind=True)
    assert plan.take(1.0) == A
    plan.finish(A, Done(), 2.0)
    assert plan.take(2.0) == B
    plan.finish(B, Forget(), 2.0)
    plan.add(C, 12.5)
    assert [plan.take(13.0), plan.next_due()] == [C, None]
    plan.finish(C, Forget(), 13.0)
    assert plan.take(13.0) == A


def test_no_more_keys_are_worked_on_than_there_are_workers() -> None:
    plan = schedule(workers=1)
    plan.add(A, 0.0)
    plan.add(B, 0.0)
    assert plan.take(0.0) == A
    assert plan.take(0.0) is None
    assert plan.next_due() is None
    plan.finish(A, Forget(), 1.0)
    assert plan.take(1.0) == B


def test_a_key_that_is_added_while_it_is_worked_on_runs_once_more_and_not_beside() -> None:
    plan = schedule()
    plan.add(A, 0.0)
    assert plan.take(0.0) == A
    plan.add(A, 0.1)
    plan.add(A, 0.2)
    assert plan.take(0.3) is None
    plan.finish(A, Done(), 1.0)
    assert plan.take(1.0) == A
    plan.finish(A, Done(), 2.0)
    assert plan.take(2.0) is None


def test_failures_wait_twice_as_long_each_time_up_to_a_bound() -> None:
    plan = schedule(backoff=1.0, backoff_most=5.0)
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
    plan = schedule(backoff=1.0, resync=100.0)
    plan.add(A, 0.0)
    plan.take(0.0)
    plan.finish(A, Retry(), 0.0)
    plan.take(1.0)
    plan.finish(A, Done(), 1.0)
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


def test_a_retry_waits_as_long_as_the_api_server_asked() -> None:
    plan = schedule(backoff=0.1)
    plan.add(A, 0.0)
    plan.take(0.0)
    plan.finish(A, Retry(after=7.0), 0.0)
    assert plan.next_due() == 7.0


def test_a_stream_of_events_cannot_push_a_delayed_key_away() -> None:
    plan = schedule()
    for step in range(10):
        plan.add(A, step * 0.01, delay=0.05)
    assert plan.next_due() == pytest.approx(0.05)


@pytest.mark.parametrize(("number", "due"), [(0.0, 90.0), (0.5, 100.0), (1.0, 110.0)])
def test_resyncs_are_spread_around_their_period(number: float, due: float) -> None:
    plan = Schedule(Pace(resync=100.0), spread=lambda: number)
    plan.add(A, 0.0)
    plan.take(0.0)
    plan.finish(A, Done(), 0.0)
    assert plan.next_due() == pytest.approx(due)


def test_a_success_can_ask_to_come_back_sooner_than_the_resync_but_never_later() -> None:
    plan = schedule(resync=100.0)
    plan.add(A, 0.0)
    plan.take(0.0)
    plan.finish(A, Done(again=30.0), 0.0)
    assert plan.next_due() == 30.0
    plan.take(30.0)
    plan.finish(A, Done(again=5000.0), 30.0)
    assert plan.next_due() == 130.0


def test_nothing_stays_of_a_key_that_is_forgotten() -> None:
    plan = schedule()
    plan.add(A, 0.0)
    plan.take(0.0)
    plan.finish(A, Forget(), 0.0)
    assert not plan.known(A)
    assert plan.next_due() is None


def test_a_key_that_is_made_again_while_it_is_being_forgotten_runs() -> None:
    plan = schedule()
    plan.add(A, 0.0)
    plan.take(0.0)
    plan.add(A, 0.1)
    plan.finish(A, Forget(), 0.2)
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
        return Done(again=10.0)

    queue = Queue(work, Pace())
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
        return Done(again=0.5)

    queue = Queue(work, Pace(workers=2))
    for key in (A, B, C):
        queue.add(key)
    asyncio.get_running_loop().call_later(0.5, queue.add, A)
    await finished(queue, 20.0)
    assert together == 2


@pytest.mark.looptime
async def test_a_bug_in_the_work_is_retried_and_stops_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[Key] = []

    async def work(key: Key) -> Outcome:
        seen.append(key)
        if key == A and seen.count(A) < 3:
            raise RuntimeError("a bug")
        return Done()

    queue = Queue(work, Pace(backoff=1.0))
    queue.add(A)
    queue.add(B)
    await finished(queue, 30.0)
    assert (seen.count(A), seen.count(B)) == (3, 1)
    assert "a bug" in caplog.text


@pytest.mark.looptime
async def test_a_drain_lets_what_is_running_end_and_starts_nothing() -> None:
    ended: list[Key] = []

    async def work(key: Key) -> Outcome:
        await asyncio.sleep(3.0)
        ended.append(key)
        return Done()

    queue = Queue(work, Pace(workers=1))
    queue.add(A)
    queue.add(B)
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(1.0)
    assert await queue.drain(10.0) == 0
    await task
    assert ended == [A]


@pytest.mark.looptime
async def test_a_drain_cancels_what_does_not_end_in_time() -> None:
    async def work(key: Key) -> Outcome:
        await asyncio.sleep(1000.0)
        return Done()

    queue = Queue(work, Pace())
    queue.add(A)
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(1.0)
    assert await queue.drain(5.0) == 1
    await task
    assert asyncio.get_running_loop().time() == pytest.approx(6.0, abs=0.1)


@pytest.mark.looptime
async def test_a_long_queue_that_moves_is_no_trouble() -> None:
    async def work(key: Key) -> Outcome:
        await asyncio.sleep(10.0)
        return Done()

    queue = Queue(work, Pace(workers=1, resync=10_000.0))
    for number in range(50):
        queue.add(Key("ns", f"service-{number}"))
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(455.0)
    assert queue.schedule.oldest_wait(asyncio.get_running_loop().time()) > 400
    assert queue.stuck(waiting=60.0, working=100.0) == ""
    await queue.drain(60.0)
    await task


@pytest.mark.looptime
async def test_a_queue_whose_worker_hangs_says_so() -> None:
    async def work(key: Key) -> Outcome:
        await asyncio.sleep(1000.0)
        return Done()

    queue = Queue(work, Pace(workers=1))
    queue.add(A)
    queue.add(B)
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(50.0)
    assert queue.stuck(waiting=60.0, working=100.0) == ""
    await asyncio.sleep(15.0)
    assert "for 65 s nobody got one" in queue.stuck(waiting=60.0, working=100.0)
    await asyncio.sleep(40.0)
    assert "ns/a has been worked on for 105 s" in queue.stuck(waiting=60.0, working=100.0)
    await queue.drain(0.1)
    await task
