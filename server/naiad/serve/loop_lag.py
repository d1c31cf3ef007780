"""Measures how late the event loop runs its callbacks: a timer of 20 ms whose delays are the metric `naiad_loop_lag_seconds`.

The timer is also the heartbeat that the stall watchdog (`stall_watchdog.py`) watches from a thread of its own.
"""

import asyncio

from naiad.core.clock import Clock
from naiad.metrics.exposition import Series, histogram
from naiad.metrics.families import LOOP_LAG
from naiad.metrics.statistics import Histogram

INTERVAL_NS = 20_000_000
"""Between two heartbeats. A request that arrives while the loop is busy waits as long as the heartbeat does."""

_INTERVAL_SECONDS = INTERVAL_NS / 1e9
_BOUNDS_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
)  # fmt: skip


class LoopLag:
    """The heartbeat of one event loop and the histogram of its delays.

    Args:
        clock: the time.

    Attributes:
        beat_ns: monotonic time of the last heartbeat; another thread may read it.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._now = clock.monotonic_ns
        self._lags = Histogram(tuple(int(bound * 1e9) for bound in _BOUNDS_SECONDS))
        self._timer: asyncio.TimerHandle | None = None
        self.beat_ns = self._now()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to beat; on the loop's thread."""
        self._loop = loop
        self.beat_ns = self._now()
        self._timer = loop.call_later(_INTERVAL_SECONDS, self._beat)

    def stop(self) -> None:
        """Beat no more. Idempotent; on the loop's thread."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def series(self) -> Series:
        """The histogram, in seconds."""
        lags = self._lags
        samples = histogram((), bounds=_BOUNDS_SECONDS, counts=lags.counts, total=lags.total / 1e9)
        return Series(LOOP_LAG, tuple(samples))

    def _beat(self) -> None:
        now = self._now()
        # uvloop's timers tick in milliseconds, so that a beat may come a little early.
        self._lags.observe(max(0, now - self.beat_ns - INTERVAL_NS))
        self.beat_ns = now
        self._timer = self._loop.call_later(_INTERVAL_SECONDS, self._beat)
