"""Deadlines of calls, in steps of 20 ms: one timer for all, since one each would cost more than the rest of a short call's timing."""

import asyncio
import heapq
import math
import typing

STEP_S = 0.02


class Expires(typing.Protocol):
    """A call with a deadline."""

    def expire(self) -> None:
        """The deadline has passed."""


class Deadlines:
    """The calls of a port that have deadlines. Loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: dict[int, set[Expires]] = {}
        self._order: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = 0

    def add(self, call: Expires, seconds: float) -> int:
        """Have a call expire after so many seconds, and up to 20 ms; returns what `remove` wants."""
        step = math.ceil((self._loop.time() + min(seconds, 1e8)) / STEP_S)
        calls = self._due.get(step)
        if calls is None:
            calls = self._due[step] = set()
            heapq.heappush(self._order, step)
            if self._timer is None or step < self._armed_for:
                self._arm(step)
        calls.add(call)
        return step

    def remove(self, call: Expires, step: int) -> None:
        """A call has ended. Idempotent."""
        calls = self._due.get(step)
        if calls is not None:
            calls.discard(call)

    def close(self) -> None:
        """Stop the timer. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, step: int) -> None:
        self.close()
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
