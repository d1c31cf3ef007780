"""The timers of the schedulers of one event loop: precise to microseconds, while the loop sleeps.

All of them share one wake-up, at the earliest time of all (`wakeup`). A time that need not be precise (a timeout) is put off to the next whole
millisecond, so that the timeouts of many requests share one call.
"""

import asyncio
import bisect
import collections.abc
import itertools

from naiad.core.clock import Clock
from naiad.scheduling.timers.wakeup import NEVER, wakeup_on

_TICK_NS = 1_000_000

OnTime = collections.abc.Callable[[int], None]


class Timers:
    """All timers on one event loop; its methods and theirs are called in the loop's thread.

    Args:
        loop: the event loop.
        clock: gives the time.
    """

    __slots__ = ("_armed_ns", "_fired_ns", "_now", "_set", "_sets", "_wakeup")

    def __init__(self, *, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._now = clock.monotonic_ns
        self._wakeup = wakeup_on(loop, clock, self._fire)
        self._set: list[_Entry] = []
        self._sets = itertools.count()
        self._armed_ns = NEVER
        self._fired_ns = -1

    def timer(self, callback: OnTime) -> "Timer":
        """A timer that is not set.

        Args:
            callback: called with the current time, in nanoseconds; may set the timer again.
        """
        return Timer(self, callback)

    def add(self, timer: "Timer", at_ns: int) -> "_Entry":
        """Fire a timer at a time; what was set for a time that is over, while others fired, fires in the next iteration of the loop."""
        entry = (max(at_ns, self._fired_ns + 1), next(self._sets), timer)
        bisect.insort(self._set, entry)
        if at_ns < self._armed_ns:
            self._arm()
        return entry

    def remove(self, entry: "_Entry") -> None:
        """Do not fire, and do not wake the loop for it."""
        self.forget(entry)
        if entry[0] == self._armed_ns:
            self._arm()

    def forget(self, entry: "_Entry") -> None:
        """Do not fire at this time: an earlier one is set next."""
        del self._set[bisect.bisect_left(self._set, entry)]

    def _arm(self) -> None:
        self._armed_ns = self._set[0][0] if self._set else NEVER
        self._wakeup.set(self._armed_ns)

    def _fire(self) -> None:
        self._fired_ns = now = self._now()
        self._armed_ns = -1  # those that are set meanwhile are armed together
        due = self._set
        try:
            while due and due[0][0] <= now:
                due.pop(0)[2].fire(now)
        finally:
            self._arm()


class Timer:
    """Calls back once at a time that may be moved earlier.

    Args:
        timers: those of its loop.
        callback: called with the current time, in nanoseconds; may set the timer again.

    Attributes:
        at_ns: when it fires (monotonic); NEVER while it is not set.
    """

    __slots__ = ("_callback", "_entry", "_timers", "at_ns")

    def __init__(self, timers: Timers, callback: OnTime) -> None:
        self._timers = timers
        self._callback = callback
        self._entry: _Entry | None = None
        self.at_ns = NEVER

    def set(self, at_ns: int, *, exact: bool) -> None:
        """Fire at `at_ns`, or earlier if it is set to an earlier time: the callback finds out itself what is due.

        Args:
            at_ns: monotonic nanoseconds; NEVER has no effect.
            exact: precise to some microseconds; otherwise up to a millisecond late.
        """
        if not exact:
            at_ns = -(-at_ns // _TICK_NS) * _TICK_NS
        if at_ns < self.at_ns:
            if self._entry is not None:
                self._timers.forget(self._entry)
            self.at_ns = at_ns
            self._entry = self._timers.add(self, at_ns)

    def cancel(self) -> None:
        """Do not fire."""
        self.at_ns = NEVER
        if self._entry is not None:
            self._timers.remove(self._entry)
            self._entry = None

    def fire(self, now: int) -> None:
        """Its time has come; it is not set any more."""
        self.at_ns, self._entry = NEVER, None
        self._callback(now)


_Entry = tuple[int, int, Timer]
