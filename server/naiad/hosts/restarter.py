"""Restarts a worker that died, until one serves; `restart_backoff.py` decides when.

The host calls `restart` and `on_serving`, and brings `start`. Stopping it cancels a start in progress as well.
"""

import asyncio
import collections.abc
import contextlib
import logging

from naiad.core.clock import Clock
from naiad.errors import InferenceError
from naiad.hosts.output_log import Identity
from naiad.hosts.restart_backoff import RestartBackoff

_log = logging.getLogger(__name__)

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

    async def stop(self) -> None:
        """Restart no more workers."""
        if self._task is not None:
            self._task.cancel()
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
                _log.error("%s", error.message)
                self._on_refused()
            else:
                _log.info("%s: a new worker process serves", self._identity)
                self._on_served()
                return
