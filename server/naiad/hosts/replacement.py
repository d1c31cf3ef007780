"""Starts the next worker in place of one that died, again and again until one serves; when is `respawn.py`'s.

The host says when (`begin`, `came_up`) and how (`start`). Stopping it ends a start that is under way as well.
"""

import asyncio
import collections.abc
import contextlib
import logging

from naiad.core.clock import Clock
from naiad.errors import InferenceError
from naiad.hosts.output_log import Identity
from naiad.hosts.respawn import Backoff

_log = logging.getLogger(__name__)

_NS_A_SECOND = 1e9


class Replacement:
    """Replaces the workers of one host.

    Args:
        identity: whose they are.
        start: starts one and has it load the model; raises InferenceError.
        on_refused: told each time that one could not be started, or could not load.
        on_served: told that one serves.
        clock: for how long workers lived.
        loop: whose thread calls every method.
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
        self._backoff = Backoff()
        self._task: asyncio.Task[None] | None = None

    def came_up(self) -> None:
        """A worker has loaded its model."""
        self._backoff.came_up(self._now())

    def begin(self) -> None:
        """A worker died."""
        self._task = self._loop.create_task(self._replace())

    async def stop(self) -> None:
        """Replace nobody any more."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _replace(self) -> None:
        while True:
            delay_s = self._backoff.died(self._now()) / _NS_A_SECOND
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
