"""Detects a worker whose coroutines make no progress: one that never awaits blocks all others, although their batches came back long ago.

While a worker owes deferred responses it gets a ping from time to time, which its event loop thread has to answer with a pong. A worker
that does not in time is stuck, like one that does not return its batch.
"""

import asyncio
import collections.abc

from naiad.hosts.limits import Limit
from naiad.hosts.output_log import Identity
from naiad.hosts.watchdog import OnLate, Watchdog
from naiad.hosts.worker import link
from naiad.hosts.worker_process import WorkerProcess

OwesResponses = collections.abc.Callable[[], bool]


class Heartbeat:
    """The heartbeat of one instance. All methods are called on the event loop.

    Args:
        identity: the instance.
        limit: how long a pong may take, and the time between two pings; 0 seconds: no pings.
        loop: the event loop.
    """

    __slots__ = ("_limit", "_loop", "_pinged", "_timer", "_watchdog")

    def __init__(
        self, identity: Identity, limit: Limit, *, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._limit = limit
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
            worker.notify(link.PING)
            what = "something that lets no coroutine run"
            self._watchdog.watch(worker, what, self._limit, on_late)
