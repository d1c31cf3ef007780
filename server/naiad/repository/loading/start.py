"""Loads at the start of the server: every model of the stores, or those that are named; a failed load is a state, never an exception."""

import asyncio
import collections.abc
import contextlib
import logging
import typing

from naiad.errors import InferenceError
from naiad.repository.loading.model_loader import ModelLoader
from naiad.repository.loading.progress import LoadTable
from naiad.repository.per_model_lock import PerModelLock
from naiad.repository.plan import LoadedFrom, without_duplicates
from naiad.repository.reading.reader import RepositoryReader
from naiad.repository.store import StoredModel
from naiad.repository.version import S

log = logging.getLogger("naiad.repository")


class StartLoads(typing.Generic[S]):
    """Loads the models of one repository.

    Args:
        reader: of its stores.
        loader: loads one of them.
        locks: of their names.
        explicit: gets the names of all models that the stores have: none of them was loaded only because another one needs it.
        progress: gets the names of those that are loaded.
        sources: gets what each was loaded from; None for a refused one.
    """

    def __init__(
        self,
        *,
        reader: RepositoryReader,
        loader: ModelLoader[S],
        locks: PerModelLock,
        explicit: set[str],
        progress: LoadTable,
        sources: dict[str, LoadedFrom | None],
    ) -> None:
        self._reader = reader
        self._loader = loader
        self._locks = locks
        self._explicit = explicit
        self._progress = progress
        self._sources = sources

    async def load(self, names: collections.abc.Collection[str] | None) -> bool:
        """Load the models of these names, or all with None; whether the stores have all of them.

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
        self._sources.clear()
        self._sources.update({plan.name: None for plan in refused})
        present = {model.name for model in models}
        self._explicit.update(present)
        if names is None or names:
            self._progress.starting(present)
        for plan in refused:
            self._loader.refuse(plan)
        loads = await asyncio.gather(*map(self._load_one, unique), return_exceptions=True)
        for failure in filter(None, loads):
            raise failure
        return not missing

    async def _load_one(self, model: StoredModel) -> None:
        unreadable: list[BaseException] = []

        async def load() -> None:
            # Each model by itself: no other one waits for the listing of its files. An ensemble that needs it waits for all of this.
            try:
                fingerprint = await self._reader.fingerprint(model, at_start=True)
            except Exception as error:
                unreadable.append(error)
                raise
            source = self._sources[model.name] = LoadedFrom(model, fingerprint)
            await self._loader.load(source)

        # A failure of the load is shown as a state.
        with contextlib.suppress(InferenceError):
            await self._locks.run(model.name, load)
        for error in unreadable:
            raise error
