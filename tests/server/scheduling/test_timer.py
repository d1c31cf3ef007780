"""The timer fires on time, on a loop with exact timers and on one that rounds to milliseconds."""

import asyncio
import collections.abc
import heapq
import typing

import pytest

from naiad.core.clock import ManualClock
from naiad.scheduling.timer import NEVER, Timer
from tests.support.clock import LoopClock

US = 1_000
MS = 1_000_000
TURN_NS = 3 * US


class CoarseTimer:
    """A timer of `CoarseLoop`."""

    def __init__(self, callback: collections.abc.Callable[[], None]) -> None:
        self.callback = callback
        self.armed = True

    def cancel(self) -> None:
        self.armed = False


class CoarseLoop:
    """Timers as uvloop keeps them: rounded to milliseconds, 0.1 ms late; a turn takes 3 µs.

    Attributes:
        turns: how many timers rang.
    """

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._timers: list[tuple[int, int, CoarseTimer]] = []
        self.turns = 0

    def call_later(self, delay: float, callback: collections.abc.Callable[[], None]) -> CoarseTimer:
        ticks = round(delay * 1_000)
        after = ticks * MS + 100 * US if ticks else TURN_NS
        timer = CoarseTimer(callback)
        heapq.heappush(self._timers, (self._clock.monotonic_ns() + after, len(self._timers), timer))
        assert sum(each.armed for _, _, each in self._timers) == 1, "more than one timer is armed"
        return timer

    def run(self) -> None:
        while self._timers:
            at_ns, _, timer = heapq.heappop(self._timers)
            if timer.armed:
                timer.armed = False
                self._clock.advance(ns=at_ns - self._clock.monotonic_ns())
                self.turns += 1
                timer.callback()


def timer_on(loop: CoarseLoop, clock: ManualClock, fired: list[int]) -> Timer:
    return Timer(
        loop=typing.cast("asyncio.AbstractEventLoop", loop), clock=clock, callback=fired.append
    )


@pytest.mark.parametrize("after_us", [0, 1, 100, 300, 499, 500, 600, 999, 1_000, 1_400, 1_600, 5_300, 200_000])  # fmt: skip
def test_on_a_loop_with_coarse_timers_it_is_never_early_and_late_by_a_turn_at_most(
    after_us: int,
) -> None:
    clock = ManualClock()
    loop, fired = CoarseLoop(clock), list[int]()
    timer_on(loop, clock, fired).set(after_us * US, 0, exact=True)
    loop.run()
    assert len(fired) == 1
    assert 0 <= fired[0] - after_us * US <= max(TURN_NS, 100 * US * (after_us % 1_000 == 0))
    assert loop.turns < 1_100 * US / TURN_NS, "it asks on every turn for a millisecond at most"


@pytest.mark.parametrize("after_us", [0, 1, 499, 500, 600, 1_000, 1_499, 1_500, 200_000])
def test_where_a_millisecond_does_not_matter_it_sleeps_through(after_us: int) -> None:
    clock = ManualClock()
    loop, fired = CoarseLoop(clock), list[int]()
    timer_on(loop, clock, fired).set(after_us * US, 0, exact=False)
    loop.run()
    assert 0 <= fired[0] - after_us * US <= 1_200 * US
    assert loop.turns == 1


def test_the_earliest_time_counts_and_one_timer_is_armed() -> None:
    clock = ManualClock()
    loop, fired = CoarseLoop(clock), list[int]()
    timer = timer_on(loop, clock, fired)
    for at_ms in (30, 20, 10, 40):
        timer.set(at_ms * MS, 0, exact=True)
    assert timer.at_ns == 10 * MS
    loop.run()
    assert len(fired) == 1
    assert 10 * MS <= fired[0] <= 10 * MS + 100 * US
    assert timer.at_ns == NEVER


def test_a_cancelled_alarm_does_not_ring_and_can_be_set_again() -> None:
    clock = ManualClock()
    loop, fired = CoarseLoop(clock), list[int]()
    timer = timer_on(loop, clock, fired)
    timer.set(5 * MS, 0, exact=True)
    timer.cancel()
    loop.run()
    assert fired == []
    timer.set(9 * MS, 0, exact=True)
    loop.run()
    assert len(fired) == 1


def test_never_is_not_a_time() -> None:
    clock = ManualClock()
    loop, fired = CoarseLoop(clock), list[int]()
    timer_on(loop, clock, fired).set(NEVER, 0, exact=True)
    loop.run()
    assert fired == []


@pytest.mark.looptime
async def test_on_a_loop_with_exact_timers_it_fires_exactly_and_may_be_set_while_it_fires() -> None:
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop)
    fired: list[int] = []

    def callback(now: int) -> None:
        fired.append(now)
        if len(fired) < 3:
            timer.set(now + 7 * MS, now, exact=True)

    timer = Timer(loop=loop, clock=clock, callback=callback)
    timer.set(3 * MS, 0, exact=True)
    await asyncio.sleep(1)
    assert fired == [3 * MS, 10 * MS, 17 * MS]
