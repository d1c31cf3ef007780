"""Loads what the repositories hold and answers who serves a model now: the loop-side owner of every version's state.

It knows neither backends nor schedulers: an injected `resolve` makes a plan of a model folder, an injected `load` makes a served
version of a plan. All state belongs to the event loop; blocking work is inside the two injected functions.
"""

import asyncio
import collections.abc
import dataclasses
import logging
import pathlib
import typing

from naiad.core.clock import Clock
from naiad.core.request import LATEST
from naiad.errors import InferenceError, not_found, unavailable
from naiad.repository.lifecycle import Event, State, after
from naiad.repository.plan import ModelPlan, VersionPlan, without_duplicates
from naiad.repository.store import Store

log = logging.getLogger("naiad.repository")

UNLOADED = "unloaded"


class Served(typing.Protocol):
    """What the manager asks of a loaded version."""

    async def stop(self) -> None:
        """Finish what is in flight, give everything back. Idempotent."""
        ...


S = typing.TypeVar("S", bound=Served)


@dataclasses.dataclass(slots=True, kw_only=True)
class Version(typing.Generic[S]):
    """A version and where it is in its life. `served` is set exactly while it is READY."""

    plan: VersionPlan
    state: State = State.UNKNOWN
    reason: str = ""
    served: S | None = None
    load_ns: int = 0

    def tell(self, event: Event, *, reason: str = "") -> None:
        """Move on to the state that follows `event`, for this reason."""
        self.state = after(self.state, event)
        self.reason = reason


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VersionState:
    """A version's state as a caller sees it. `version` is None for a model that could not even be planned."""

    name: str
    version: int | None
    state: State
    reason: str
    details: str = ""
    load_ns: int = 0


class Progress(typing.Protocol):
    """Told of every step of loading; one line a model on a terminal."""

    def planned(self, plans: collections.abc.Sequence[ModelPlan]) -> None:
        """All configs are read; this is what will be loaded."""
        ...

    def changed(self, state: VersionState) -> None:
        """A version entered a state."""
        ...


