"""Loads versions: a bounded number at the same time, and several attempts for one that fails (row 7.32)."""

import collections.abc
import logging
import typing

from naiad.core.clock import Clock
from naiad.errors import InferenceError, internal
from naiad.repository.lifecycle import Event
from naiad.repository.loading.slots import LoadSlots
from naiad.repository.plan import VersionPlan
from naiad.repository.version import LoadListener, S, Update, Version

log = logging.getLogger("naiad.repository")


class LoadRetrier(typing.Generic[S]):
    """Loads versions and retries failed loads.

    Args:
        load: makes a served version; the message of its InferenceError is the reason in the index.
        slots: bounds the loads that run at the same time.
        retry_count: retries of a failed load.
        progress: gets every change of state.
        clock: measures load durations.
    """

    def __init__(
        self,
        *,
        load: collections.abc.Callable[[VersionPlan], collections.abc.Awaitable[S]],
        slots: LoadSlots,
        retry_count: int,
        progress: LoadListener,
        clock: Clock,
    ) -> None:
        self._load = load
        self._slots = slots
        self._retry_count = retry_count
        self._progress = progress
        self._clock = clock

    async def load(self, version: Version[S]) -> S | None:
        """Load a version.

        Returns:
            What serves it: the version is LOADING, and the caller changes that. None if every attempt failed: it is UNAVAILABLE.
        """
        version.copy.share()
        served = None
        try:
            async with self._slots:
                for retry in range(self._retry_count + 1):
                    if retry:
                        log.warning(
                            "loading %s version %d failed, trying again (%d of %d): %s",
                            version.plan.config.name,
                            version.plan.version,
                            retry,
                            self._retry_count,
                            version.reason,
                        )
                    version.apply(Event.LOAD)
                    self._progress.changed(version.snapshot())
                    served = await self._attempt(version)
                    if served is not None:
                        return served
                    self._progress.changed(version.snapshot())
        finally:
            if served is None:
                version.copy.release()
        return None

    async def prepare(self, version: Version[S], plan: VersionPlan) -> Update:
        """Prepare an update of a READY version, as one of the loads that may run at the same time.

        Raises:
            InferenceError: it cannot be updated; nothing changes.
        """
        assert version.served is not None, "it is READY"
        async with self._slots:
            try:
                return await version.served.prepare(plan)
            except InferenceError:
                raise
            except Exception as error:
                log.exception("updating %s version %d failed", plan.config.name, plan.version)
                raise internal(f"{type(error).__name__}: {error}") from error

    async def _attempt(self, version: Version[S]) -> S | None:
        plan = version.plan
        started_ns = self._clock.monotonic_ns()
        try:
            served = await self._load(plan)
        except InferenceError as error:
            version.apply(Event.FAILED, reason=version.copy.for_people(error.message))
        except Exception as error:
            log.exception("loading %s version %d failed", plan.config.name, plan.version)
            reason = version.copy.for_people(f"{type(error).__name__}: {error}")
            version.apply(Event.FAILED, reason=reason)
        else:
            version.load_ns = self._clock.monotonic_ns() - started_ns
            return served
        return None
