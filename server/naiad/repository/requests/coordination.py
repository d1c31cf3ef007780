"""What bounds and orders the loads and unloads of all repositories of a server. All of it belongs to the event loop."""

import asyncio

from naiad.repository.dependencies import DependencyGraph
from naiad.repository.loading.slots import LoadSlots
from naiad.repository.per_model_lock import PerModelLock
from naiad.repository.requests.dependents import DependentUnloads, UnloadModel


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

    def add(self, unload: UnloadModel) -> None:
        """Add a repository: how it unloads its model of a name."""
        self._unloads.append(unload)

    async def unload(self, name: str, *, with_dependents: bool, requested_by: str) -> None:
        """Unload the models of a name; see `Repository.unload`."""
        if with_dependents:
            await self.dependents.unload(name, requested_by=requested_by)
        else:
            await self.locks.run(name, lambda: self._unload(name), requested_by=requested_by)

    async def _unload(self, name: str, *, wait_for_requests: bool = False) -> None:
        unloads = (unload(name, wait_for_requests=wait_for_requests) for unload in self._unloads)
        await asyncio.gather(*unloads)
