"""Where a model's `async def execute` runs: an event loop in a thread of its own, one an instance (row 15.8).

Made with the first coroutine. A coroutine of an ordinary model is waited for, as its answers are what it returns; those of a
decoupled model run side by side, and its next batch may begin while they do. What a coroutine does to the loop (`sys.exit`, which asyncio
lets end it, or `stop`) concerns no other coroutine: the loop goes on.

Limits: those of `backends/instance.py`: Python 3.8.
"""

import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

_log = logging.getLogger("naiad.models")

CLOSE_TIMEOUT_S = 5.0
"""How long coroutines whose requests all have their answers may go on when the model is unloaded, and again once they are cancelled."""


class Coroutines:
    """The loop of an instance, whose name its thread's begins with."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._running: set[concurrent.futures.Future[Any]] = set()
        self._closing = False

    def is_this_thread(self) -> bool:
        """Whether the caller is one of the coroutines."""
        return self._thread is not None and threading.get_ident() == self._thread.ident

    def run(self, coroutine: "Coroutine[Any, Any, Any]") -> Any:
        """Run one to its end and give back its result, or raise what it raised."""
        return self._submitted(coroutine).result()

    def start(self, coroutine: "Coroutine[Any, Any, Any]", on_end: "Callable[[Any], None]") -> None:
        """Run one beside whatever else runs; `on_end` is called with it, in whatever thread, once it is over."""
        future = self._submitted(coroutine)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        future.add_done_callback(on_end)

    def ping(self, call: "Callable[[], None]") -> None:
        """Have a call made between two steps of coroutines; at once where there are none."""
        loop = self._loop
        if loop is None:
            call()
            return
        with contextlib.suppress(RuntimeError):  # it was closed just now
            loop.call_soon_threadsafe(call)

    def close(self) -> None:
        """Wait for what still runs, cancel what goes on for too long, and end the thread; one that will not end is left alone."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        _, late = concurrent.futures.wait(tuple(self._running), timeout=CLOSE_TIMEOUT_S)
        for future in late:
            future.cancel()
        ended = threading.Event()
        loop.call_soon_threadsafe(self._end_all, loop, ended)
        ended.wait(2 * CLOSE_TIMEOUT_S)
        self._closing = True
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_TIMEOUT_S)
        if thread.is_alive():
            _log.error("'%s': a coroutine blocks its thread, which is left running", self._name)
        else:
            loop.close()
        self._loop = None

    def _submitted(self, coroutine: "Coroutine[Any, Any, Any]") -> "concurrent.futures.Future[Any]":
        """In the loop, which the first one starts."""
        import asyncio  # noqa: PLC0415 - 36 ms and 6 MB of a worker, for models with coroutines only

        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._run_forever, args=(loop,), name=f"{self._name}-async", daemon=True
            )
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(coroutine, loop)

    def _end_all(self, loop: "asyncio.AbstractEventLoop", ended: threading.Event) -> None:
        if not self._closing:  # else it was blocked for so long that the close no longer waits
            loop.create_task(_cancel_all()).add_done_callback(lambda _: ended.set())

    def _run_forever(self, loop: "asyncio.AbstractEventLoop") -> None:
        while not self._closing:
            try:
                loop.run_forever()
            except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt; its task has it too
                _log.error(
                    "'%s': %s in a coroutine: only that one ends by it",
                    self._name,
                    type(error).__name__,
                )


async def _cancel_all() -> None:
    """Cancel tasks that the model started itself and let everything cancelled come to its end, unless that takes too long."""
    import asyncio  # noqa: PLC0415 - 36 ms and 6 MB of a worker, for models with coroutines only

    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=CLOSE_TIMEOUT_S)
