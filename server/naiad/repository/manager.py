"""The model repository: loads and unloads models.

It depends on neither backends nor schedulers: the injected `resolve` makes a plan of a model folder, the injected `load` makes a served
version of a plan. All state belongs to the event loop; blocking work is inside the injected functions and in threads.

A reload loads new versions beside those that serve and then swaps them in one step of the loop: a request finds the old version or the new
one, and the old one finishes its requests. A load that fails changes nothing for clients (row 7.22).
"""

import asyncio
import collections.abc
import contextlib
import functools
import logging
import typing

from naiad.core.clock import Clock
from naiad.errors import InferenceError, invalid
from naiad.repository.dependencies import DependencyCycleError
from naiad.repository.ensembles import Ensembles
from naiad.repository.errors import not_polled
from naiad.repository.evictions import Evictions
from naiad.repository.inventory import Inventory
from naiad.repository.loading.ensembles import EnsembleLoads
from naiad.repository.loading.model_loader import ModelLoader, Resolve
from naiad.repository.loading.progress import LoadTable
from naiad.repository.loading.retrier import LoadRetrier
from naiad.repository.loading.start import StartLoads
from naiad.repository.model_table import ModelTable
from naiad.repository.plan import LoadedFrom, ModelPlan, VersionPlan, without_duplicates
from naiad.repository.reading.reader import RepositoryReader
from naiad.repository.requests.coordination import Coordination
from naiad.repository.requests.overrides import NO_PARAMETERS, Overrides, Parameters, parse
from naiad.repository.store import StoredModel, check_name
from naiad.repository.unloads import GpuMemory, Memory, Unloads
from naiad.repository.version import LoadListener, S, Served, Version, VersionState

__all__ = ["LoadListener", "Repository", "Served", "Version", "VersionState"]

log = logging.getLogger("naiad.repository")

RELEASE_SECONDS = 1.0
"""How long the reply to an unload waits until the memory is released, so that a load that follows finds it free. Requests in flight may
take longer; the reply does not wait for them."""


