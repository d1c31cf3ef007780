"""One run of a server on an event loop, from its start to its stop, in a task of its own.

Tasks that start it or stop it may be cancelled at any moment: the run is then brought to its end before they go on, so that nothing of it stays behind. A loop that
ends, as `asyncio.run` does, cancels the run like every other task, which stops it.
"""

import asyncio
import collections.abc
import contextlib

from naiad.serve.embedded import Embedded, StartError

Serving = contextlib.AbstractAsyncContextManager[Embedded]

_STOPPED_EARLY = "the server was stopped before it had started"


class Run:
    """Begins when it is made; on the event loop.

    Args:
        serving: starts the server, and stops it.
        begun: called with its parts once it has started.
        lost: called if the loop ends before it was stopped: the program waits for none of its requests any more.
        ended: called once it has stopped, also if it has not started; before those who wait for the end go on.
    """

    def __init__(
        self,
        serving: Serving,
        *,
        begun: collections.abc.Callable[[Embedded], None],
        lost: collections.abc.Callable[[], None],
        ended: collections.abc.Callable[[], None],
    ) -> None:
        self._begun = begun
        self._lost = lost
        self._over = ended
        self._has_begun = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._serve(serving))
        self._task.add_done_callback(self._on_end)

    async def begin(self) -> None:
        """Wait until it has started. A cancel of this ends the start, and is raised once nothing of it is left.

        Raises:
            StartError: it cannot start, or was stopped meanwhile.
        """
        try:
            await self._has_begun.wait()
        except asyncio.CancelledError:
            self._task.cancel()
            await self._end()
            raise
        if self._task.done():
            if not self._task.cancelled():
                self._task.result()
            raise StartError(_STOPPED_EARLY)

    async def stop(self) -> None:
        """Stop it, and wait for its end; a start in progress is given up. A cancel of this ends the stop as if its time were over."""
        if not self._has_begun.is_set():
            self._task.cancel()
        self._stopping.set()
        await self._end()
        if not self._task.cancelled():
            self._task.result()

    async def _serve(self, serving: Serving) -> None:
        async with serving as running:
            self._begun(running)
            self._has_begun.set()
            try:
                await self._stopping.wait()
            except asyncio.CancelledError:
                self._lost()

    def _on_end(self, task: "asyncio.Task[None]") -> None:
        self._over()
        self._has_begun.set()

    async def _end(self) -> None:
        """Wait until the task has ended. A cancel hastens it, and is raised at its end."""
        cancelled: asyncio.CancelledError | None = None
        while not self._task.done():
            try:
                await asyncio.wait((self._task,))
            except asyncio.CancelledError as error:
                cancelled = error
                self._task.cancel()
        if cancelled is not None:
            raise cancelled
