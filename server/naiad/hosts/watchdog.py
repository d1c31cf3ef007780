"""Finds a worker that takes too long for what it was told to do: has it write its stacks into the log, and ends it.

One thing at a time, as a worker does: its load, or the batch that is out. Whoever waits for it is told at once; the process has a moment
more, for the stacks.
"""

import asyncio
import collections.abc
import logging

from naiad.hosts.limits import Limit
from naiad.hosts.output_log import Identity
from naiad.hosts.worker_process import WorkerProcess

_log = logging.getLogger(__name__)

OnLate = collections.abc.Callable[[str], None]
"""Told how it ended, as words that follow "its worker process "."""


class Watchdog:
    """Of one instance. All of it is on the event loop.

    Args:
        identity: whose workers it watches.
        loop: whose timers it sets.
    """

    __slots__ = ("_identity", "_loop", "_timer")

    def __init__(self, identity: Identity, *, loop: asyncio.AbstractEventLoop) -> None:
        self._identity = identity
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, worker: WorkerProcess, what: str, limit: Limit, on_late: OnLate) -> None:
        """A worker begins with something that has a limit; `rest` says that it is over.

        Args:
            worker: the worker.
            what: it does, in words: "its load".
            limit: of seconds above 0.
            on_late: called when it takes longer.
        """
        self._timer = self._loop.call_later(limit.seconds, self._bite, worker, what, limit, on_late)

    def rest(self) -> None:
        """It is over, whichever way."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _bite(self, worker: WorkerProcess, what: str, limit: Limit, on_late: OnLate) -> None:
        self._timer = None
        _log.error(
            "%s: %s takes longer than %s (%g s): the stacks of worker process %d follow, then it is killed",
            self._identity, what, limit.parameter, limit.seconds, worker.pid,
        )  # fmt: skip
        because = f"took longer than {limit.parameter} ({limit.seconds:g} s) and was killed"
        worker.put_down(because)
        on_late(because)