class Repository(typing.Generic[S]):
    """Every model of the stores.

    Args:
        reader: of the stores; names must differ over all of them (row 7.6), unless `requests/namespaces.py` makes a repository of each.
        resolve: may take long in its own executor.
        load: makes a served version; the message of its InferenceError is the reason in the index.
        coordination: of all repositories of the server.
        retry_count: retries of a failed load (row 7.32).
        progress: gets every change of state.
        clock: measures load durations.
        namespace: of the models; "" without namespaces.
        memory: to report what an unload frees; None if not needed.
        gpu_memory: see `Unloads`.

    Attributes:
        latest: see `ModelTable`.
        sources: what each model was loaded from last, at the start or by a poll, failed loads included; None for a refused one.
    """

    def __init__(
        self,
        *,
        reader: RepositoryReader,
        resolve: Resolve,
        load: collections.abc.Callable[[VersionPlan], collections.abc.Awaitable[S]],
        coordination: Coordination,
        retry_count: int,
        progress: LoadListener,
        clock: Clock,
        namespace: str = "",
        memory: Memory | None = None,
        gpu_memory: GpuMemory | None = None,
    ) -> None:
        self.namespace = namespace
        self._reader = reader
        progress = self._loads = LoadTable(progress, clock=clock)
        self._coordination = coordination
        self._slots = slots = coordination.slots
        retrier = LoadRetrier(
            load=load, slots=slots, retry_count=retry_count, progress=progress, clock=clock
        )
        self._progress = progress
        self._table = self.table = ModelTable[S]()
        self._unloads = Unloads[S](
            table=self._table, progress=progress, memory=memory, gpu_memory=gpu_memory
        )
        self.sources: dict[str, LoadedFrom | None] = {}
        self._dependencies = coordination.dependencies
        self._locks = coordination.locks
        coordination.add(self, self._unload_model)
        self.evictions = Evictions(
            table=self._table,
            unloads=self._unloads,
            locks=self._locks,
            dependencies=self._dependencies,
        )
        self._loader = ModelLoader(
            reader=reader,
            resolve=resolve,
            slots=slots,
            retrier=retrier,
            table=self._table,
            unloads=self._unloads,
            evictions=self.evictions,
            progress=progress,
            ensembles=EnsembleLoads(
                table=self._table,
                dependencies=self._dependencies,
                home_of=self._home_of,
                homes=self._homes,
            ),
            unload_ensembles=lambda name, gone: coordination.unload_ensembles_of(
                name, namespace, gone
            ),
        )
        self._start = StartLoads(
            reader=reader,
            loader=self._loader,
            locks=self._locks,
            explicit=coordination.dependents.explicit,
            progress=progress,
            sources=self.sources,
        )
        self._ensembles = Ensembles(
            table=self._table,
            unloads=self._unloads,
            locks=self._locks,
            dependencies=self._dependencies,
            load=self._loader.load,
            namespace=namespace,
            unload_all_of=coordination.unload_ensembles_of,
        )
        self.unload_ensembles_of = self._ensembles.unload_of
        self.reload_ensembles_of = self._ensembles.reload_of
        self.load_outdated = self._ensembles.load_outdated
        self.unloading = self._unloads.unloading
        self.latest = self._table.latest
        # The table's own methods: one call less per request.
        self.get = self._table.get
        self.served = self._table.served
        self.evicted = self.evictions.evicted
        self.states = self._table.states
        self.loaded_names = self._table.names
        self.needs = self._dependencies.needs
        self.load_progress = self._loads.snapshot
        inventory = Inventory(
            reader=reader, table=self._table, evictions=self.evictions, sources=self.sources
        )
        self.names = inventory.names
        self.list_names = inventory.list_names
        self.listings = inventory.listings
        self.has = inventory.has
        self.has_model = inventory.has_model
        self.was_loaded = inventory.was_loaded
        self.cannot_be_read = inventory.cannot_be_read
        self.failed = inventory.failed
        self.ready_versions = inventory.ready_versions

    async def load_all(self, names: collections.abc.Collection[str] | None = None) -> bool:
        """Load at start every version that the version policies select; a failed load is a state, never an exception.

        Args:
            names: the models to load; None: all.

        Returns:
            Whether every version is READY, or was before it made room for another one.

        Raises:
            InferenceError: a repository cannot be read.
        """
        present = await self._start.load(names)
        return present and all(map(self.evictions.is_ready_or_evicted, self.states()))

    async def load(
        self, name: str, parameters: Parameters = NO_PARAMETERS, *, requested_by: str = ""
    ) -> None:
        """Load a model, or load it again if its folder has changed since (rows 7.8, 7.11, 7.12, 7.15 to 7.17, 7.21, 7.22).

        Returns once it is READY. Cancelling the caller does not stop the load.

        Args:
            name: the model.
            parameters: a config and files in place of those in the repository.
            requested_by: the model whose initialize waits for this (row 15.24); "" for none. It depends on the model from then on.

        Raises:
            InferenceError: INTERNAL: the model is not in a repository, or its config or the parameters cannot be used; INVALID_ARG: it fails to
                load, or the name is not valid. What served before goes on serving.
        """
        check_name(name)
        load = functools.partial(
            self._load_model,
            name,
            parse(name, parameters),
            is_explicit=not requested_by,
            with_steps=True,
        )
        async with self._slot_released(requested_by):
            await self._locks.run(name, load, requested_by=requested_by)
        if requested_by and name not in self._dependencies.needs(requested_by):
            # A model that was loaded again may load one that needs the old version of it.
            with contextlib.suppress(DependencyCycleError):
                self._dependencies.add(requested_by, name)
        if not requested_by:
            await self._coordination.load_outdated()

    async def load_evicted(self, name: str, on_loaded: collections.abc.Callable[[], None]) -> None:
        """Load a model again that was evicted, from the files that its store has now, if it is still evicted then.

        Args:
            name: the model.
            on_loaded: called once it is loaded, before it may be evicted again.

        Raises:
            InferenceError: it cannot be loaded, and stays evicted; or it is no longer in the repository.
        """
        await self._locks.run(name, functools.partial(self._load_evicted, name, on_loaded))

    async def load_from(
        self, source: LoadedFrom, *, again: bool, written: frozenset[str]
    ) -> LoadedFrom:
        """Load a model from files that a poll has found (row 7.30).

        Args:
            source: what it found.
            again: load all versions, although the files have not changed.
            written: files that may change during the load, because they did during the one before: the model writes them itself.

        Returns:
            What it is loaded from: the same, with the files as the model has written them.

        Raises:
            FilesChangedError: other files changed during the load, so that a part of it may be old: the model stays as it was.
            InferenceError: it cannot be loaded; what served before goes on serving.
        """
        name = source.model.name
        if again:
            self._table.loaded_from.pop(name, None)
        load = functools.partial(self._loader.load, source, written=written)
        await self._locks.run(name, load)
        return self._table.loaded_from.get(name, source)

    async def remove(self, name: str, *, refused: ModelPlan | None = None) -> None:
        """Unload a model that no store has any more, or that must not be served for the reason of a plan (rows 7.6, 7.30)."""
        await self._locks.run(name, functools.partial(self._remove_model, name, refused))

    async def unload(
        self, name: str, *, with_dependents: bool = False, requested_by: str = ""
    ) -> None:
        """Unload a model; requests in flight are finished (rows 7.9, 7.10). An unknown model is unloaded already.

        Returns once its memory is released, or after a second if requests in flight take longer.

        Args:
            name: the model.
            with_dependents: also unload, after its requests, the models that were loaded only because it needs them, and that no other model
                needs (row 7.26).
            requested_by: as for `load`.
        """
        async with self._slot_released(requested_by):
            await self._coordination.unload(
                name, with_dependents=with_dependents, requested_by=requested_by
            )

    async def unload_all(self) -> None:
        """Refuse further loads, cancel those in progress, then unload every served version.

        A model finishes its requests before the models that it depends on are unloaded. Models that do not depend on each other are unloaded
        at the same time.
        """
        await self.refuse_loads()
        for group in self._dependencies.unload_order(self._table.names()):
            await self.unload_group(group)
        await self.aclose()

    async def refuse_loads(self) -> None:
        """The first step of `unload_all`: refuse further loads, and cancel those in progress."""
        self._loader.close()
        self._unloads.skip_memory()
        await self._locks.cancel_all()
        await self._coordination.dependents.join()

    async def unload_group(self, names: collections.abc.Iterable[str]) -> None:
        """The second step: unload models that do not depend on each other, and wait for their requests."""
        ordered = sorted(names)
        unloads = self._unloads.start(
            version for name in ordered for version in self._table.ready(name).values()
        )
        for name in ordered:
            self._table.choose_latest(name)
        if unloads:
            await asyncio.wait(unloads)

    async def aclose(self) -> None:
        """The last step: release the local copies, and begin nothing more."""
        await self._unloads.join()
        await self._reader.aclose()

    def close(self) -> None:
        """End the threads that read, after an `unload_all` that ran out of time."""
        self._reader.close()

    def _slot_released(self, requested_by: str) -> contextlib.AbstractAsyncContextManager[None]:
        """Release the slot of a model whose load waits for another operation, if any does."""
        return self._slots.released() if requested_by else contextlib.nullcontext()

    async def _home_of(self, name: str) -> "Repository[S]":
        home = await self._coordination.home_of(name, self)
        assert isinstance(home, Repository), "repositories are the members"
        return home

    def _homes(self) -> dict[str, "Repository[S]"]:
        members = self._coordination.members
        return {each.namespace: each for each in members if isinstance(each, Repository)}

    async def load_needed(self, ensemble: str, name: str, *, again: bool) -> None:
        """Load a model that an ensemble needs, whose lock is held. What failed at the start, or in a poll, is not tried again, unless by request."""

        async def load() -> None:
            tried = self.sources.get(name) is not None and not self.evicted(name)
            if again or not (tried or self._table.ready(name)):
                await self._load_model(name, Overrides(), is_explicit=False, with_steps=again)
            elif not self._table.ready(name):
                raise invalid(self._table.failures(name))

        await self._locks.run(name, load, requested_by=ensemble)

    async def _load_model(
        self, name: str, overrides: Overrides, *, is_explicit: bool, with_steps: bool = False
    ) -> None:
        self._loader.check_open(name)
        if is_explicit:
            self._coordination.dependents.explicit.add(name)
        if overrides.model is not None:
            source = LoadedFrom(overrides.model, {})
        else:
            model = await self._find(name)
            source = LoadedFrom(model, await self._reader.fingerprint(model))
        before = self._table.ready(name)
        await self._loader.load(source, config=overrides.config, with_steps=with_steps)
        if self._ensembles.is_loaded(name, before):
            self._coordination.is_loaded(name, self)

    async def _load_evicted(self, name: str, on_loaded: collections.abc.Callable[[], None]) -> None:
        if self.evicted(name):
            try:
                await self._load_model(name, Overrides(), is_explicit=False)
            except InferenceError:
                self.evictions.load_failed(name)
                raise
        on_loaded()

    async def _find(self, name: str) -> StoredModel:
        """The one model of this name in the stores.

        Raises:
            InferenceError: INTERNAL: there is none, or there are several; or its store, or any if it is in none of the others, cannot be read.
        """
        listing = await self._reader.listing()
        unique, refused = without_duplicates(
            listing.of(name, current=self._table.loaded_from.get(name))
        )
        if refused:
            self._loader.refuse(refused[0])
            raise not_polled(name, refused[0].details)
        if not unique:
            self.evictions.unloaded(name)
            self._table.drop_missing(name)
            if not self._table.versions(name):
                self._dependencies.drop(name)
            raise not_polled(name, self._reader.not_found_reason())
        return unique[0]

    async def _unload_model(self, name: str, *, wait_for_requests: bool) -> None:
        self._table.drop_failed_plan(name)
        self._table.loaded_from.pop(name, None)
        self._coordination.dependents.explicit.discard(name)
        self._dependencies.drop(name)
        self._table.clear_failures(name)
        self.evictions.unloaded(name)
        await self._ensembles.unload_with(name)
        unloads = self._unloads.start(self._table.ready(name).values())
        if unloads:
            self._table.choose_latest(name)
            await asyncio.wait(unloads, timeout=None if wait_for_requests else RELEASE_SECONDS)

    async def _remove_model(self, name: str, refused: ModelPlan | None) -> None:
        await self._unload_model(name, wait_for_requests=False)
        self._table.drop_missing(name)
        if refused is not None:
            self._loader.refuse(refused)
