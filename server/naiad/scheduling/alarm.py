"""One timer on the loop that rings at a nanosecond, although the loop's own timers tick in milliseconds.

uvloop rounds a timer to whole milliseconds: 300 µs rings at once, 600 µs after 1.1 ms (measured), and a batcher's delay is
usually below that. So an exact alarm aims short of its time and, in the last millisecond, asks again on every turn of the
loop, which reads its sockets meanwhile. Measured on uvloop: 1 µs late for 50 to 5000 µs, 0.3 ms for 200 ms; the price is a
loop that does not sleep in that last millisecond. A loop with exact timers (virtual time in tests) gets there too.
Where a millisecond does not matter (a timeout), an alarm that is not exact sleeps through and rings that much late.
"""

import asyncio
import collections.abc

from naiad.core.clock import Clock

NEVER = 1 << 63
"""Later than any time."""

_TICK_NS = 1_000_000
_EXACT_NS = 10_000


class Alarm:
    """At most one timer is armed.

    Args:
        loop: whose timer it is; all methods belong to its thread.
        clock: the time.
        ring: called with the time when the time has come; may set the alarm again.

    Attributes:
        at_ns: when it rings (monotonic); NEVER while it is not set.
    """

    __slots__ = ("_call_later", "_exact", "_now", "_ring", "_timer", "at_ns")

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        ring: collections.abc.Callable[[int], None],
    ) -> None:
        self._call_later = loop.call_later
        self._now = clock.monotonic_ns
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._exact = False
        self.at_ns = NEVER

    def set(self, at_ns: int, now: int, *, exact: bool) -> None:
        """Ring at `at_ns`, or earlier if it is set to an earlier time: who hears it looks again anyway.

        Args:
            at_ns: when (monotonic); NEVER does nothing.
            now: the time.
            exact: to the microsecond; otherwise up to 1.2 ms late.
        """
        if at_ns < self.at_ns:
            self.cancel()
            self.at_ns = at_ns
            self._exact = exact
            self._aim(at_ns - now)

    def cancel(self) -> None:
        """Do not ring."""
        self.at_ns = NEVER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _aim(self, left_ns: int) -> None:
        if not self._exact:
            left_ns += _TICK_NS // 2 + 1
        elif left_ns > _TICK_NS:
            left_ns -= _TICK_NS // 2
        elif left_ns > _EXACT_NS:
            left_ns //= 2
        self._timer = self._call_later(left_ns / 1e9, self._look)

    def _look(self) -> None:
        now = self._now()
        left_ns = self.at_ns - now
        if left_ns > 0:
            self._aim(left_ns)
            return
        self.at_ns, self._timer = NEVER, None
        self._ring(now)
