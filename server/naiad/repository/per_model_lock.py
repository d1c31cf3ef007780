"""Serialises loads and unloads: operations on the same model run one after the other, in the order of the calls.

An operation runs in a task of its own, so a caller that is cancelled leaves no half-done load behind.

A model that is being loaded may request an operation itself (`initialize` loads another model), and holds its own lock meanwhile.
A request that would wait for itself, over any number of models, is refused.
"""

import asyncio
import collections.abc
import functools
import logging

from naiad.errors import InferenceError, internal, invalid, unavailable
from naiad.repository.dependencies import DependencyCycleError, DependencyGraph

log = logging.getLogger("naiad.repository")

Operation = collections.abc.Callable[[], collections.abc.Awaitable[None]]


class PerModelLock:
    """The operations in progress, by model. All state belongs to the event loop."""

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Task[InferenceError | None]] = {}
        self._tasks = set[asyncio.Task[InferenceError | None]]()
        self._waits_for = DependencyGraph()
        self.on_change: collections.abc.Callable[[], None] = _ignore
        """Called when the last operation on a model is done, and when one waits for another one."""

    async def run(self, name: str, operation: Operation, *, requested_by: str = "") -> None:
        """Run an operation after all earlier ones on this model. Cancelling the caller does not cancel the operation.

        Args:
            name: the model.
            operation: what to run.
            requested_by: the model whose operation waits for this one; "" for none.

        Raises:
            InferenceError: the operation's own; INTERNAL for any other failure, which is logged; INVALID_ARG if it would wait for itself.
        """
        if not requested_by:
            await self._run(name, operation)
            return
        try:
            self._waits_for.add(requested_by, name)
        except DependencyCycleError as error:
            raise invalid(
                f"model '{name}' cannot be loaded or unloaded from initialize of model '{requested_by}', which it would wait for: "
                + " waits for ".join(f"'{model}'" for model in (*error.cycle, requested_by))
            ) from None
        self.on_change()
        try:
            await self._run(name, operation)
        finally:
            self._waits_for.remove(requested_by, name)

    async def _run(self, name: str, operation: Operation) -> None:
        previous = self._last.get(name)
        task = asyncio.get_running_loop().create_task(_outcome(name, previous, operation))
        self._last[name] = task
        self._tasks.add(task)
        task.add_done_callback(functools.partial(self._done, name))
        failure = await asyncio.shield(task)
        if failure is not None:
            raise failure

    def is_busy(self, name: str) -> bool:
        """Whether an operation on a model is in progress."""
        return name in self._last

    def busy_but_for(self, waiting: collections.abc.Collection[str]) -> set[str]:
        """The models with operations in progress that need not wait for those of these models."""
        blocked = set(waiting)
        while (
            more := {
                name for name in self._last if not blocked.isdisjoint(self._waits_for.needs(name))
            }
            - blocked
        ):
            blocked |= more
        return set(self._last) - blocked

    async def cancel_all(self) -> None:
        """Cancel every operation and wait for its end; the callers get UNAVAILABLE. For the end of the server."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def _done(self, name: str, task: "asyncio.Task[InferenceError | None]") -> None:
        self._tasks.discard(task)
        if self._last.get(name) is task:
            del self._last[name]
            self.on_change()


async def _outcome(
    name: str, previous: "asyncio.Task[InferenceError | None] | None", operation: Operation
) -> InferenceError | None:
    """Run an operation. Its failure is a result, not an exception: the caller may be gone, and asyncio would log it."""
    try:
        if previous is not None:
            await asyncio.wait({previous})
        await operation()
    except InferenceError as error:
        return error
    except asyncio.CancelledError:
        return unavailable(f"changing model '{name}' was cancelled: the server is stopping")
    except Exception as error:
        log.exception("changing model '%s' failed", name)
        return internal(
            f"changing model '{name}' failed inside the server ({type(error).__name__}: {error}); see its log"
        )
    return None


def _ignore() -> None:
    """What is called if nothing depends on the operations."""
