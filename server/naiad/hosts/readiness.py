"""Asks an instance in a thread of this process whether it is ready, in a thread of its own: its answer may take long, and never come."""

import asyncio
import contextlib
import logging
import threading

from naiad.backends.instance import Instance
from naiad.core.processes.threads import start_aside
from naiad.hosts.host import READY_TIMEOUT_S, Probe

_log = logging.getLogger(__name__)


class ReadinessAsker:
    """Asks one instance. Concurrent questions share one answer.

    Args:
        name: the instance's name.
        instance: what is asked.
        loop: the event loop in which `ask` is called.
    """

    def __init__(self, name: str, instance: Instance, *, loop: asyncio.AbstractEventLoop) -> None:
        self._name = name
        self._instance = instance
        self._loop = loop
        self._probe = Probe(loop)
        self._asked: threading.Event | None = None  # set once `ready` has returned

    async def ask(self) -> bool:
        """Its answer. None within `READY_TIMEOUT_S` and an exception mean not ready."""
        return await self._probe.ask(self._begin)

    def wait(self) -> None:
        """Return once the instance is not being asked, or its answer is overdue: it is closed next; in the instance's thread."""
        if self._asked is not None:
            self._asked.wait(READY_TIMEOUT_S)

    def _begin(self) -> None:
        # A daemon: the exit of the process does not wait for an answer.
        asked = threading.Event()
        thread = threading.Thread(
            target=self._ask, args=(asked,), name=f"{self._name}-ready", daemon=True
        )
        start_aside(thread, lambda error: self._not_asked(asked, error))
        self._asked = asked

    def _not_asked(self, asked: threading.Event, error: RuntimeError) -> None:
        asked.set()
        _log.error("instance '%s' could not be asked whether it is ready: %s", self._name, error)
        self._answer(ready=False)

    def _ask(self, asked: threading.Event) -> None:
        try:
            ready = bool(self._instance.ready())
        except BaseException:  # noqa: BLE001  an exception of any kind means not ready (row 2.12)
            _log.exception("instance '%s' could not say whether it is ready", self._name)
            ready = False
        asked.set()
        self._answer(ready=ready)

    def _answer(self, *, ready: bool) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._probe.answer, ready)