class Repository(typing.Generic[S]):
    """Every model of the given stores.

    Args:
        stores: where models live; names must differ over all of them (row 7.6).
        resolve: makes a plan of a model folder; may block for long inside its own executor.
        load: makes a served version; its InferenceError message is the reason in the index.
        load_thread_count: how many models load at once (row 7.32).
        retry_count: how often a failed load is tried again (row 7.32).
        progress: told of every step.
        clock: for load durations.
    """

    def __init__(
        self,
        *,
        stores: collections.abc.Sequence[Store],
        resolve: collections.abc.Callable[[pathlib.Path], collections.abc.Awaitable[ModelPlan]],
        load: collections.abc.Callable[[VersionPlan], collections.abc.Awaitable[S]],
        load_thread_count: int,
        retry_count: int,
        progress: Progress,
        clock: Clock,
    ) -> None:
        self._stores = stores
        self._resolve = resolve
        self._load = load
        self._slots = asyncio.Semaphore(load_thread_count)
        self._retry_count = retry_count
        self._progress = progress
        self._clock = clock
        self._models: dict[str, dict[int, Version[S]]] = {}
        self._refused: dict[str, ModelPlan] = {}
        self._latest: dict[str, S] = {}

    async def load_all(self) -> None:
        """Load every version that the policies serve, several at once; a failure of one is its state, never an exception.

        Raises:
            InferenceError: a repository itself cannot be read.
        """
        folders = [
            folder
            for store in self._stores
            for folder in await asyncio.to_thread(store.model_folders)
        ]
        unique, refused = without_duplicates(folders)
        plans = [*refused, *await asyncio.gather(*(self._plan(folder) for folder in unique))]
        plans.sort(key=lambda plan: plan.name)
        self._progress.planned(plans)
        for plan in plans:
            if plan.reason:
                self._refused[plan.name] = plan
                self._progress.changed(_refusal(plan))
            else:
                self._models[plan.name] = {
                    version.version: Version(plan=version) for version in plan.versions
                }
        await asyncio.gather(
            *(
                self._load_version(version)
                for versions in self._models.values()
                for version in versions.values()
            )
        )

    async def unload_all(self) -> None:
        """Stop every served version, all at once."""
        await asyncio.gather(
            *(
                self._unload_version(version)
                for versions in self._models.values()
                for version in versions.values()
                if version.state is State.READY
            )
        )

    def get(self, name: str, version: int = LATEST) -> S:
        """The served version of a model; without a version the highest READY one (row 2.8).

        Raises:
            InferenceError: NOT_FOUND or UNAVAILABLE, in the words of row 2.8.
        """
        if version == LATEST:
            latest = self._latest.get(name)
            if latest is not None:
                return latest
        else:
            known = self._models.get(name, {}).get(version)
            if known is not None and known.served is not None:
                return known.served
        raise self._why_not(name, version)

    def ready_versions(self, name: str) -> list[int]:
        """The READY versions of a model, ascending; empty for a model nobody knows."""
        return sorted(
            number
            for number, version in self._models.get(name, {}).items()
            if version.state is State.READY
        )

    def served(self) -> list[tuple[str, int, S]]:
        """Every READY version with its name and number, sorted."""
        return [
            (name, number, version.served)
            for name, versions in sorted(self._models.items())
            for number, version in sorted(versions.items())
            if version.served is not None
        ]

    def states(self) -> list[VersionState]:
        """Every version ever touched, and every model that could not be planned, sorted by name and version."""
        known = [
            _state_of(name, number, version)
            for name, versions in self._models.items()
            for number, version in versions.items()
        ]
        known += [_refusal(plan) for plan in self._refused.values()]
        return sorted(known, key=lambda state: (state.name, state.version or 0))

    async def _plan(self, folder: pathlib.Path) -> ModelPlan:
        async with self._slots:
            try:
                return await self._resolve(folder)
            except InferenceError as error:
                return ModelPlan(name=folder.name, reason=error.message)
            except Exception as error:
                log.exception("reading the model folder %s failed", folder)
                return ModelPlan(name=folder.name, reason=f"{type(error).__name__}: {error}")

    async def _load_version(self, version: Version[S]) -> None:
        plan = version.plan
        name = plan.config.name
        async with self._slots:
            for attempt in range(self._retry_count + 1):
                version.tell(Event.LOAD)
                self._progress.changed(_state_of(name, plan.version, version))
                started_ns = self._clock.monotonic_ns()
                try:
                    served = await self._load(plan)
                except InferenceError as error:
                    version.tell(Event.FAILED, reason=error.message)
                except Exception as error:
                    log.exception("loading %s version %d failed", name, plan.version)
                    version.tell(Event.FAILED, reason=f"{type(error).__name__}: {error}")
                else:
                    version.load_ns = self._clock.monotonic_ns() - started_ns
                    version.served = served
                    version.tell(Event.LOADED)
                    self._remember_latest(name)
                self._progress.changed(_state_of(name, plan.version, version))
                if version.state is State.READY:
                    return
                if attempt < self._retry_count:
                    log.warning(
                        "loading %s version %d failed, trying again (%d of %d): %s",
                        name,
                        plan.version,
                        attempt + 1,
                        self._retry_count,
                        version.reason,
                    )

    async def _unload_version(self, version: Version[S]) -> None:
        name = version.plan.config.name
        served = version.served
        assert served is not None, "only READY versions are unloaded"
        version.tell(Event.UNLOAD)
        version.served = None
        self._remember_latest(name)
        self._progress.changed(_state_of(name, version.plan.version, version))
        try:
            await served.stop()
        except Exception:
            log.exception("unloading %s version %d failed", name, version.plan.version)
        version.tell(Event.UNLOADED, reason=UNLOADED)
        self._progress.changed(_state_of(name, version.plan.version, version))

    def _remember_latest(self, name: str) -> None:
        ready = self.ready_versions(name)
        latest = self._models[name][ready[-1]].served if ready else None
        if latest is None:
            self._latest.pop(name, None)
        else:
            self._latest[name] = latest

    def _why_not(self, name: str, version: int) -> InferenceError:
        versions = self._models.get(name)
        if versions is None:
            refused = self._refused.get(name)
            if refused is not None:
                return not_found(
                    f"Request for unknown model: '{name}' has no available versions: {refused.reason}"
                )
            known = sorted(self._latest)
            listed = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")  # noqa: PLR2004 - a line's worth of names
            return not_found(
                f"Request for unknown model: '{name}' is not found"
                + (f"; models that are ready: {listed}" if known else "; no model is ready")
            )
        if version == LATEST:
            reasons = "; ".join(
                f"version {number} is {entry.state.value}"
                + (f" ({entry.reason})" if entry.reason else "")
                for number, entry in sorted(versions.items())
            )
            return not_found(
                f"Request for unknown model: '{name}' has no available versions: {reasons}"
            )
        entry = versions.get(version)
        if entry is None:
            ready = ", ".join(str(number) for number in self.ready_versions(name)) or "none"
            return not_found(
                f"Request for unknown model: '{name}' version {version} is not found; versions that are ready: {ready}"
            )
        return unavailable(
            f"Request for unknown model: '{name}' version {version} is not at ready state: it is {entry.state.value}"
            + (f" ({entry.reason})" if entry.reason else "")
        )


def _state_of(name: str, number: int, version: "Version[typing.Any]") -> VersionState:
    return VersionState(
        name=name,
        version=number,
        state=version.state,
        reason=version.reason,
        load_ns=version.load_ns,
    )


def _refusal(plan: ModelPlan) -> VersionState:
    return VersionState(
        name=plan.name,
        version=None,
        state=State.UNAVAILABLE,
        reason=plan.reason,
        details=plan.details,
    )
