"""Loads the models at the start of the server. Unlike in a later load, a version that fails does not affect the others."""

import asyncio
import collections.abc
import functools
import logging
import typing

from naiad.repository.agents.actions import AgentEvent
from naiad.repository.lifecycle import State
from naiad.repository.loading.planner import Planner
from naiad.repository.loading.retrier import LoadRetrier
from naiad.repository.loading.swap import VersionSwap
from naiad.repository.model_table import ModelTable
from naiad.repository.per_model_lock import PerModelLock
from naiad.repository.plan import LoadedFrom, ModelPlan, without_duplicates
from naiad.repository.reading import LocalCopy, RepositoryReader
from naiad.repository.version import Progress, S, Version

log = logging.getLogger("naiad.repository")


class Startup(typing.Generic[S]):
    """The first loads.

    Args:
        loaded_from: gets what each model is loaded from, if all its versions are.
        on_failed_plan: called with each model that cannot be loaded.
    """

    def __init__(
        self,
        *,
        reader: RepositoryReader,
        planner: Planner,
        retrier: LoadRetrier[S],
        table: ModelTable[S],
        swap: VersionSwap[S],
        locks: PerModelLock,
        loaded_from: dict[str, LoadedFrom],
        progress: Progress,
        on_failed_plan: collections.abc.Callable[[ModelPlan], None],
    ) -> None:
        self._reader = reader
        self._planner = planner
        self._retrier = retrier
        self._table = table
        self._swap = swap
        self._locks = locks
        self._loaded_from = loaded_from
        self._progress = progress
        self._on_failed_plan = on_failed_plan

    async def load(
        self, names: collections.abc.Collection[str] | None
    ) -> tuple[dict[str, LoadedFrom | None], set[str]]:
        """Load every version that the version policies select.

        Args:
            names: the models to load; None: all.

        Returns:
            What each model is loaded from, None for a refused one, and the names that no store has.

        Raises:
            InferenceError: a repository cannot be read.
        """
        models = await self._reader.models()
        missing = set[str]()
        if names is not None:
            missing = set(names) - {model.name for model in models}
            models = [model for model in models if model.name in names]
        for name in sorted(missing):
            log.error("failed to poll model '%s': %s", name, self._reader.not_found_reason())
        unique, refused = without_duplicates(models)
        fingerprints = await self._reader.fingerprints(unique)
        if names is None or names:
            self._progress.starting(len(unique) + len(refused))
        for plan in refused:
            self._on_failed_plan(plan)
        sources: dict[str, LoadedFrom | None] = {plan.name: None for plan in refused}
        sources |= {model.name: LoadedFrom(model, fingerprints[model.name]) for model in unique}
        # Each model by itself: no other one waits for its files or its agents.
        await asyncio.gather(
            *(self._plan_and_load(LoadedFrom(model, fingerprints[model.name])) for model in unique)
        )
        return sources, missing

    async def _plan_and_load(self, source: LoadedFrom) -> None:
        plan, copy = await self._planner.plan(source.model)
        self._progress.planned(plan)
        if plan.reason:
            self._on_failed_plan(plan)
        if copy is not None:
            for version in plan.versions:
                self._table.put(Version(plan=version, copy=copy))
            load = functools.partial(self._load_model, plan.name, copy, source)
            await self._locks.run(plan.name, load)

    async def _load_model(self, name: str, copy: LocalCopy, source: LoadedFrom) -> None:
        versions = self._table.versions(name).values()
        try:
            if any(await asyncio.gather(*map(self._load_version, versions))):
                await copy.notify(AgentEvent.COMPLETE)
        finally:
            copy.release()
        if all(version.state is State.READY for version in versions):
            self._loaded_from[name] = source

    async def _load_version(self, version: Version[S]) -> bool:
        """Load a version; gives whether it was loaded, although it may have made room for another one since."""
        served = await self._retrier.load(version)
        if served is not None:
            self._swap.serve(version, served)
            self._table.choose_latest(version.plan.config.name)
        return served is not None
