"""A timer with microsecond precision on an event loop whose own timers have milliseconds.

uvloop rounds a timer to whole milliseconds: 300 µs fires at once, 600 µs after 1.1 ms (measured), and a batcher's delay is
usually below that. So an exact timer first waits for less than its time and, in the last millisecond, checks again on every iteration of
the loop, which reads its sockets meanwhile. Measured on uvloop: 1 µs late for 50 to 5000 µs, 0.3 ms for 200 ms. The cost is a
loop that does not sleep in that last millisecond. It works as well on a loop with exact timers (virtual time in tests).
Where a millisecond does not matter (a timeout), a timer that is not exact lets the loop sleep and fires that much later.
"""

import asyncio
import collections.abc

from naiad.core.clock import Clock

NEVER = 1 << 63
"""Later than any time."""

_TICK_NS = 1_000_000
_EXACT_NS = 10_000


class Timer:
    """Calls back once at a time that may be moved earlier.

    Args:
        loop: the event loop; all methods are called in its thread.
        clock: gives the time.
        callback: called with the current time, in nanoseconds; may set the timer again.

    Attributes:
        at_ns: when it fires (monotonic); NEVER while it is not set.
    """

    __slots__ = ("_call_later", "_callback", "_exact", "_now", "_timer", "at_ns")

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        callback: collections.abc.Callable[[int], None],
    ) -> None:
        self._call_later = loop.call_later
        self._now = clock.monotonic_ns
        self._callback = callback
        self._timer: asyncio.TimerHandle | None = None
        self._exact = False
        self.at_ns = NEVER

    def set(self, at_ns: int, now: int, *, exact: bool) -> None:
        """Fire at `at_ns`, or earlier if it is set to an earlier time: the callback finds out itself what is due.

        Args:
            at_ns: monotonic nanoseconds; NEVER has no effect.
            now: the current time.
            exact: precise to a microsecond; otherwise up to 1.2 ms late.
        """
        if at_ns < self.at_ns:
            self.cancel()
            self.at_ns = at_ns
            self._exact = exact
            self._arm(at_ns - now)

    def cancel(self) -> None:
        """Do not fire."""
        self.at_ns = NEVER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, left_ns: int) -> None:
        if not self._exact:
            left_ns += _TICK_NS // 2 + 1
        elif left_ns > _TICK_NS:
            left_ns -= _TICK_NS // 2
        elif left_ns > _EXACT_NS:
            left_ns //= 2
        self._timer = self._call_later(left_ns / 1e9, self._check)

    def _check(self) -> None:
        now = self._now()
        left_ns = self.at_ns - now
        if left_ns > 0:
            self._arm(left_ns)
            return
        self.at_ns, self._timer = NEVER, None
        self._callback(now)
