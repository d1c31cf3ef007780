"""The tasks that run as long as the operator. One that dies is a bug, and ends the process."""

import asyncio
import collections.abc
import logging
import typing

_log = logging.getLogger(__name__)


class Tasks:
    """Starts tasks by name, and cancels them.

    Args:
        on_death: called with a message when a task has raised.
    """

    def __init__(self, on_death: collections.abc.Callable[[str], None]) -> None:
        self._on_death = on_death
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(
        self, name: str, work: collections.abc.Coroutine[typing.Any, typing.Any, None]
    ) -> None:
        """Starts a task."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._on_done)
        self._tasks[name] = task

    def cancel(self, name: str) -> None:
        """Cancels a task that is no longer needed."""
        self._tasks.pop(name).cancel()

    def ended(self) -> str:
        """The name of a task that has ended although it is needed; "" if none has."""
        return next((name for name, task in self._tasks.items() if task.done()), "")

    async def close(self) -> None:
        """Cancels every task and waits for their ends. Safe to call again."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            _log.error("the task %r has died", task.get_name(), exc_info=error)
            self._on_death(f"the task {task.get_name()!r} has died: {error!r}")
