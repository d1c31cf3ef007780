"""One change of a model at a time: operations on the same name run in the order in which they were asked for, others side by side.

An operation is a task of its own: whoever asked for it may leave, and it still ends in a whole state.
"""

import asyncio
import collections.abc
import functools
import logging

from naiad.errors import InferenceError, internal

log = logging.getLogger("naiad.repository")

Operation = collections.abc.Callable[[], collections.abc.Awaitable[None]]


class Turns:
    """The operations under way, by name. All of it belongs to the event loop."""

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Task[InferenceError | None]] = {}

    async def take(self, name: str, operation: Operation) -> None:
        """Run an operation once all earlier ones of this name are over. Being cancelled here does not stop it.

        Raises:
            InferenceError: the operation's own; INTERNAL for any other failure, which is logged.
        """
        task = asyncio.get_running_loop().create_task(_run(name, self._last.get(name), operation))
        self._last[name] = task
        task.add_done_callback(functools.partial(self._over, name))
        failure = await asyncio.shield(task)
        if failure is not None:
            raise failure

    async def all_over(self) -> None:
        """Wait until nothing is under way."""
        while self._last:
            await asyncio.wait(self._last.values())

    def _over(self, name: str, task: "asyncio.Task[InferenceError | None]") -> None:
        if self._last.get(name) is task:
            del self._last[name]


async def _run(
    name: str, previous: "asyncio.Task[InferenceError | None] | None", operation: Operation
) -> InferenceError | None:
    """The failure is a result, not an exception: perhaps nobody is left who asks for it."""
    if previous is not None:
        await asyncio.wait({previous})
    try:
        await operation()
    except InferenceError as error:
        return error
    except Exception as error:
        log.exception("changing model '%s' failed", name)
        return internal(
            f"changing model '{name}' failed inside the server ({type(error).__name__}: {error}); its log says where"
        )
    return None
