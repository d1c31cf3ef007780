"""Model namespaces (`--model-namespacing`, row 7.37): a repository for each store, in which names need not differ from those of others.

A namespace is the location of its store. Clients have no means to name one, as in Triton: a name that models of several namespaces have cannot
be resolved. Loads and unloads of a name concern all of them.
"""

import asyncio
import collections.abc
import logging
import typing

import msgspec

from naiad.core.request import LATEST
from naiad.errors import InferenceError, invalid, not_found
from naiad.repository.errors import not_polled, unknown_model
from naiad.repository.loading.progress import LoadProgress
from naiad.repository.manager import Repository
from naiad.repository.plan import ModelPlan, VersionPlan
from naiad.repository.requests.coordination import Coordination
from naiad.repository.requests.overrides import FILE, NO_PARAMETERS, Parameters
from naiad.repository.store import check_name
from naiad.repository.version import LoadListener, S, VersionState

log = logging.getLogger("naiad.repository")


class NamespacedListener:
    """Passes changes of state on with the model's namespace before its name, as the reference writes it in its log."""

    def __init__(self, progress: LoadListener, namespace: str) -> None:
        self._progress = progress
        self._namespace = namespace

    def starting(self, models: collections.abc.Collection[str]) -> None:
        """See `LoadListener`."""
        self._progress.starting([qualified(self._namespace, name) for name in models])

    def planned(self, plan: ModelPlan) -> None:
        """See `LoadListener`."""
        name = qualified(self._namespace, plan.name)
        self._progress.planned(msgspec.structs.replace(plan, name=name))

    def changed(self, state: VersionState) -> None:
        """See `LoadListener`."""
        name = qualified(self._namespace, state.name)
        self._progress.changed(msgspec.structs.replace(state, name=name))


def qualified(namespace: str, name: str) -> str:
    """A model's name with its namespace before it, if it has one, for logs."""
    return f"{namespace}::{name}" if namespace else name


