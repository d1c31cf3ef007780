"""Deadlines of calls, in steps of 20 ms: one timer for all, since one each would cost more than the rest of a short call's timing.

Most calls end within a step. Those that are expected to are put into the order only if they have not: `add_brief`.
"""

import asyncio
import heapq
import math
import typing

STEP_S = 0.02
_LONGEST_S = 1e8


class Expires(typing.Protocol):
    """A call with a deadline."""

    def expire(self) -> None:
        """The deadline has passed."""


class Brief(Expires, typing.Protocol):
    """A call that probably ends within a step.

    Attributes:
        done: it has ended.
        due: what `remove` wants, once the call is in the order; set by `Deadlines`.
    """

    done: bool
    due: int


class Deadlines:
    """The calls of a port that have deadlines. Loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: dict[int, set[Expires]] = {}
        self._order: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = 0
        self._brief: list[tuple[Brief, float]] = []
        self._step: asyncio.TimerHandle | None = None

    def add_brief(self, call: Brief, seconds: float) -> None:
        """As `add`, for a call of which `remove` need not hear if it ends before its `due` is set, at the end of this step."""
        now = self._loop.time()
        if not self._brief:
            self._step = self._loop.call_at(now + STEP_S, self._end_step)
        self._brief.append((call, now + seconds))

    def add(self, call: Expires, seconds: float) -> int:
        """Have a call expire after so many seconds, and up to 20 ms; returns what `remove` wants."""
        return self._put(call, self._loop.time() + seconds)

    def _put(self, call: Expires, when: float) -> int:
        step = math.ceil(min(when, self._loop.time() + _LONGEST_S) / STEP_S)
        calls = self._due.get(step)
        if calls is None:
            calls = self._due[step] = set()
            heapq.heappush(self._order, step)
            if self._timer is None or step < self._armed_for:
                self._arm(step)
        calls.add(call)
        return step

    def left(self, step: int) -> float:
        """The seconds until the calls of a step expire."""
        return max(0.0, step * STEP_S - self._loop.time())

    def remove(self, call: Expires, step: int) -> None:
        """A call has ended. Idempotent."""
        calls = self._due.get(step)
        if calls is not None:
            calls.discard(call)

    def close(self) -> None:
        """Stop the timers. Idempotent."""
        for timer in (self._timer, self._step):
            if timer is not None:
                timer.cancel()
        self._timer = self._step = None

    def _end_step(self) -> None:
        """Put the brief calls that have not ended into the order."""
        brief, self._brief = self._brief, []
        self._step = None
        now = self._loop.time()
        for call, when in brief:
            if call.done:
                continue
            if when <= now:
                call.expire()
            else:
                call.due = self._put(call, when)

    def _arm(self, step: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = step
        self._timer = self._loop.call_at(step * STEP_S, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        order = self._order
        while order and order[0] * STEP_S <= now + 1e-6:
            for call in self._due.pop(heapq.heappop(order)):
                call.expire()
        while order and not self._due[order[0]]:  # their calls have ended
            del self._due[heapq.heappop(order)]
        if order and self._timer is None:
            self._arm(order[0])
