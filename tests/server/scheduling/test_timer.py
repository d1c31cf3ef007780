"""Timers fire on time: all of a loop with one wake-up, in virtual time and on a real loop with a timerfd."""

import asyncio
import collections.abc
import errno
import gc
import pathlib
import typing

import pytest
import uvloop

from naiad.core.clock import ManualClock, SystemClock
from naiad.scheduling.timers import wakeup
from naiad.scheduling.timers.timer import Timer, Timers
from naiad.scheduling.timers.wakeup import NEVER, LoopTimer, TimerFd, wakeup_on
from tests.support.clock import LoopClock

US = 1_000
MS = 1_000_000


class OneTimer:
    """A loop with one timer, which fires when the test says."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.at_ns: int | None = None
        self.calls = 0

    def call_later(self, delay: float, callback: collections.abc.Callable[[], None]) -> "OneTimer":
        assert self.at_ns is None, "more than one timer is armed"
        self.at_ns = self._clock.monotonic_ns() + round(delay * 1e9)
        self._callback = callback
        return self

    def cancel(self) -> None:
        self.at_ns = None

    def run(self, *, late_ns: int = 0) -> None:
        """Fire what is set, each so late."""
        while self.at_ns is not None:
            self._clock.advance(ns=max(self.at_ns + late_ns - self._clock.monotonic_ns(), 0))
            self.at_ns = None
            self.calls += 1
            self._callback()


class Fixture(typing.NamedTuple):
    """Timers on such a loop."""

    clock: ManualClock
    loop: OneTimer
    timers: Timers

    def timer(self, name: str, fired: list[tuple[str, int]]) -> Timer:
        return self.timers.timer(lambda now: fired.append((name, now)))


@pytest.fixture
def made() -> Fixture:
    clock = ManualClock()
    loop = OneTimer(clock)
    timers = Timers(loop=typing.cast("asyncio.AbstractEventLoop", loop), clock=clock)
    return Fixture(clock, loop, timers)


def test_the_earliest_time_counts_and_a_later_one_has_no_effect(made: Fixture) -> None:
    fired: list[tuple[str, int]] = []
    timer = made.timer("a", fired)
    for at_ms in (30, 20, 10, 40):
        timer.set(at_ms * MS, exact=True)
    assert timer.at_ns == 10 * MS
    made.loop.run()
    assert fired == [("a", 10 * MS)]
    assert timer.at_ns == NEVER


def test_several_timers_share_one_wake_up_and_fire_in_the_order_of_their_times(
    made: Fixture,
) -> None:
    fired: list[tuple[str, int]] = []
    first, second, third = (made.timer(name, fired) for name in "abc")
    second.set(7 * MS, exact=True)
    third.set(7 * MS, exact=True)
    first.set(2 * MS, exact=True)
    made.loop.run()
    assert fired == [("a", 2 * MS), ("b", 7 * MS), ("c", 7 * MS)]
    assert made.loop.calls == 2


def test_a_late_loop_fires_all_that_is_due_at_once(made: Fixture) -> None:
    fired: list[tuple[str, int]] = []
    for name, at_ms in (("a", 1), ("b", 3), ("c", 9)):
        made.timer(name, fired).set(at_ms * MS, exact=True)
    made.loop.run(late_ns=4 * MS)
    assert fired == [("a", 5 * MS), ("b", 5 * MS), ("c", 13 * MS)]


def test_times_that_need_not_be_exact_share_the_next_millisecond(made: Fixture) -> None:
    fired: list[tuple[str, int]] = []
    for number in range(100):
        made.timer(str(number), fired).set(5 * MS + 1 + number * 10 * US, exact=False)
    made.loop.run()
    assert {at for _, at in fired} == {6 * MS}
    assert len(fired) == 100
    assert made.loop.calls == 1


def test_an_earlier_time_that_need_not_be_exact_does_not_hide_an_exact_later_one(
    made: Fixture,
) -> None:
    fired: list[tuple[str, int]] = []
    timer = made.timer("a", fired)
    timer.set(5 * MS + 100 * US, exact=False)
    timer.set(5 * MS + 300 * US, exact=True)
    made.loop.run()
    assert fired == [("a", 5 * MS + 300 * US)]


def test_a_cancelled_timer_does_not_fire_and_can_be_set_again(made: Fixture) -> None:
    fired: list[tuple[str, int]] = []
    timer, other = made.timer("a", fired), made.timer("b", fired)
    timer.set(5 * MS, exact=True)
    other.set(6 * MS, exact=True)
    timer.cancel()
    timer.cancel()
    made.loop.run()
    assert fired == [("b", 6 * MS)]
    assert made.loop.calls == 1
    timer.set(9 * MS, exact=True)
    made.loop.run()
    assert fired[1:] == [("a", 9 * MS)]


def test_a_timer_that_another_one_cancels_while_both_are_due_does_not_fire(made: Fixture) -> None:
    fired: list[tuple[str, int]] = []
    victim = made.timer("victim", fired)
    made.timers.timer(lambda _now: victim.cancel()).set(1 * MS, exact=True)
    victim.set(1 * MS, exact=True)
    made.loop.run()
    assert fired == []


def test_a_time_that_is_over_fires_once_per_wake_up_and_starves_no_other(made: Fixture) -> None:
    fired: list[tuple[str, int]] = []
    times: list[int] = []

    def again(now: int) -> None:
        times.append(now)
        if len(times) < 3:
            busy.set(0, exact=True)

    busy = made.timers.timer(again)
    busy.set(1 * MS, exact=True)
    made.timer("other", fired).set(1 * MS, exact=True)
    made.loop.run()
    assert len(times) == 3
    assert fired == [("other", 1 * MS)]


def test_a_callback_that_fails_stops_no_other_timer(made: Fixture) -> None:
    fired: list[tuple[str, int]] = []

    def fail(_now: int) -> None:
        raise ValueError("callback")

    made.timers.timer(fail).set(1 * MS, exact=True)
    made.timer("other", fired).set(2 * MS, exact=True)
    with pytest.raises(ValueError, match="callback"):
        made.loop.run()
    made.loop.run()
    assert fired == [("other", 2 * MS)]


def test_never_is_not_a_time(made: Fixture) -> None:
    fired: list[tuple[str, int]] = []
    for exact in (True, False):
        made.timer("a", fired).set(NEVER, exact=exact)
    made.loop.run()
    assert fired == []


@pytest.mark.looptime
async def test_in_virtual_time_it_fires_exactly_and_may_be_set_while_it_fires() -> None:
    loop = asyncio.get_running_loop()
    fired: list[int] = []

    def callback(now: int) -> None:
        fired.append(now)
        if len(fired) < 3:
            timer.set(now + 7 * MS, exact=True)

    timer = Timers(loop=loop, clock=LoopClock(loop)).timer(callback)
    timer.set(3 * MS, exact=True)
    await asyncio.sleep(1)
    assert fired == [3 * MS, 10 * MS, 17 * MS]


@pytest.mark.parametrize("run", [uvloop.run, asyncio.run], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("after_us", [1, 300, 900, 2_500])
def test_on_a_real_loop_it_is_never_early(
    run: collections.abc.Callable[..., None], after_us: int
) -> None:
    async def once() -> None:
        loop, clock = asyncio.get_running_loop(), SystemClock()
        fired: asyncio.Future[int] = loop.create_future()
        at_ns = clock.monotonic_ns() + after_us * US
        Timers(loop=loop, clock=clock).timer(fired.set_result).set(at_ns, exact=True)
        assert await fired >= at_ns

    run(once())


def test_the_loop_sleeps_until_then() -> None:
    async def once() -> None:
        loop, clock = asyncio.get_running_loop(), SystemClock()
        selector: typing.Any = vars(loop)["_selector"]
        select, selects = selector.select, 0

        def count(timeout: float | None) -> typing.Any:
            nonlocal selects
            selects += 1
            return select(timeout)

        selector.select = count
        fired: asyncio.Future[int] = loop.create_future()
        timer = Timers(loop=loop, clock=clock).timer(fired.set_result)
        timer.set(clock.monotonic_ns() + 900 * US, exact=True)
        await fired
        assert selects <= 3

    asyncio.run(once())


def open_descriptors() -> list[tuple[str, str]]:
    """Those of this process, and what each is."""
    folder = pathlib.Path("/proc/self/fd")
    return [(each.name, str(each.readlink())) for each in folder.iterdir() if each.is_symlink()]


def test_all_timers_of_a_loop_share_one_descriptor_which_ends_with_them() -> None:
    def count() -> int:
        return sum("timerfd" in what for _, what in open_descriptors())

    async def open_many() -> int:
        timers = Timers(loop=asyncio.get_running_loop(), clock=SystemClock())
        for _ in range(100):
            timers.timer(lambda _now: None).set(SystemClock.monotonic_ns() + MS, exact=True)
        return count()

    gc.collect()  # loops of earlier tests
    before = count()
    assert uvloop.run(open_many()) == before + 1
    gc.collect()
    assert count() == before


def test_a_process_that_can_open_no_more_files_uses_the_timers_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Full(TimerFd):
        def __init__(self, *_: object) -> None:
            raise OSError(errno.EMFILE, "timerfd_create: Too many open files")

    async def once() -> int:
        loop, clock = asyncio.get_running_loop(), SystemClock()
        assert isinstance(wakeup_on(loop, clock, lambda: None), LoopTimer)
        fired: asyncio.Future[int] = loop.create_future()
        Timers(loop=loop, clock=clock).timer(fired.set_result).set(0, exact=True)
        return await fired

    monkeypatch.setattr(wakeup, "TimerFd", Full)
    assert uvloop.run(once()) > 0
