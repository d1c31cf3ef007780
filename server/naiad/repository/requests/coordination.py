"""What bounds and orders the loads and unloads of all repositories of a server. All of it belongs to the event loop."""

import asyncio
import collections.abc
import typing

from naiad.repository.dependencies import DependencyGraph
from naiad.repository.loading.slots import LoadSlots
from naiad.repository.per_model_lock import PerModelLock
from naiad.repository.requests.dependents import DependentUnloads, UnloadModel


class Member(typing.Protocol):
    """A repository, as the others of the server know it.

    Attributes:
        namespace: "" without namespaces.
    """

    namespace: str

    async def has_model(self, name: str) -> bool:
        """Whether its stores hold a model of this name, or it serves one."""
        ...

    def unload_ensembles_of(
        self, name: str, namespace: str, versions: collections.abc.Collection[int]
    ) -> set[asyncio.Task[None]]:
        """Begin to unload its ensembles with a step of this model of a namespace, of one of these versions if some are given."""
        ...

    def reload_ensembles_of(self, name: str, namespace: str) -> None:
        """A model of a namespace was loaded: its ensembles with a step of it are to be loaded again, by `load_outdated`."""
        ...

    async def load_outdated(self) -> None:
        """Load its ensembles again that are to be."""
        ...


class Coordination:
    """Shared by the repositories of a server, one for each namespace.

    Models of one name share a lock and their place in the graph of dependencies, whatever their namespaces.

    Args:
        load_thread_count: loads that run at the same time (row 7.32).
    """

    def __init__(self, load_thread_count: int) -> None:
        self.slots = LoadSlots(load_thread_count)
        self.locks = PerModelLock()
        self.dependencies = DependencyGraph()
        self.dependents = DependentUnloads(
            dependencies=self.dependencies, locks=self.locks, unload=self._unload
        )
        self._unloads: list[UnloadModel] = []
        self.members: list[Member] = []

    def add(self, member: Member, unload: UnloadModel) -> None:
        """Add a repository, and how it unloads its model of a name."""
        self.members.append(member)
        self._unloads.append(unload)

    async def home_of(self, name: str, own: Member) -> Member:
        """The repository whose model of this name an ensemble of `own` uses: its own one, else the only one that has it (row 7.37)."""
        if len(self.members) == 1 or await own.has_model(name):
            return own
        others = [each for each in self.members if each is not own and await each.has_model(name)]
        return others[0] if len(others) == 1 else own

    def unload_ensembles_of(
        self, name: str, namespace: str, versions: collections.abc.Collection[int]
    ) -> set[asyncio.Task[None]]:
        """Begin to unload the ensembles, of all repositories, with a step of this model."""
        return {
            task
            for each in self.members
            for task in each.unload_ensembles_of(name, namespace, versions)
        }

    def is_loaded(self, name: str, own: Member) -> None:
        """A model of a repository was loaded: ensembles of the others may have a step of it."""
        for each in self.members:
            if each is not own:
                each.reload_ensembles_of(name, own.namespace)

    async def load_outdated(self) -> None:
        """Load the ensembles of all repositories again that have to be."""
        for each in self.members:
            await each.load_outdated()

    async def unload(self, name: str, *, with_dependents: bool, requested_by: str) -> None:
        """Unload the models of a name; see `Repository.unload`."""
        if with_dependents:
            await self.dependents.unload(name, requested_by=requested_by)
        else:
            await self.locks.run(name, lambda: self._unload(name), requested_by=requested_by)

    async def _unload(self, name: str, *, wait_for_requests: bool = False) -> None:
        unloads = (unload(name, wait_for_requests=wait_for_requests) for unload in self._unloads)
        await asyncio.gather(*unloads)
