"""An event loop in a thread of its own, which runs one thing from its start to its stop. The program's threads wait, and its own event loops do not matter."""

import asyncio
import collections.abc
import concurrent.futures
import contextlib
import os
import threading
import time
import typing

import uvloop

from naiad.core.processes.inherited import be_free
from naiad.core.processes.threads import UnwaitedExecutor
from naiad.embed.calls import STOPPED
from naiad.errors import unavailable

Result = typing.TypeVar("Result")

_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""Threads of the loop's executor, as many as Python's own has."""

_JOIN_S = 5.0
"""How long to wait at the stop for threads that a blocking call keeps: one that hangs is abandoned."""


class Runs(typing.Protocol):
    """What the loop runs."""

    async def start(self) -> object:
        """Start it."""

    async def stop(self) -> object:
        """Stop it."""


class LoopThread:
    """Started once, stopped once; all methods in any thread but its own.

    Args:
        name: of its threads.
        runs: started and stopped on the loop.
        begun: called on the loop when it has started.
        ended: called on the loop before it closes, also if the start failed.
    """

    def __init__(
        self,
        name: str,
        runs: Runs,
        *,
        begun: collections.abc.Callable[[], None],
        ended: collections.abc.Callable[[], None],
    ) -> None:
        self._name = name
        self._runs = runs
        self._begun = begun
        self._ended = ended
        self._started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._main: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._lock = threading.Lock()
        self._over = False
        self._waiting: set[concurrent.futures.Future[typing.Any]] = set()
        # It ends with the program, which stops the server before (`exits.py`).
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread and what it runs; an interrupt of the waiting program ends both.

        Raises:
            Exception: what the start raises.
        """
        self._thread.start()
        try:
            self._started.result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop what it runs, and end its threads. Idempotent."""
        self._is_stopping = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(self._on_stop)
        self._thread.join()
        deadline = time.monotonic() + _JOIN_S
        for thread in threading.enumerate():
            if thread.name.startswith(f"{self._name}-call"):
                thread.join(max(0.0, deadline - time.monotonic()))

    def is_current(self) -> bool:
        """Whether the calling thread is the loop's."""
        return threading.get_ident() == self._thread.ident

    def call(self, work: collections.abc.Coroutine[typing.Any, typing.Any, Result]) -> Result:
        """Run a coroutine on the loop and wait for its result.

        Raises:
            InferenceError: UNAVAILABLE: the loop stops before the coroutine has ended.
            Exception: what it raises.
        """
        assert self._loop is not None, "it has started"
        with self._lock:
            if self._over:
                work.close()
                raise unavailable(STOPPED)
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._waiting.add(future)
        try:
            return future.result()
        except (concurrent.futures.CancelledError, RuntimeError):
            # Of a call that the stop has overtaken: its task was cancelled, or threads that it needs have ended.
            if self._is_stopping or self._over:
                raise unavailable(STOPPED) from None
            raise
        finally:
            with self._lock:
                self._waiting.discard(future)
            future.cancel()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                runner.run(self._serve())
            except BaseException as error:
                if not self._started.done():
                    self._started.set_exception(error)
                elif not isinstance(error, asyncio.CancelledError):
                    raise

    async def _serve(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        loop.set_default_executor(
            UnwaitedExecutor(_THREADS, thread_name_prefix=f"{self._name}-call", initializer=be_free)
        )
        self._main = asyncio.current_task()
        try:
            if self._is_stopping:
                raise asyncio.CancelledError
            await self._runs.start()
            self._begun()
            self._started.set_result(None)
            await self._stopping.wait()
            await self._runs.stop()
        finally:
            self._ended()
            with self._lock:
                self._over = True
                waiting = tuple(self._waiting)
            # A thread that waits gets an answer, whether or not its task would still run.
            for future in waiting:
                future.cancel()

    def _on_stop(self) -> None:
        if self._started.done():
            self._stopping.set()
        elif self._main is not None:
            self._main.cancel()
