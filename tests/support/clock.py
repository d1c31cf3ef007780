"""A clock over a loop's own time: under looptime, deadlines and timers move together."""

import asyncio

WALL_AT_START_NS = 1_700_000_000_000_000_000


class LoopClock:
    """Implements `Clock` with `loop.time()`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def monotonic_ns(self) -> int:
        return round(self._loop.time() * 1e9)

    def wall_ns(self) -> int:
        return WALL_AT_START_NS + self.monotonic_ns()
