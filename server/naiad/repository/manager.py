"""Loads what the repositories hold and answers who serves a model now: the loop-side owner of every version's state.

It knows neither backends nor schedulers: an injected `resolve` makes a plan of a model folder, an injected `load` makes a served
version of a plan. All state belongs to the event loop; blocking work is inside the injected functions and in threads.

A reload loads beside what serves and then changes over in one step of the loop: a request finds the old version or the new one, and
the old one finishes what it has. A load that fails changes nothing for clients (row 7.22).
"""

import asyncio
import collections.abc
import functools
import logging
import pathlib
import typing

from naiad.core.clock import Clock
from naiad.core.request import LATEST
from naiad.errors import InferenceError, unavailable
from naiad.repository.absence import absent_version, unknown_model, unplanned_model
from naiad.repository.attempt import Attempts
from naiad.repository.departures import Departures
from naiad.repository.failed_load import failed, not_polled, unusable
from naiad.repository.fingerprint import Fingerprint
from naiad.repository.lifecycle import Event, State
from naiad.repository.memory import Memory
from naiad.repository.names import check_name
from naiad.repository.plan import ModelPlan, VersionPlan, without_duplicates
from naiad.repository.reading import RepositoryReader
from naiad.repository.reload import untouched
from naiad.repository.turns import Turns
from naiad.repository.unloaded import Unloaded
from naiad.repository.version import (
    UNLOADED,
    Progress,
    S,
    Served,
    Version,
    VersionState,
    refusal,
)

__all__ = ["UNLOADED", "Progress", "Repository", "Served", "Version", "VersionState"]

log = logging.getLogger("naiad.repository")

RELEASE_SECONDS = 1.0
"""How long the reply to an unload waits for memory to be given back: usually it is, so that whoever loads next finds it free. Requests
in flight may take longer, and nobody waits for them."""


