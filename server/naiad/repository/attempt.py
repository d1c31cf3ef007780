"""Making a served version of a plan: no more at once than allowed, and again when it fails, as often as asked (row 7.32)."""

import asyncio
import collections.abc
import contextlib
import logging
import typing

from naiad.core.clock import Clock
from naiad.errors import InferenceError
from naiad.repository.lifecycle import Event, State
from naiad.repository.plan import VersionPlan
from naiad.repository.version import Progress, S, Version

log = logging.getLogger("naiad.repository")


class Attempts(typing.Generic[S]):
    """Loads versions.

    Args:
        load: makes a served version; its InferenceError message is the reason in the index.
        slots: one for each load that may be under way.
        retry_count: how often a failed load is tried again.
        progress: told of every step.
        clock: for load durations.
    """

    def __init__(
        self,
        *,
        load: collections.abc.Callable[[VersionPlan], collections.abc.Awaitable[S]],
        slots: asyncio.Semaphore,
        retry_count: int,
        progress: Progress,
        clock: Clock,
    ) -> None:
        self._load = load
        self._slots = slots
        self._retry_count = retry_count
        self._progress = progress
        self._clock = clock

    @contextlib.asynccontextmanager
    async def lent_slot(self, asked_by: str) -> collections.abc.AsyncIterator[None]:
        """A load that waits for another one does nothing meanwhile: that one has its place, or both would wait for ever."""
        if not asked_by:
            yield
            return
        self._slots.release()
        try:
            yield
        finally:
            await self._slots.acquire()

    async def make(self, version: Version[S]) -> S | None:
        """Load a version. It is LOADING afterwards, and the caller says what becomes of it; or UNAVAILABLE, and the result None."""
        async with self._slots:
            for left in range(self._retry_count, -1, -1):
                version.tell(Event.LOAD)
                self._progress.changed(version.told())
                served = await self._once(version)
                if served is not None:
                    return served
                self._progress.changed(version.told())
                if left:
                    log.warning(
                        "loading %s version %d failed, trying again (%d of %d): %s",
                        version.plan.config.name,
                        version.plan.version,
                        self._retry_count - left + 1,
                        self._retry_count,
                        version.reason,
                    )
        assert version.state is State.UNAVAILABLE, version.state
        return None

    async def _once(self, version: Version[S]) -> S | None:
        plan = version.plan
        started_ns = self._clock.monotonic_ns()
        try:
            served = await self._load(plan)
        except InferenceError as error:
            version.tell(Event.FAILED, reason=error.message)
        except Exception as error:
            log.exception("loading %s version %d failed", plan.config.name, plan.version)
            version.tell(Event.FAILED, reason=f"{type(error).__name__}: {error}")
        else:
            version.load_ns = self._clock.monotonic_ns() - started_ns
            return served
        return None
