"""Loads a model: the one function for the start of the server, load requests, polls and evicted models, each under the model's lock.

New versions are loaded beside those that serve, which they replace in one step of the event loop: a request finds an old version or a new one,
and the old one finishes its requests. A version for which only the number or the places of its instances change stays, and gets other instances
(row 7.24). A model is loaded whole or not at all: if one version fails, clients see no change (row 7.22).
"""

import asyncio
import collections.abc
import logging
import pathlib
import typing

import msgspec

from naiad.config.model_config import ModelConfig
from naiad.errors import ErrorCode, InferenceError, unavailable
from naiad.repository.agents.actions import AgentEvent
from naiad.repository.errors import FilesChangedError, failed_load, failed_plan
from naiad.repository.evictions import Evictions
from naiad.repository.lifecycle import Event, State
from naiad.repository.loading.ensembles import EnsembleLoads
from naiad.repository.loading.progress import LoadTable, Phase, enter
from naiad.repository.loading.retrier import LoadRetrier
from naiad.repository.loading.slots import LoadSlots
from naiad.repository.model_table import ModelTable
from naiad.repository.plan import LoadedFrom, ModelPlan, VersionPlan, untouched
from naiad.repository.polling.fingerprint import changed_paths, in_words
from naiad.repository.reading.reader import LocalCopy, RepositoryReader
from naiad.repository.requests.overrides import Value
from naiad.repository.store import StoredModel
from naiad.repository.unloads import Unloads
from naiad.repository.version import S, Update, Version, failed_plan_state

log = logging.getLogger("naiad.repository")

Resolve = collections.abc.Callable[
    [pathlib.Path, Value | None], collections.abc.Awaitable[ModelPlan]
]
"""Makes a plan of a model folder, with the config of the load request in place of its own if there is one."""

_Loaded = tuple[Version[S], S]
_Update = tuple[Version[S], VersionPlan, Update]


