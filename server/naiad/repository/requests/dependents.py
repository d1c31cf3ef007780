"""Unloads a model together with the models that were loaded only because it needs them (row 7.26). All of it belongs to the event loop.

The lock of a model is free again before the models that it needed are unloaded: one of these may be loading, and wait for that lock.
"""

import asyncio
import typing

from naiad.errors import InferenceError
from naiad.repository.dependencies import DependencyGraph
from naiad.repository.per_model_lock import PerModelLock


class UnloadModel(typing.Protocol):
    """Unloads one model, whose lock is held."""

    async def __call__(self, name: str, *, wait_for_requests: bool) -> None:
        """Return once its memory is released: at the latest after a second, or if `wait_for_requests`, after its requests in flight."""
        ...


class DependentUnloads:
    """The unloads of models with their dependents that are in progress.

    Args:
        dependencies: which models need which others.
        locks: of the models.
        unload: unloads a model.

    Attributes:
        explicit: the models that were loaded at start or by a client, not only because another model needs them.
    """

    def __init__(
        self,
        *,
        dependencies: DependencyGraph,
        locks: PerModelLock,
        unload: UnloadModel,
    ) -> None:
        self.explicit = set[str]()
        self._dependencies = dependencies
        self._locks = locks
        self._unload_model = unload
        self._tasks = set[asyncio.Task[InferenceError | None]]()

    async def unload(self, name: str, *, requested_by: str) -> None:
        """Unload a model and its dependents; cancelling the caller stops nothing.

        Args:
            name: the model.
            requested_by: the model whose operation waits for this; "" for none.

        Raises:
            InferenceError: as `PerModelLock.run` for the model itself. A dependent that waits for `requested_by` stays.
        """
        task = asyncio.get_running_loop().create_task(self._outcome(name, requested_by))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        failure = await asyncio.shield(task)
        if failure is not None:
            raise failure

    async def join(self) -> None:
        """Wait until none is in progress."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _outcome(self, name: str, requested_by: str) -> InferenceError | None:
        """Unload. A failure is a result, not an exception: the caller may be gone, and asyncio would log it."""
        try:
            await self._unload(name, requested_by, unless_needed=False)
        except InferenceError as error:
            return error
        return None

    async def _unload(self, name: str, requested_by: str, *, unless_needed: bool) -> None:
        needs: tuple[str, ...] = ()

        async def operation() -> None:
            nonlocal needs
            is_needed = name in self.explicit or self._dependencies.is_needed(name)
            if unless_needed and is_needed:
                return
            needs = tuple(self._dependencies.needs(name))
            # Requests in flight may call the models that it needs.
            await self._unload_model(name, wait_for_requests=bool(needs))

        await self._locks.run(name, operation, requested_by=requested_by)
        await asyncio.gather(
            *(self._unload(needed, requested_by, unless_needed=True) for needed in needs),
            return_exceptions=True,
        )
