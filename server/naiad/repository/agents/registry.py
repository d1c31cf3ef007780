"""The running agents: each is made with the first load that needs it, and finalized after the last; calls to them, each in a thread and with a limit.

A call that hangs cannot be cancelled: its thread is abandoned, and an agent with several such threads is refused. All state belongs to the
event loop.
"""

import asyncio
import collections
import collections.abc
import concurrent.futures
import contextlib
import logging
import threading
import typing

from naiad.core.processes.threads import start_aside
from naiad.errors import ErrorCode, InferenceError, invalid, unavailable
from naiad.repository.agents.agent import AgentError, RepositoryAgent
from naiad.repository.agents.catalog import AgentCatalog, failure

log = logging.getLogger("naiad.repository.agents")

STARTING_SECONDS = 600.0
"""Limit for the import of an agent's code and its `initialize`."""

NOTIFICATION_SECONDS = 60.0
"""Limit for every call but `initialize` and `load`: unloads and the replies to loads wait for these."""

STOPPING_SECONDS = 5.0
"""Limit for such a call while the server stops."""

MOST_ABANDONED = 8
"""Threads per agent that do not return."""

_Result = typing.TypeVar("_Result")


class _NoThreadError(Exception):
    """The limit of threads is reached."""


class AbandonedCallError(InferenceError):
    """A call did not return in time; its thread still runs, so the agent must not be called about the same model."""


class _Running:
    """An agent in use."""

    def __init__(self, starting: "asyncio.Task[RepositoryAgent]") -> None:
        self.starting = starting
        self.uses = 0


class AgentRegistry:
    """The agents in use, by name.

    Args:
        catalog: makes them.
    """

    def __init__(self, catalog: AgentCatalog) -> None:
        self._catalog = catalog
        self._running: dict[str, _Running] = {}
        self._finalizing: dict[str, asyncio.Task[None]] = {}
        self._abandoned = collections.Counter[str]()
        self._stopping = asyncio.Event()

    def interrupt(self) -> None:
        """The server stops: loads no longer wait for agents, and other calls only for a short time."""
        self._stopping.set()

    async def join(self) -> None:
        """Wait for agents that are being finalized."""
        while self._finalizing:
            await asyncio.wait(self._finalizing.values())

    async def acquire(self, name: str) -> RepositoryAgent:
        """An agent, which is made if it is not in use yet. `release` follows, unless this raises.

        Raises:
            InferenceError: INVALID_ARG: there is none of that name, or it cannot be initialized; UNAVAILABLE: its calls hang.
        """
        if self._abandoned[name] >= MOST_ABANDONED:
            raise unavailable(
                f"repository agent '{name}' is not called: {MOST_ABANDONED} calls to it have not returned; restart the server"
            )
        running = self._running.get(name)
        if running is None:
            start = self._start(name, self._finalizing.get(name))
            running = self._running[name] = _Running(asyncio.ensure_future(start))
        running.uses += 1
        try:
            return await asyncio.shield(running.starting)
        except BaseException:
            self.release(name)
            raise

    def release(self, name: str) -> None:
        """End one use of an agent; the last one finalizes it."""
        running = self._running[name]
        running.uses -= 1
        if not running.uses:
            del self._running[name]
            task = asyncio.ensure_future(self._finalize(name, running.starting))
            self._finalizing[name] = task
            task.add_done_callback(lambda task: self._finalized(name, task))

    async def call(
        self,
        name: str,
        what: str,
        work: collections.abc.Callable[[], _Result],
        *,
        load_seconds: float | None = None,
        returned: collections.abc.Callable[[], None] = lambda: None,
    ) -> _Result:
        """Run code of an agent in a thread.

        Args:
            name: the agent.
            what: what runs, for messages.
            work: the code.
            load_seconds: the limit for a part of a load, which ends as soon as the server stops; None for other calls.
            returned: called in the thread when an abandoned call has returned.

        Raises:
            InferenceError: INVALID_ARG: it raised; UNAVAILABLE: there is no thread for it; AbandonedCallError: it did not return in time, or the server stops.
        """
        result: concurrent.futures.Future[_Result] = concurrent.futures.Future()
        # A daemon: a call that hangs does not keep the process alive.
        thread = threading.Thread(
            target=_run, args=(work, result), name=f"agent-{name}", daemon=True
        )
        try:
            start_aside(thread, lambda error: result.set_exception(_NoThreadError(str(error))))
        except RuntimeError as error:  # the limit of threads is reached
            raise unavailable(f"repository agent '{name}': {what} cannot run: {error}") from None
        future = asyncio.wrap_future(result)
        await self._wait(future, load_seconds)
        if future.done():
            try:
                return future.result()
            except _NoThreadError as error:
                raise unavailable(
                    f"repository agent '{name}': {what} cannot run: {error}"
                ) from None
            except AgentError as error:
                raise failure(name, error) from error
            except Exception as error:
                log.exception("%s of repository agent '%s' failed", what, name)
                raise invalid(
                    f"repository agent '{name}': {what} raised {type(error).__name__}: {error}"
                ) from error
        self._abandoned[name] += 1
        result.add_done_callback(lambda _: returned())
        future.add_done_callback(lambda future: self._returned(name, future))
        reason = "did not return in time; see what it waits for"
        if self._stopping.is_set():
            reason = "was interrupted: the server is stopping"
        elif load_seconds is not None:
            reason += ", or raise timeout_seconds of the agent"
        raise AbandonedCallError(
            ErrorCode.UNAVAILABLE, f"repository agent '{name}': {what} {reason}"
        )

    async def _wait(self, future: "asyncio.Future[typing.Any]", load_seconds: float | None) -> None:
        """Wait for a call, for as long as it may take."""
        stopping: asyncio.Future[typing.Any] = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait(
                {future, stopping},
                timeout=NOTIFICATION_SECONDS if load_seconds is None else load_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if load_seconds is None and self._stopping.is_set():
                await asyncio.wait({future}, timeout=STOPPING_SECONDS)
        finally:
            stopping.cancel()

    def _returned(self, name: str, future: "asyncio.Future[typing.Any]") -> None:
        with contextlib.suppress(BaseException):
            future.result()
        self._abandoned[name] -= 1

    async def _start(self, name: str, finalizing: asyncio.Task[None] | None) -> RepositoryAgent:
        if finalizing is not None:
            await asyncio.wait({finalizing})

        def make() -> RepositoryAgent:
            agent = self._catalog.make(name)
            agent.initialize()
            return agent

        agent = await self.call(name, "initialize", make, load_seconds=STARTING_SECONDS)
        log.info("repository agent '%s' is loaded", name)
        return agent

    async def _finalize(self, name: str, starting: "asyncio.Task[RepositoryAgent]") -> None:
        await asyncio.wait({starting})
        if starting.cancelled() or starting.exception() is not None:
            return
        with contextlib.suppress(InferenceError):
            await self.call(name, "finalize", starting.result().finalize)

    def _finalized(self, name: str, task: asyncio.Task[None]) -> None:
        if self._finalizing.get(name) is task:
            del self._finalizing[name]


def _run(
    work: collections.abc.Callable[[], _Result], result: "concurrent.futures.Future[_Result]"
) -> None:
    try:
        result.set_result(work())
    except Exception as error:  # noqa: BLE001 - reported by the caller
        result.set_exception(error)
    except BaseException as error:  # noqa: BLE001 - `sys.exit()` in an agent fails its call; on the loop it would end the server
        result.set_exception(AgentError(f"raised {type(error).__name__}: {error}"))