class ModelLoader(typing.Generic[S]):
    """Loads models.

    Args:
        reader: of the stores.
        resolve: may take long in its own executor.
        slots: bounds the models that are read or loaded at the same time.
        retrier: loads versions.
        table: of all models; changed here.
        unloads: unloads the versions that are replaced.
        evictions: gets the models that are loaded.
        progress: gets every change of state.
        ensembles: loads what ensembles need.
        unload_ensembles: begins to unload the ensembles with a step of these versions of a model, which they finish their requests with.
    """

    def __init__(
        self,
        *,
        reader: RepositoryReader,
        resolve: Resolve,
        slots: LoadSlots,
        retrier: LoadRetrier[S],
        table: ModelTable[S],
        unloads: Unloads[S],
        evictions: Evictions[S],
        progress: LoadTable,
        ensembles: EnsembleLoads[S],
        unload_ensembles: collections.abc.Callable[
            [str, collections.abc.Collection[int]], set[asyncio.Task[None]]
        ],
    ) -> None:
        self._ensembles = ensembles
        self._unload_ensembles = unload_ensembles
        self._reader = reader
        self._resolve = resolve
        self._slots = slots
        self._retrier = retrier
        self._table = table
        self._unloads = unloads
        self._evictions = evictions
        self._progress = progress
        self._closed = False

    async def load(
        self,
        source: LoadedFrom,
        *,
        config: Value | None = None,
        written: frozenset[str] | None = None,
        with_steps: bool = False,
    ) -> None:
        """Load a model from files that were found before, unless it is loaded from just these. The caller holds the model's lock.

        Args:
            source: where they are.
            config: of a load request, in place of theirs.
            written: files that may change during the load, because the model writes them; None: do not look whether any changed.
            with_steps: whether the models of an ensemble's steps are loaded again if their files have changed.

        Raises:
            InferenceError: its config cannot be used, a version fails to load or to change, or its files changed meanwhile: what served before
                goes on serving.
        """
        name = source.model.name
        self.check_open(name)
        if config is None and self._table.loaded_from.get(name) == source:
            # So the config of an earlier load request stays until the folder changes, as in the reference.
            self._table.clear_failures(name)
            log.info("model '%s' is loaded and its folder has not changed: nothing to do", name)
            if with_steps:
                await self._ensembles.load_steps_again(name)
            return
        plan, copy = await self._plan(source.model, config)
        if copy is not None:
            plan, copy = await self._bind(plan, copy, with_steps=with_steps)
        self._progress.planned(plan)
        if copy is None:
            # The folder is not at fault if the request brought the config.
            self.refuse(plan, listed=config is None)
            raise failed_plan(plan, serving=bool(self._table.ready(name)))
        try:
            self._table.loaded_from[name] = await self._replace(plan, copy, source, written)
            # Files of a load request are in no repository, which would give them times.
            self._evictions.loaded(name, by_request=config is not None or not source.fingerprint)
            await copy.notify(AgentEvent.COMPLETE)
        finally:
            copy.release()

    def refuse(self, plan: ModelPlan, *, listed: bool = True) -> None:
        """Show why a model cannot be served.

        Args:
            plan: holds the reason.
            listed: whether the index shows it, unless another config of the model serves.
        """
        serving = bool(self._table.ready(plan.name))
        if listed and not serving:
            self._table.put_failed_plan(plan)
        self._progress.changed(failed_plan_state(plan, replaces=serving))

    def close(self) -> None:
        """Refuse further loads: the server stops."""
        self._closed = True

    def check_open(self, name: str) -> None:
        """Check that models may be loaded.

        Raises:
            InferenceError: UNAVAILABLE: the server stops.
        """
        if self._closed:
            raise unavailable(
                f"model '{name}' is not loaded: the server is stopping; use another server"
            )

    async def _plan(
        self, model: StoredModel, config: Value | None
    ) -> tuple[ModelPlan, LocalCopy | None]:
        """Check a model out and read its config, if none is given. A plan with versions comes with the copy; the caller releases it."""
        copy: LocalCopy | None = None
        load = self._progress.begin(model.name)
        async with self._slots:
            try:
                enter(Phase.FETCHING)
                copy = await self._reader.checkout(model, load.on_bytes)
                enter(Phase.READING_CONFIG)
                plan = await self._resolve(copy.folder, config)
                copy.agents = plan.agents
            except InferenceError as error:
                may_pass = copy is None and error.code is ErrorCode.UNAVAILABLE
                plan = ModelPlan(name=model.name, reason=error.message, may_pass=may_pass)
            except Exception as error:
                log.exception("reading the model %s failed", model.location)
                plan = ModelPlan(name=model.name, reason=f"{type(error).__name__}: {error}")
        if copy is not None and plan.reason:
            shown = copy.for_people
            plan = msgspec.structs.replace(
                plan,
                reason=shown(plan.reason),
                details=shown(plan.details),
                failed_versions={
                    version: shown(reason) for version, reason in plan.failed_versions.items()
                },
            )
            copy.release()
            copy = None
        return plan, copy

    async def _bind(
        self, plan: ModelPlan, copy: LocalCopy, *, with_steps: bool
    ) -> tuple[ModelPlan, LocalCopy | None]:
        """The plan with what follows from the models that it needs; without the copy if it has a reason now."""
        try:
            plan = await self._ensembles.bind(plan, again=with_steps)
        except BaseException:  # also if it is cancelled
            copy.release()
            raise
        if not plan.reason:
            return plan, copy
        copy.release()
        return plan, None

    async def _replace(
        self, plan: ModelPlan, copy: LocalCopy, source: LoadedFrom, written: frozenset[str] | None
    ) -> LoadedFrom:
        """Load the versions that changed beside those that serve; then replace these. Returns what the model is loaded from now."""
        name, table = plan.name, self._table
        table.drop_failed_plan(name)
        serving = table.ready(name)
        stay = self._stay(plan, source, serving)
        coming = [
            Version[S](plan=version, copy=copy, replaces=bool(serving))
            for version in plan.versions
            if version.version not in stay
        ]
        self._progress.begin_versions(name, [version.plan.version for version in coming])
        updating = [
            (serving[version.version], version.config)
            for version in plan.versions
            if version.version in stay and serving[version.version].plan.config != version.config
        ]
        for version in coming:
            # The index shows the progress of a version that did not serve; one that does shows READY all the time.
            if version.plan.version not in serving:
                table.put(version)
        loaded: list[_Loaded[S]] = []
        updates: list[_Update[S]] = []
        try:
            async with asyncio.TaskGroup() as loads:
                for version in coming:
                    loads.create_task(self._load_version(version, loaded))
            _check_loaded(name, coming, serving=bool(serving))
            for version, config in updating:
                updates.append(await self._prepare(version, config))
            if written is not None:
                source = await self._unchanged(source, written)
            self._ensembles.check(plan.versions)
        except BaseException:  # also if it is cancelled
            await asyncio.gather(*(update.discard() for _, _, update in updates))
            for version, served in loaded:
                # It loaded, but another version of its model did not, or not from the files that it was to be loaded from.
                self._serve(version, served)
                self._unloads.start([version])
            raise
        for version, version_plan, update in updates:
            self._commit(version, version_plan, update)
        for version, served in loaded:
            table.put(version)
            self._serve(version, served)
        try:
            await self._end_ensembles(plan, serving)
        finally:  # also if it is cancelled
            self._unloads.start(
                version for number, version in serving.items() if number not in stay
            )
            table.choose_latest(name)
        table.clear_failures(name)
        return source

    async def _end_ensembles(
        self, plan: ModelPlan, serving: collections.abc.Mapping[int, Version[S]]
    ) -> None:
        """Unload the ensembles that name a version which the plan has no more, after their requests in flight."""
        gone = serving.keys() - {version.version for version in plan.versions}
        if gone and (unloads := self._unload_ensembles(plan.name, gone)):
            await asyncio.wait(unloads)

    def _stay(
        self,
        plan: ModelPlan,
        source: LoadedFrom,
        serving: collections.abc.Mapping[int, Version[S]],
    ) -> frozenset[int]:
        """The versions that serve and are not loaded again."""
        if plan.agents:  # they may change any file
            return frozenset()
        plans = {number: version.plan for number, version in serving.items()}
        before = self._table.loaded_from.get(plan.name)
        return untouched(plan.versions, plans, before=before, now=source)

    async def _load_version(self, version: Version[S], loaded: list[_Loaded[S]]) -> None:
        served = await self._retrier.load(version)
        if served is not None:
            loaded.append((version, served))

    def _serve(self, version: Version[S], served: S) -> None:
        """Begin the service of a version that is loaded."""
        version.served = served
        version.apply(Event.LOADED)
        self._progress.changed(version.snapshot())

    async def _prepare(self, version: Version[S], config: ModelConfig) -> _Update[S]:
        """Prepare the update of a version that stays."""
        plan = msgspec.structs.replace(version.plan, config=config)
        try:
            return version, plan, await self._retrier.prepare(version, plan)
        except InferenceError as error:
            log.error("'%s' version %d keeps its instances: %s", config.name, plan.version, error)  # noqa: TRY400 - the message says all
            reasons = {plan.version: error.message}
            raise failed_load(config.name, reasons, serving=True, state=State.READY) from None

    def _commit(self, version: Version[S], plan: VersionPlan, update: Update) -> None:
        version.plan = plan
        words = update.commit()
        version.apply(Event.UPDATE)
        if words:
            self._progress.changed(msgspec.structs.replace(version.snapshot(), updated=words))

    async def _unchanged(self, source: LoadedFrom, written: frozenset[str]) -> LoadedFrom:
        """Check that only files that the model writes changed during its load; returns what it is loaded from, with these."""
        now = await self._reader.fingerprint(source.model)
        paths = changed_paths(source.fingerprint, now)
        if paths <= written:
            return LoadedFrom(source.model, now)
        raise FilesChangedError(
            f"its files changed while it was loaded ({in_words(paths)}); it is loaded again once they have not changed for a while",
            paths=paths,
        )


def _check_loaded(
    name: str, versions: collections.abc.Iterable[Version[S]], *, serving: bool
) -> None:
    failed = {
        version.plan.version: version.reason
        for version in versions
        if version.state is State.UNAVAILABLE
    }
    if failed:
        raise failed_load(name, failed, serving=serving)
