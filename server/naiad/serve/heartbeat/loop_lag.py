"""Measures how late the event loop runs its callbacks: a timer of 20 ms whose delays are the metric `naiad_loop_lag_seconds`.

The timer is also the heartbeat that the stall watchdog (`stall_watchdog.py`) watches from a thread of its own. The heartbeat also records
by itself when it was late: while one call holds the interpreter lock the watchdog cannot run either, and afterwards the loop may run first.

A loop without clients and without work of its own rests (`interval.py`), and the first request brings the usual pace back before it is read. Clients that stay
connected and send nothing count for two seconds.
"""

import asyncio
import collections
import collections.abc
import contextlib
import os
import threading

from naiad.core.clock import Clock
from naiad.core.record import Record
from naiad.metrics.exposition import Series, histogram
from naiad.metrics.families import LOOP_LAG
from naiad.metrics.histogram import Histogram
from naiad.serve.heartbeat.interval import INTERVAL_NS, HeartbeatInterval

STALL_NS = 50_000_000
"""A heartbeat that is later than this is a stall."""

_KEPT_STALLS = 256
"""Stalls that the watchdog has not taken yet. It takes them more often than they can come, unless it does not run at all."""

_INTERVAL_SECONDS = INTERVAL_NS / 1e9
_BOUNDS_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
)  # fmt: skip


class RunDelay:
    """The time for which a thread of this process was ready to run but had no processor, since its start; 0 if the kernel does not count it.

    Attributes:
        computed_ns: for how long it had one, at the last `read_ns`.
    """

    def __init__(self, native_id: int) -> None:
        self._file = -1
        self.computed_ns = 0
        with contextlib.suppress(OSError):
            self._file = os.open(
                f"/proc/self/task/{native_id}/schedstat", os.O_RDONLY | os.O_CLOEXEC
            )

    def read_ns(self) -> int:
        """The time in nanoseconds."""
        if self._file < 0:
            return 0
        try:
            computed, waited, _ = os.pread(self._file, 64, 0).split()
            self.computed_ns = int(computed)
            return int(waited)
        except (OSError, ValueError):
            return 0

    def close(self) -> None:
        """Close its file. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Stall(Record, frozen=True):
    """A heartbeat that was late.

    Attributes:
        beat_ns: monotonic time of the heartbeat before it.
        late_ns: how late it was.
        run_delay_ns: the part of it for which the loop's thread waited for a processor.
    """

    beat_ns: int
    late_ns: int
    run_delay_ns: int

    @property
    def is_starved(self) -> bool:
        """Whether the loop waited for a processor for the most part: the machine caused it."""
        return 2 * self.run_delay_ns > self.late_ns


class LoopLag:
    """The heartbeat of one event loop and the histogram of its delays.

    Args:
        was_in_use: whether a client was there since it was called before; called with each heartbeat.

    Attributes:
        beat_ns: monotonic time `INTERVAL_NS` before the next heartbeat is due: that of the last one, unless the loop rests. Another thread may read it.
        stalls: the late heartbeats, oldest first; another thread may take them out. Those during which no client was there are left out.
        in_use: whether a client was there at the last heartbeat, or between the two before it.
        on_woken: called, on the loop, when the heartbeat goes back to its usual pace before it was due.
    """

    def __init__(
        self, *, clock: Clock, was_in_use: collections.abc.Callable[[], bool] = lambda: True
    ) -> None:
        self._now = clock.monotonic_ns
        self._was_in_use = was_in_use
        self._unused_stall: Stall | None = None
        self.in_use = False
        self._lags = Histogram(_BOUNDS_SECONDS)
        self._timer: asyncio.TimerHandle | None = None
        self._run_delay: RunDelay | None = None
        self._delayed_ns = 0
        self._computed_ns = 0
        self._interval = HeartbeatInterval()
        self.on_woken: collections.abc.Callable[[], None] = _ignore
        self.beat_ns = self._now()
        self.stalls = collections.deque[Stall](maxlen=_KEPT_STALLS)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the heartbeat; on the loop's thread."""
        self._loop = loop
        self._run_delay = RunDelay(threading.get_native_id())
        self._delayed_ns = self._run_delay.read_ns()
        self._computed_ns = self._run_delay.computed_ns
        self.beat_ns = self._now()
        self.in_use = self._was_in_use()
        self._timer = loop.call_later(_INTERVAL_SECONDS, self._beat)

    def stop(self) -> None:
        """Stop the heartbeat. Idempotent; on the loop's thread, after the watchdog has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._run_delay is not None:
            self._run_delay.close()

    def client_came(self) -> None:
        """A client connects, or calls: the heartbeat keeps its usual pace from now on. Cheap unless the loop rests."""
        if not self._interval.rests or self._timer is None:
            return
        now = self._now()
        if now >= self.beat_ns + INTERVAL_NS:
            return  # it is late itself, and comes at once
        self._interval.wake()
        self.in_use = True
        if self._run_delay is not None:
            self._delayed_ns = self._run_delay.read_ns()
        self.beat_ns = now
        self._timer.cancel()
        self._timer = self._loop.call_later(_INTERVAL_SECONDS, self._beat)
        self.on_woken()

    def stall_so_far(self) -> Stall:
        """How late the next heartbeat is already; for another thread."""
        beat_ns, delayed_ns = self.beat_ns, self._delayed_ns
        late_ns = max(0, self._now() - beat_ns - INTERVAL_NS)
        return Stall(beat_ns, late_ns, self._waited_ns(delayed_ns, late_ns))

    def series(self) -> Series:
        """The histogram, in seconds."""
        return Series(LOOP_LAG, tuple(histogram((), self._lags)))

    def _beat(self) -> None:
        now = self._now()
        # uvloop's timers have a resolution of a millisecond, so a heartbeat may come a little early.
        late_ns = max(0, now - self.beat_ns - INTERVAL_NS)
        self._lags.observe(late_ns / 1e9)
        in_use = self._was_in_use()
        if self._unused_stall is not None and in_use:
            self.stalls.append(self._unused_stall)
        self._unused_stall = None
        if late_ns > STALL_NS:
            stall = Stall(self.beat_ns, late_ns, self._waited_ns(self._delayed_ns, late_ns))
            if self.in_use or in_use:
                self.stalls.append(stall)
            else:  # clients that came meanwhile are seen before the next heartbeat
                self._unused_stall = stall
        self.in_use = in_use
        computed_ns = 0
        if self._run_delay is not None:
            self._delayed_ns = self._run_delay.read_ns()
            computed_ns = self._run_delay.computed_ns - self._computed_ns
            self._computed_ns = self._run_delay.computed_ns
        interval_ns = self._interval.next_ns(in_use=in_use, computed_ns=computed_ns)
        self.beat_ns = now + interval_ns - INTERVAL_NS
        self._timer = self._loop.call_later(interval_ns / 1e9, self._beat)

    def _waited_ns(self, before_ns: int, late_ns: int) -> int:
        if self._run_delay is None:
            return 0
        return min(late_ns, max(0, self._run_delay.read_ns() - before_ns))


def _ignore() -> None:
    """Until a watchdog is there."""
