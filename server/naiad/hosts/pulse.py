"""Feels whether a worker that still owes answers lets its code run: a coroutine that awaits nothing keeps all others, and their batches are long back.

The worker is asked from time to time, and its coroutines' own thread has to say yes. One that does not in time is stuck, as one
is that does not give its batch back.
"""

import asyncio
import collections.abc

from naiad.hosts.limits import Limit
from naiad.hosts.output_log import Identity
from naiad.hosts.watchdog import OnLate, Watchdog
from naiad.hosts.worker import link
from naiad.hosts.worker_process import WorkerProcess

Owes = collections.abc.Callable[[], bool]


class Pulse:
    """Of one instance. All of it is on the event loop.

    Args:
        identity: whose workers are felt.
        limit: how long the answer may take, and how long it is waited between two; of 0 seconds nobody is asked.
        loop: whose timers it sets.
    """

    __slots__ = ("_asked", "_limit", "_loop", "_timer", "_watchdog")

    def __init__(
        self, identity: Identity, limit: Limit, *, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._limit = limit
        self._loop = loop
        self._watchdog = Watchdog(identity, loop=loop)
        self._timer: asyncio.TimerHandle | None = None
        self._asked: tuple[WorkerProcess, Owes, OnLate] | None = None

    def feel(self, worker: WorkerProcess, owes: Owes, on_late: OnLate) -> None:
        """A worker owes answers, and `owes` says whether it still does. Goes on until it does not, or until `stop`."""
        if self._limit.seconds and self._timer is None and self._asked is None:
            self._timer = self._loop.call_later(
                self._limit.seconds, self._ask, worker, owes, on_late
            )

    def felt(self) -> None:
        """The worker said yes."""
        asked, self._asked = self._asked, None
        self._watchdog.rest()
        if asked is not None:
            self.feel(*asked)

    def stop(self) -> None:
        """There is nobody to feel."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._asked = None
        self._watchdog.rest()

    def _ask(self, worker: WorkerProcess, owes: Owes, on_late: OnLate) -> None:
        self._timer = None
        if owes():
            self._asked = worker, owes, on_late
            worker.post(link.ASK_PULSE)
            what = "something that lets no coroutine run"
            self._watchdog.watch(worker, what, self._limit, on_late)
