"""The model repository: loads and unloads models, owns the state of every version, and finds the version that serves a request.

It depends on neither backends nor schedulers: the injected `resolve` makes a plan of a model folder, the injected `load` makes a served
version of a plan. All state belongs to the event loop; blocking work is inside the injected functions and in threads.

A reload loads new versions beside those that serve and then swaps them in one step of the loop: a request finds the old version or the new
one, and the old one finishes its requests. A load that fails changes nothing for clients (row 7.22).
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
from naiad.repository.errors import Versions, failed_load, failed_plan, not_polled, not_served
from naiad.repository.lifecycle import Event, State
from naiad.repository.load_retrier import LoadRetrier
from naiad.repository.per_model_lock import PerModelLock
from naiad.repository.plan import (
    LoadedFrom,
    ModelPlan,
    VersionPlan,
    untouched,
    without_duplicates,
)
from naiad.repository.reading import LocalCopy, RepositoryReader
from naiad.repository.store import StoredModel, check_name
from naiad.repository.unloaded import Unloaded
from naiad.repository.unloads import Memory, Unloads
from naiad.repository.version import (
    UNLOADED,
    Progress,
    S,
    Served,
    Version,
    VersionState,
    failed_plan_state,
)

__all__ = ["UNLOADED", "Progress", "Repository", "Served", "Version", "VersionState"]

log = logging.getLogger("naiad.repository")

RELEASE_SECONDS = 1.0
"""How long the reply to an unload waits until the memory is released, so that a load that follows finds it free. Requests in flight may
take longer; the reply does not wait for them."""


class Repository(typing.Generic[S]):
    """Every model of the stores.

    Args:
        reader: of the stores; names must differ over all of them (row 7.6).
        resolve: makes a plan of a model folder; may take long in its own executor.
        load: makes a served version; the message of its InferenceError is the reason in the index.
        load_thread_count: loads that run at the same time (row 7.32).
        retry_count: retries of a failed load (row 7.32).
        progress: gets every change of state.
        clock: measures load durations.
        memory: to report what an unload frees; None if not needed.
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
        self._retrier = LoadRetrier(
            load=load, slots=self._slots, retry_count=retry_count, progress=progress, clock=clock
        )
        self._progress = progress
        self._unloads = Unloads[S](progress=progress, memory=memory)
        self._models: dict[str, dict[int, Version[S]]] = {}
        self._failed_plans: dict[str, ModelPlan] = {}
        self._latest: dict[str, S] = {}
        self._loaded_from: dict[str, LoadedFrom] = {}
        self._unloaded = Unloaded()
        self._locks = PerModelLock()
        self._closed = False

    async def load_all(self, names: collections.abc.Collection[str] | None = None) -> bool:
        """Load at start every version that the version policies select; a failed load is a state, never an exception.

        Args:
            names: the models to load; None: all.

        Returns:
            Whether every version is READY.

        Raises:
            InferenceError: a repository cannot be read.
        """
        models = await self._reader.models()
        missing = set[str]() if names is None else set(names) - {model.name for model in models}
        for name in sorted(missing):
            log.error("failed to poll model '%s': %s", name, self._not_found_reason())
        if names is not None:
            models = [model for model in models if model.name in names]
        unique, refused = without_duplicates(models)
        fingerprints = await self._reader.fingerprints(unique)
        planned = list(await asyncio.gather(*map(self._plan, unique)))
        plans = [*refused, *(plan for plan, _ in planned)]
        plans.sort(key=lambda plan: plan.name)
        if names is None or names:
            self._progress.planned(plans)
        for plan in plans:
            if plan.reason:
                self._record_failed_plan(plan)
        loads = list[collections.abc.Awaitable[None]]()
        for model, (plan, copy) in zip(unique, planned, strict=True):
            if copy is not None:
                self._models[plan.name] = {
                    each.version: Version(plan=each, copy=copy) for each in plan.versions
                }
                source = LoadedFrom(model, fingerprints[plan.name])
                load = functools.partial(self._load_at_start, plan.name, copy, source)
                loads.append(self._locks.run(plan.name, load))
        await asyncio.gather(*loads)
        return not missing and all(state.state is State.READY for state in self.states())

    async def load(self, name: str, *, requested_by: str = "") -> None:
        """Load a model, or load it again if its folder has changed since (rows 7.8, 7.11, 7.12, 7.21, 7.22).

        Returns once it is READY. Cancelling the caller does not stop the load.

        Args:
            name: the model.
            requested_by: the model whose initialize waits for this (row 15.24); "" for none.

        Raises:
            InferenceError: INTERNAL: the model is not in a repository, or its config cannot be used; INVALID_ARG: it fails to load, or
                the name is not valid. What served before goes on serving.
        """
        check_name(name)
        load = functools.partial(self._load_model, name)
        async with self._retrier.slot_released(requested_by):
            await self._locks.run(name, load, requested_by=requested_by)

    async def unload(self, name: str, *, requested_by: str = "") -> None:
        """Unload a model; requests in flight are finished (rows 7.9, 7.10). An unknown model is unloaded already.

        Returns once its memory is released, or after a second if requests in flight take longer. `requested_by` as for `load`.
        """
        unload = functools.partial(self._unload_model, name)
        async with self._retrier.slot_released(requested_by):
            await self._locks.run(name, unload, requested_by=requested_by)

    async def unload_all(self) -> None:
        """Refuse further loads, cancel those in progress, then unload every served version, all at the same time."""
        self._closed = True
        self._unloads.skip_memory()
        await self._locks.cancel_all()
        self._unloads.start(
            version
            for versions in self._models.values()
            for version in versions.values()
            if version.state is State.READY
        )
        self._latest.clear()
        await self._unloads.join()
        await self._reader.aclose()

    async def names(self) -> list[str]:
        """The models that the stores hold now, loaded or not (row 7.2).

        Raises:
            InferenceError: a repository cannot be read, or does not respond.
        """
        return sorted({model.name for model in await self._reader.models()})

    def get(self, name: str, version: int = LATEST) -> S:
        """The served version of a model; without a version the highest READY one (row 2.8).

        Raises:
            InferenceError: NOT_FOUND or UNAVAILABLE, with the message of row 2.8.
        """
        if version == LATEST:
            latest = self._latest.get(name)
            if latest is not None:
                return latest
        else:
            known = self._models.get(name, {}).get(version)
            if known is not None and known.served is not None:
                return known.served
        raise self._not_served(name, version)

    def ready_versions(self, name: str) -> list[int]:
        """The READY versions of a model, ascending; empty for an unknown model."""
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

    def unloading(self) -> list[S]:
        """Versions that take no new request and finish those in flight."""
        return self._unloads.unloading()

    def states(self) -> list[VersionState]:
        """Every version that is loaded or failed, those unloaded last, and every model whose config cannot be used, by name and version."""
        known = [
            version.snapshot()
            for versions in self._models.values()
            for version in versions.values()
        ]
        known += self._unloaded.states()
        known += [failed_plan_state(plan) for plan in self._failed_plans.values()]
        return sorted(known, key=lambda state: (state.name, state.version or 0))

    async def _plan(self, model: StoredModel) -> tuple[ModelPlan, LocalCopy | None]:
        """Check a model out and read its config. A plan with versions comes with the copy; the caller releases it."""
        copy: LocalCopy | None = None
        async with self._slots:
            try:
                copy = await self._reader.checkout(model)
                plan = await self._resolve(copy.folder)
            except InferenceError as error:
                plan = ModelPlan(name=model.name, reason=error.message)
            except Exception as error:
                log.exception("reading the model %s failed", model.location)
                plan = ModelPlan(name=model.name, reason=f"{type(error).__name__}: {error}")
        if copy is not None and plan.reason:
            copy.release()
            copy = None
        return plan, copy

    async def _load_at_start(self, name: str, copy: LocalCopy, source: LoadedFrom) -> None:
        """Load a model at start. Unlike in a later load, a version that fails does not affect the others."""
        known = self._models[name]
        try:
            await asyncio.gather(*map(self._load_one_at_start, known.values()))
        finally:
            copy.release()
        if all(version.state is State.READY for version in known.values()):
            self._loaded_from[name] = source

    async def _load_one_at_start(self, version: Version[S]) -> None:
        served = await self._retrier.load(version)
        if served is not None:
            self._serve(version, served)
            self._remember_latest(version.plan.config.name)

    async def _load_model(self, name: str) -> None:
        if self._closed:
            raise unavailable(
                f"model '{name}' is not loaded: the server is stopping; use another server"
            )
        models = [model for model in await self._reader.models() if model.name == name]
        unique, refused = without_duplicates(models)
        if refused:
            self._record_failed_plan(refused[0])
            raise not_polled(name, refused[0].details)
        if not unique:
            raise self._not_found(name)
        model = unique[0]
        source = LoadedFrom(model, await self._reader.fingerprint(model))
        if self._loaded_from.get(name) == source:
            self._clear_failures(name)
            log.info("model '%s' is loaded and its folder has not changed: nothing to do", name)
            return
        plan, copy = await self._plan(model)
        if copy is None:
            self._record_failed_plan(plan)
            raise failed_plan(plan, serving=bool(self.ready_versions(name)))
        try:
            await self._swap(plan, copy, source)
        finally:
            copy.release()

    async def _swap(self, plan: ModelPlan, copy: LocalCopy, source: LoadedFrom) -> None:
        """Load the versions that changed beside those that serve; then replace these in one step (row 7.22)."""
        name = plan.name
        known = self._models.setdefault(name, {})
        self._failed_plans.pop(name, None)
        serving = {n: each for n, each in known.items() if each.state is State.READY}
        plans = {number: each.plan for number, each in serving.items()}
        stay = untouched(plan.versions, plans, before=self._loaded_from.get(name), now=source)
        coming = {
            each.version: Version[S](plan=each, copy=copy, replaces=bool(serving))
            for each in plan.versions
            if each.version not in stay
        }
        for number in coming:
            self._unloaded.forget(name, number)
        # The index shows the progress of a version that did not serve; one that does shows READY all the time.
        known.update({n: version for n, version in coming.items() if n not in serving})
        made = await asyncio.gather(*(self._retrier.load(each) for each in coming.values()))
        if None in made:
            reasons = {
                number: version.reason
                for number, version in coming.items()
                if version.state is State.UNAVAILABLE
            }
            for version, served in zip(coming.values(), made, strict=True):
                if served is not None:
                    self._discard(version, served)
            raise failed_load(name, reasons, serving=bool(serving))
        for (number, version), served in zip(coming.items(), made, strict=True):
            assert served is not None, "checked above"
            known[number] = version
            self._serve(version, served)
        self._remember_latest(name)
        self._unload(name, (each for number, each in serving.items() if number not in stay))
        self._remember_latest(name)
        self._clear_failures(name)
        self._loaded_from[name] = source

    def _not_found(self, name: str) -> InferenceError:
        if all(each.state is State.UNAVAILABLE for each in self._models.get(name, {}).values()):
            self._models.pop(name, None)
            self._failed_plans.pop(name, None)
            self._unloaded.forget(name)
        return not_polled(name, self._not_found_reason())

    def _record_failed_plan(self, plan: ModelPlan) -> None:
        serving = bool(self.ready_versions(plan.name))
        if not serving:
            self._failed_plans[plan.name] = plan
        self._progress.changed(failed_plan_state(plan, replaces=serving))

    async def _unload_model(self, name: str) -> None:
        self._failed_plans.pop(name, None)
        self._loaded_from.pop(name, None)
        self._clear_failures(name)
        known = self._models.get(name, {})
        unloads = self._unload(
            name, [version for version in known.values() if version.state is State.READY]
        )
        if unloads:
            self._remember_latest(name)
            await asyncio.wait(unloads, timeout=RELEASE_SECONDS)

    def _clear_failures(self, name: str) -> None:
        """A version that failed and is no longer requested does not make the server unready (row 2.4)."""
        for version in tuple(self._models.get(name, {}).values()):
            if version.state is State.UNAVAILABLE:
                version.apply(Event.UNLOADED, reason=UNLOADED)
                self._forget(name, version)

    def _unload(
        self, name: str, versions: collections.abc.Iterable[Version[S]]
    ) -> set[asyncio.Task[None]]:
        """Unload READY versions; once a version is unloaded, only its state is kept."""
        unloads = set[asyncio.Task[None]]()
        for version in versions:
            (task,) = self._unloads.start([version])
            task.add_done_callback(functools.partial(self._forget, name, version))
            unloads.add(task)
        return unloads

    def _forget(self, name: str, version: Version[S], _: object = None) -> None:
        """Drop an unloaded version, unless another one of the same number has taken its place."""
        known, number = self._models.get(name, {}), version.plan.version
        if known.get(number) is not version or version.state is not State.UNAVAILABLE:
            return
        del known[number]
        if not known:
            del self._models[name]
        self._unloaded.remember(number, version.snapshot())

    def _serve(self, version: Version[S], served: S) -> None:
        version.served = served
        version.apply(Event.LOADED)
        self._progress.changed(version.snapshot())

    def _discard(self, version: Version[S], served: S) -> None:
        """Unload a version that loaded, because another version of its model did not."""
        version.served = served
        version.apply(Event.LOADED)
        self._unload(version.plan.config.name, [version])

    def _remember_latest(self, name: str) -> None:
        ready = self.ready_versions(name)
        latest = self._models[name][ready[-1]].served if ready else None
        if latest is None:
            self._latest.pop(name, None)
        else:
            self._latest[name] = latest

    def _not_found_reason(self) -> str:
        return f"model not found in any model repository; looked in {self._reader.locations}"

    def _not_served(self, name: str, version: int) -> InferenceError:
        versions: Versions = {**self._unloaded.of(name), **self._models.get(name, {})}
        plan = self._failed_plans.get(name)
        return not_served(name, version, versions, plan=plan, ready=self._latest)
