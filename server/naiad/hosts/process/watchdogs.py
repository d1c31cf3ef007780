"""Supervises a worker process: finds one that exceeds a time limit or lets no coroutine run, and restarts one that died.

A worker does one thing at a time: it loads, or executes a batch. The `Watchdog` has a worker that takes too long write its stacks into
the log, and kills it; the caller that waits for it is notified at once. The `Heartbeat` finds coroutines that never await and so block all
others, although their batches came back long ago: while a worker owes deferred responses it gets a ping from time to time, which its event
loop thread has to answer with a pong. `RestartBackoff` decides when a worker that died is restarted, purely; the `Restarter` does it.
"""

import asyncio
import collections.abc
import contextlib
import logging

from naiad.core.clock import Clock
from naiad.errors import InferenceError
from naiad.hosts.host import Limit
from naiad.hosts.link import kinds
from naiad.hosts.process.output_log import Identity
from naiad.hosts.process.worker_process import WorkerProcess
from naiad.log_text import Lines

_log = logging.getLogger(__name__)

OnLate = collections.abc.Callable[[str], None]
"""Called with how the worker ended, as text that follows "its worker process "."""


class Watchdog:
    """The watchdog of one instance. All methods are called on the event loop.

    Args:
        identity: the instance.
        loop: the event loop.
    """

    __slots__ = ("_identity", "_loop", "_timer")

    def __init__(self, identity: Identity, *, loop: asyncio.AbstractEventLoop) -> None:
        self._identity = identity
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, worker: WorkerProcess, what: str, limit: Limit, on_late: OnLate) -> None:
        """A worker begins something that has a time limit; `cancel` ends the watch.

        Args:
            worker: the worker.
            what: the text for the log, such as "its load".
            limit: more than 0 seconds.
            on_late: called when it takes longer.
        """
        self._timer = self._loop.call_later(
            limit.seconds, self._expire, worker, what, limit, on_late
        )

    def cancel(self) -> None:
        """End the watch."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self, worker: WorkerProcess, what: str, limit: Limit, on_late: OnLate) -> None:
        self._timer = None
        _log.error(
            "%s: %s takes longer than %s (%g s): the stacks of worker process %d follow, then it is killed",
            self._identity, what, limit.parameter, limit.seconds, worker.pid,
        )  # fmt: skip
        because = f"took longer than {limit.parameter} ({limit.seconds:g} s) and was killed"
        worker.dump_and_kill(because)
        on_late(because)


OwesResponses = collections.abc.Callable[[], bool]


class Heartbeat:
    """The heartbeat of one instance. All methods are called on the event loop.

    Args:
        identity: the instance.
        limit: how long a pong may take, and the time between two pings; 0 seconds: no pings.
        number: of the instance, for the worker.
        loop: the event loop.
    """

    __slots__ = ("_limit", "_loop", "_number", "_pinged", "_timer", "_watchdog")

    def __init__(
        self, identity: Identity, limit: Limit, *, number: int, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._limit = limit
        self._number = number
        self._loop = loop
        self._watchdog = Watchdog(identity, loop=loop)
        self._timer: asyncio.TimerHandle | None = None
        self._pinged: tuple[WorkerProcess, OwesResponses, OnLate] | None = None

    def start(self, worker: WorkerProcess, owes: OwesResponses, on_late: OnLate) -> None:
        """Send pings for as long as `owes` returns True, or until `stop`."""
        if self._limit.seconds and self._timer is None and self._pinged is None:
            self._timer = self._loop.call_later(
                self._limit.seconds, self._ping, worker, owes, on_late
            )

    def pong(self) -> None:
        """The worker has answered."""
        pinged, self._pinged = self._pinged, None
        self._watchdog.cancel()
        if pinged is not None:
            self.start(*pinged)

    def stop(self) -> None:
        """Send no more pings."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pinged = None
        self._watchdog.cancel()

    def _ping(self, worker: WorkerProcess, owes: OwesResponses, on_late: OnLate) -> None:
        self._timer = None
        if owes():
            self._pinged = worker, owes, on_late
            worker.notify(kinds.PING, self._number)
            what = "something that lets no coroutine run"
            self._watchdog.watch(worker, what, self._limit, on_late)


FIRST_DELAY_NS = 500_000_000
LONGEST_DELAY_NS = 60_000_000_000

STABLE_NS = 60_000_000_000
"""After a worker was up for this long, earlier deaths do not count."""


class RestartBackoff:
    """Counts the deaths of one instance's workers.

    Attributes:
        deaths: consecutive ones, none of them after a stable time.
    """

    __slots__ = ("_up_since_ns", "deaths")

    def __init__(self) -> None:
        self.deaths = 0
        self._up_since_ns: int | None = None

    def on_serving(self, now_ns: int) -> None:
        """A worker has loaded its model."""
        self._up_since_ns = now_ns

    def died(self, now_ns: int) -> int:
        """A worker died, or could not load; returns the nanoseconds until the next start."""
        up_since, self._up_since_ns = self._up_since_ns, None
        if up_since is not None and now_ns - up_since >= STABLE_NS:
            self.deaths = 0
        self.deaths += 1
        if self.deaths == 1:
            return 0
        # The exponent is limited: a worker may die for weeks.
        return min(FIRST_DELAY_NS << min(self.deaths - 2, 30), LONGEST_DELAY_NS)


_NS_PER_SECOND = 1e9


class Restarter:
    """Restarts the workers of one host.

    Args:
        identity: the instance.
        start: starts a worker and loads the model; raises InferenceError.
        on_refused: called for each worker that did not start, or did not load the model.
        on_served: called when a worker serves.
        clock: measures how long workers lived.
        loop: the event loop in which every method is called.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        start: collections.abc.Callable[[], collections.abc.Awaitable[None]],
        on_refused: collections.abc.Callable[[], None],
        on_served: collections.abc.Callable[[], None],
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._identity = identity
        self._start = start
        self._on_refused = on_refused
        self._on_served = on_served
        self._now = clock.monotonic_ns
        self._loop = loop
        self._backoff = RestartBackoff()
        self._task: asyncio.Task[None] | None = None

    def on_serving(self) -> None:
        """A worker has loaded its model."""
        self._backoff.on_serving(self._now())

    def restart(self) -> None:
        """A worker died."""
        self._task = self._loop.create_task(self._restart())

    def cancel(self) -> None:
        """Restart no more workers."""
        if self._task is not None:
            self._task.cancel()

    async def wait(self) -> None:
        """Wait for the end of a restart that was cancelled."""
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _restart(self) -> None:
        while True:
            delay_s = self._backoff.died(self._now()) / _NS_PER_SECOND
            if delay_s:
                _log.info("%s: the next worker starts in %.1f s", self._identity, delay_s)
            await asyncio.sleep(delay_s)
            try:
                await self._start()
            except InferenceError as error:
                _log.error("%s", Lines(error.message))
                self._on_refused()
            else:
                _log.info("%s: a new worker process serves", self._identity)
                self._on_served()
                return
