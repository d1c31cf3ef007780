"""Detects a worker that exceeds a time limit: has it write its stacks into the log, and kills it.

A worker does one thing at a time: it loads, or executes a batch. The caller that waits for it is notified at once; the process gets a
moment to write the stacks.
"""

import asyncio
import collections.abc
import logging

from naiad.hosts.limits import Limit
from naiad.hosts.output_log import Identity
from naiad.hosts.worker_process import WorkerProcess

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
