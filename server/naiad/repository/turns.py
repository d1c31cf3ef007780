"""One change of a model at a time: operations on the same name run in the order in which they were asked for, others side by side.

An operation is a task of its own: whoever asked for it may leave, and it still ends in a whole state.

A model that is being loaded may ask for an operation itself (`initialize` loads another model), and its own turn lasts until that is
over. So one that would wait for itself, over however many models, is refused.
"""

import asyncio
import collections.abc
import functools
import logging

from naiad.errors import InferenceError, internal, invalid, unavailable

log = logging.getLogger("naiad.repository")

Operation = collections.abc.Callable[[], collections.abc.Awaitable[None]]


class Turns:
    """The operations under way, by name. All of it belongs to the event loop."""

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Task[InferenceError | None]] = {}
        self._under_way = set[asyncio.Task[InferenceError | None]]()
        self._asked: dict[str, list[str]] = {}

    async def take(self, name: str, operation: Operation, *, asked_by: str = "") -> None:
        """Run an operation once all earlier ones of this name are over. Being cancelled here does not stop it.

        Args:
            name: the model's.
            operation: what is to be done.
            asked_by: the model whose operation under way waits for this one; "" for none.

        Raises:
            InferenceError: the operation's own; INTERNAL for any other failure, which is logged; INVALID_ARG when it would wait for itself.
        """
        if not asked_by:
            await self._take(name, operation)
            return
        circle = way(self._asked, name, asked_by)
        if circle:
            raise invalid(
                f"model '{name}' cannot be loaded or unloaded from initialize of model '{asked_by}', which it would wait for: "
                + " asks for ".join(f"'{each}'" for each in (asked_by, *circle))
            )
        waits_for = self._asked.setdefault(asked_by, [])
        waits_for.append(name)
        try:
            await self._take(name, operation)
        finally:
            waits_for.remove(name)
            if not waits_for:
                self._asked.pop(asked_by, None)

    async def _take(self, name: str, operation: Operation) -> None:
        task = asyncio.get_running_loop().create_task(_run(name, self._last.get(name), operation))
        self._last[name] = task
        self._under_way.add(task)
        task.add_done_callback(functools.partial(self._over, name))
        failure = await asyncio.shield(task)
        if failure is not None:
            raise failure

    async def give_up(self) -> None:
        """Cancel what is under way, and return once nothing is; whoever asked for it hears UNAVAILABLE. For the end of the server."""
        while self._under_way:
            for task in self._under_way:
                task.cancel()
            await asyncio.wait(self._under_way)

    def _over(self, name: str, task: "asyncio.Task[InferenceError | None]") -> None:
        self._under_way.discard(task)
        if self._last.get(name) is task:
            del self._last[name]


def way(
    asked: collections.abc.Mapping[str, collections.abc.Sequence[str]], start: str, end: str
) -> list[str]:
    """The models from one to another, each of which waits for the next; empty when there is no way."""
    if start == end:
        return [start]
    came_from = {start: ""}
    line = [start]
    for name in line:
        for following in asked.get(name, ()):
            if following == end:
                path = [end, name]
                while came_from[path[-1]]:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if following not in came_from:
                came_from[following] = name
                line.append(following)
    return []


async def _run(
    name: str, previous: "asyncio.Task[InferenceError | None] | None", operation: Operation
) -> InferenceError | None:
    """The failure is a result, not an exception: perhaps nobody is left who asks for it."""
    try:
        if previous is not None:
            await asyncio.wait({previous})
        await operation()
    except InferenceError as error:
        return error
    except asyncio.CancelledError:
        return unavailable(f"changing model '{name}' was given up: the server is stopping")
    except Exception as error:
        log.exception("changing model '%s' failed", name)
        return internal(
            f"changing model '{name}' failed inside the server ({type(error).__name__}: {error}); its log says where"
        )
    return None