class Namespaces(typing.Generic[S]):
    """The repositories of a server, with the methods of one.

    Args:
        repositories: by namespace, in the order of the index.
        own: the repository without a store, for models that consist of the files of load requests; they have no namespace.
        coordination: of all of them.

    Attributes:
        latest: as of a repository, but empty: `get` sees whether several namespaces have a model.
    """

    def __init__(
        self,
        repositories: collections.abc.Mapping[str, Repository[S]],
        own: Repository[S],
        *,
        coordination: Coordination,
    ) -> None:
        self._stored = repositories
        self._own = own
        self._all = (own, *repositories.values())
        self._coordination = coordination
        self.latest: dict[str, S] = {}

    def get(self, name: str, version: int = LATEST) -> S:
        """The served version of a model.

        Raises:
            InferenceError: INVALID_ARG: several namespaces have this model, or none ever had; NOT_FOUND or UNAVAILABLE as in `Repository`.
        """
        repositories = self._with(name)
        if repositories:
            return self._only(name, repositories).get(name, version)
        for repository in self._all:
            if repository.cannot_be_read(name):
                return repository.get(name, version)  # raises the reason
        if any(repository.was_loaded(name) for repository in self._all):
            raise not_found(
                f"Identifier of model '{name}' is not found in global map: it is unloaded"
            )
        raise invalid(unknown_model(name))

    def within(self, namespace: str) -> Repository[S]:
        """The repository of a namespace."""
        return self._stored[namespace]

    def ready_versions(self, name: str) -> list[int]:
        """The READY versions of a model, ascending; empty for an unknown model.

        Raises:
            InferenceError: INVALID_ARG: several namespaces have this model.
        """
        repositories = self._with(name)
        return self._only(name, repositories).ready_versions(name) if repositories else []

    def served(self) -> list[tuple[str, int, S]]:
        """Every READY version with its name and number, by namespace."""
        return [served for repository in self._all for served in repository.served()]

    def unloading(self) -> list[S]:
        """The versions that finish their requests in flight."""
        return [served for repository in self._all for served in repository.unloading()]

    def states(self) -> list[VersionState]:
        """The states of all versions, by namespace."""
        return [state for repository in self._all for state in repository.states()]

    def load_progress(self) -> list[LoadProgress]:
        """Every load, by namespace. From any thread."""
        return [load for repository in self._all for load in repository.load_progress()]

    async def listings(self, *, names: bool) -> list[tuple[list[VersionState], list[str]]]:
        """For each namespace the states of its versions and, if `names`, the models of its store."""
        return [
            listing
            for repository in self._all
            for listing in await repository.listings(names=names)
        ]

    async def load_all(self, names: collections.abc.Collection[str] | None = None) -> bool:
        """See `Repository.load_all`; a name is loaded in every namespace that has it."""
        if names is None:
            return all(await asyncio.gather(*(one.load_all() for one in self._stored.values())))
        present = [set(await one.names()).intersection(names) for one in self._stored.values()]
        missing = set(names).difference(*present)
        for name in sorted(missing):
            log.error("failed to poll model '%s': %s", name, self._not_found_reason())
        loads = zip(self._stored.values(), present, strict=True)
        loaded = await asyncio.gather(*(one.load_all(chosen) for one, chosen in loads if chosen))
        return not missing and all(loaded)

    async def load(
        self, name: str, parameters: Parameters = NO_PARAMETERS, *, requested_by: str = ""
    ) -> None:
        """See `Repository.load`; a name is loaded in every namespace that has it, one after the other."""
        check_name(name)
        if any(key.startswith(FILE) for key in parameters):
            await self._own.load(name, parameters, requested_by=requested_by)
            return
        holders = [one for one in self._stored.values() if name in await one.names()]
        if not holders:
            raise not_polled(name, self._not_found_reason())
        failures: list[InferenceError] = []
        for repository in holders:
            try:
                await repository.load(name, parameters, requested_by=requested_by)
            except InferenceError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def evicted(self, name: str) -> dict[int, VersionPlan]:
        """The versions of an evicted model of one namespace, if no other one has a model of this name; else empty."""
        repositories = self._with(name)
        return repositories[0].evicted(name) if len(repositories) == 1 else {}

    async def load_evicted(self, name: str, on_loaded: collections.abc.Callable[[], None]) -> None:
        """See `Repository.load_evicted`."""
        repositories = self._with(name) or [self._own]
        await self._only(name, repositories).load_evicted(name, on_loaded)

    @property
    def evictions_count(self) -> int:
        """Models that were evicted since the start."""
        return sum(repository.evictions.count for repository in self._all)

    async def unload(
        self, name: str, *, with_dependents: bool = False, requested_by: str = ""
    ) -> None:
        """See `Repository.unload`; it unloads the models of all namespaces."""
        await self._own.unload(name, with_dependents=with_dependents, requested_by=requested_by)

    async def unload_all(self) -> None:
        """See `Repository.unload_all`; the order is that of all namespaces."""
        await asyncio.gather(*(repository.refuse_loads() for repository in self._all))
        names = {name for repository in self._all for name in repository.loaded_names()}
        for group in self._coordination.dependencies.unload_order(names):
            await asyncio.gather(*(repository.unload_group(group) for repository in self._all))
        await asyncio.gather(*(repository.aclose() for repository in self._all))

    def close(self) -> None:
        """See `Repository.close`."""
        for repository in self._all:
            repository.close()

    def _with(self, name: str) -> list[Repository[S]]:
        return [
            repository
            for repository in self._all
            if repository.has(name) or repository.evicted(name)
        ]

    def _only(
        self, name: str, repositories: collections.abc.Sequence[Repository[S]]
    ) -> Repository[S]:
        if len(repositories) > 1:
            raise invalid(
                f"There are {len(repositories)} identifiers of model '{name}' in global map, model namespace must be provided to resolve ambiguity. "
                "Requests cannot give one: keep the name in one of the repositories, or give the models different names"
            )
        return repositories[0]

    def _not_found_reason(self) -> str:
        return f"model not found in any model repository; looked in {', '.join(self._stored)}"