class Repository(typing.Generic[S]):
    """Every model of the stores.

    Args:
        reader: of the stores; names must differ over all of them (row 7.6).
        resolve: makes a plan of a model folder; may block for long inside its own executor.
        load: makes a served version; its InferenceError message is the reason in the index.
        load_thread_count: how many models load at once (row 7.32).
        retry_count: how often a failed load is tried again (row 7.32).
        progress: told of every step.
        clock: for load durations.
        memory: for what an unload frees; None where nobody asks.
    """

    def __init__(
        self,
        *,
        reader: RepositoryReader,
        resolve: collections.abc.Callable[[pathlib.Path], collections.abc.Awaitable[ModelPlan]],
        load: collections.abc.Callable[[VersionPlan], collections.abc.Awaitable[S]],
        load_thread_count: int,
        retry_count: int,
        progress: Progress,
        clock: Clock,
        memory: Memory | None = None,
    ) -> None:
        self._reader = reader
        self._resolve = resolve
        self._slots = asyncio.Semaphore(load_thread_count)
        self._attempts = Attempts(
            load=load, slots=self._slots, retry_count=retry_count, progress=progress, clock=clock
        )
        self._progress = progress
        self._departures = Departures[S](progress=progress, memory=memory)
        self._models: dict[str, dict[int, Version[S]]] = {}
        self._refused: dict[str, ModelPlan] = {}
        self._latest: dict[str, S] = {}
        self._loaded_from: dict[str, Fingerprint] = {}
        self._unloaded = Unloaded()
        self._turns = Turns()
        self._closed = False

    async def load_all(self, names: collections.abc.Collection[str] | None = None) -> bool:
        """Load at start every version that the policies serve, several at once; a failure of one is its state, never an exception.

        Args:
            names: the models to load; None means all there are.

        Returns:
            Whether all of it is READY now.

        Raises:
            InferenceError: a repository itself cannot be read.
        """
        folders = await self._reader.folders()
        missing = set[str]() if names is None else set(names) - {folder.name for folder in folders}
        for name in sorted(missing):
            log.error("failed to poll model '%s': %s", name, self._not_there())
        if names is not None:
            folders = [folder for folder in folders if folder.name in names]
        unique, refused = without_duplicates(folders)
        found = await self._reader.fingerprints(unique)
        plans = [*refused, *await asyncio.gather(*(self._plan(folder) for folder in unique))]
        plans.sort(key=lambda plan: plan.name)
        if names is None or names:
            self._progress.planned(plans)
        for plan in plans:
            if plan.reason:
                self._refuse_unless_serving(plan)
            else:
                self._models[plan.name] = {
                    version.version: Version(plan=version) for version in plan.versions
                }
        await asyncio.gather(
            *(
                self._turns.take(name, functools.partial(self._load_at_start, name, found[name]))
                for name in tuple(self._models)
            )
        )
        return not missing and all(state.state is State.READY for state in self.states())

    async def load(self, name: str, *, asked_by: str = "") -> None:
        """Load a model, or load it again if its folder has changed since (rows 7.8, 7.11, 7.12, 7.21, 7.22).

        Returns once it is READY. Cancelling the caller does not stop the load.

        Args:
            name: the model.
            asked_by: the model that is being loaded and waits for this in its initialize (row 15.24); "" for none.

        Raises:
            InferenceError: INTERNAL when there is no such model or its config cannot be used, INVALID_ARG when it fails to load or
                the name is none; what served before goes on.
        """
        check_name(name)
        load = functools.partial(self._load_model, name)
        async with self._attempts.lent_slot(asked_by):
            await self._turns.take(name, load, asked_by=asked_by)

    async def unload(self, name: str, *, asked_by: str = "") -> None:
        """Serve a model no more; what is in flight is finished (rows 7.9, 7.10). A model that nobody knows is unloaded already.

        Returns once its memory is given back, or after a second if requests in flight take longer. `asked_by` as for `load`.
        """
        unload = functools.partial(self._unload_model, name)
        async with self._attempts.lent_slot(asked_by):
            await self._turns.take(name, unload, asked_by=asked_by)

    async def unload_all(self) -> None:
        """Take no more loads, give up those under way, then stop every served version, all at once."""
        self._closed = True
        self._departures.skip_memory()
        await self._turns.give_up()
        self._departures.retire(
            version
            for versions in self._models.values()
            for version in versions.values()
            if version.state is State.READY
        )
        self._latest.clear()
        await self._departures.all_gone()
        self._reader.close()

    async def names(self) -> list[str]:
        """What the stores hold now, loaded or not (row 7.2).

        Raises:
            InferenceError: a repository cannot be read, or does not answer.
        """
        return sorted({folder.name for folder in await self._reader.folders()})

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

    def leaving(self) -> list[S]:
        """Versions that take nothing new and finish what they have."""
        return self._departures.leaving()

    def states(self) -> list[VersionState]:
        """Every version that is loaded or failed, those unloaded last, and every model that could not be planned, sorted by name and version."""
        known = [
            version.told() for versions in self._models.values() for version in versions.values()
        ]
        known += self._unloaded.states()
        known += [refusal(plan) for plan in self._refused.values()]
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

    async def _load_at_start(self, name: str, found: Fingerprint) -> None:
        """Unlike a later load, one version's failure takes no other one with it."""
        known = self._models[name]
        await asyncio.gather(*(self._load_one_at_start(version) for version in known.values()))
        if all(each.state is State.READY for each in known.values()):
            self._loaded_from[name] = found

    async def _load_one_at_start(self, version: Version[S]) -> None:
        served = await self._attempts.make(version)
        if served is not None:
            self._enter(version, served)
            self._remember_latest(version.plan.config.name)

    async def _load_model(self, name: str) -> None:
        if self._closed:
            raise unavailable(
                f"model '{name}' is not loaded: the server is stopping; ask another one"
            )
        folders = [folder for folder in await self._reader.folders() if folder.name == name]
        unique, refused = without_duplicates(folders)
        if refused:
            self._refuse_unless_serving(refused[0])
            raise not_polled(name, refused[0].details)
        if not unique:
            raise self._gone(name)
        folder = unique[0]
        now = await self._reader.fingerprint(folder)
        before = self._loaded_from.get(name)
        if before == now:
            self._write_off_failures(name)
            log.info("model '%s' is loaded and its folder has not changed: nothing to do", name)
            return
        plan = await self._plan(folder)
        if plan.reason:
            self._refuse_unless_serving(plan)
            raise unusable(plan, serving=bool(self.ready_versions(name)))
        await self._change_over(plan, before=before or {}, now=now)

    async def _change_over(self, plan: ModelPlan, *, before: Fingerprint, now: Fingerprint) -> None:
        """Load what has changed beside what serves; then, in one step, the new ones serve and the others go (row 7.22)."""
        name = plan.name
        known = self._models.setdefault(name, {})
        self._refused.pop(name, None)
        serving = {n: each for n, each in known.items() if each.state is State.READY}
        plans = {number: each.plan for number, each in serving.items()}
        stay = untouched(plan.versions, plans, before=before, now=now)
        coming = {
            each.version: Version[S](plan=each, replaces=bool(serving))
            for each in plan.versions
            if each.version not in stay
        }
        for number in coming:
            self._unloaded.forget(name, number)
        # What does not serve shows in the index how it loads; what does shows READY all the time.
        known.update({n: version for n, version in coming.items() if n not in serving})
        made = await asyncio.gather(*(self._attempts.make(each) for each in coming.values()))
        if None in made:
            reasons = {
                number: version.reason
                for number, version in coming.items()
                if version.state is State.UNAVAILABLE
            }
            for version, served in zip(coming.values(), made, strict=True):
                if served is not None:
                    self._give_up(version, served)
            raise failed(name, reasons, serving=bool(serving))
        for (number, version), served in zip(coming.items(), made, strict=True):
            assert served is not None, "asked above"
            known[number] = version
            self._enter(version, served)
        self._remember_latest(name)
        self._retire(name, (each for number, each in serving.items() if number not in stay))
        self._remember_latest(name)
        self._write_off_failures(name)
        self._loaded_from[name] = now

    def _gone(self, name: str) -> InferenceError:
        if all(each.state is State.UNAVAILABLE for each in self._models.get(name, {}).values()):
            self._models.pop(name, None)
            self._refused.pop(name, None)
            self._unloaded.forget(name)
        return not_polled(name, self._not_there())

    def _refuse_unless_serving(self, plan: ModelPlan) -> None:
        serving = bool(self.ready_versions(plan.name))
        if not serving:
            self._refused[plan.name] = plan
        self._progress.changed(refusal(plan, replaces=serving))

    async def _unload_model(self, name: str) -> None:
        self._refused.pop(name, None)
        self._loaded_from.pop(name, None)
        self._write_off_failures(name)
        known = self._models.get(name, {})
        leaving = self._retire(
            name, [version for version in known.values() if version.state is State.READY]
        )
        if leaving:
            self._remember_latest(name)
            await asyncio.wait(leaving, timeout=RELEASE_SECONDS)

    def _write_off_failures(self, name: str) -> None:
        """What failed and is wanted no more keeps the server unready no more (row 2.4)."""
        for version in tuple(self._models.get(name, {}).values()):
            if version.state is State.UNAVAILABLE:
                version.tell(Event.UNLOADED, reason=UNLOADED)
                self._forget(name, version)

    def _retire(
        self, name: str, versions: collections.abc.Iterable[Version[S]]
    ) -> set[asyncio.Task[None]]:
        """Take READY versions out of service; once one is unloaded, only its state is remembered."""
        leaving = set[asyncio.Task[None]]()
        for version in versions:
            (task,) = self._departures.retire([version])
            task.add_done_callback(functools.partial(self._forget, name, version))
            leaving.add(task)
        return leaving

    def _forget(self, name: str, version: Version[S], _: object = None) -> None:
        """A version is unloaded: its config and plan go, unless another version of that number has taken its place."""
        known, number = self._models.get(name, {}), version.plan.version
        if known.get(number) is not version or version.state is not State.UNAVAILABLE:
            return
        del known[number]
        if not known:
            del self._models[name]
        self._unloaded.remember(number, version.told())

    def _enter(self, version: Version[S], served: S) -> None:
        version.served = served
        version.tell(Event.LOADED)
        self._progress.changed(version.told())

    def _give_up(self, version: Version[S], served: S) -> None:
        """It loaded, and another version of its model did not: all or none."""
        version.served = served
        version.tell(Event.LOADED)
        self._retire(version.plan.config.name, [version])

    def _remember_latest(self, name: str) -> None:
        ready = self.ready_versions(name)
        latest = self._models[name][ready[-1]].served if ready else None
        if latest is None:
            self._latest.pop(name, None)
        else:
            self._latest[name] = latest

    def _not_there(self) -> str:
        return f"model not found in any model repository; looked in {self._reader.locations}"

    def _why_not(self, name: str, version: int) -> InferenceError:
        known, unloaded = self._models.get(name, {}), self._unloaded.of(name)
        if known or unloaded:
            return absent_version(name, version, {**unloaded, **known})
        refused = self._refused.get(name)
        if refused is not None:
            return unplanned_model(name, refused.reason)
        return unknown_model(name, self._latest)
