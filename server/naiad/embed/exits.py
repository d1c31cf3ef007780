"""What becomes of servers that a program has not stopped: at its end they are stopped, and in a child of `os.fork` they do not exist.

The threads of models are not daemons, so the interpreter would wait for them for ever; it calls `atexit` functions only after it has waited.
"""

import contextlib
import logging
import os
import threading
import typing
import weakref

_log = logging.getLogger("naiad.serve")


class Stoppable(typing.Protocol):
    """A server that runs in threads of its own."""

    def stop(self) -> None:
        """Stop it."""

    def forget(self) -> None:
        """Its threads are those of another process."""


_RUNNING: "weakref.WeakSet[Stoppable]" = weakref.WeakSet()
_ONCE = threading.Lock()
_REGISTERED = False


def add(server: Stoppable) -> None:
    """A server starts."""
    global _REGISTERED  # noqa: PLW0603 - of this process, as is what it registers with
    with _ONCE:
        if not _REGISTERED:
            # The hook of concurrent.futures, for the same reason; there is no public one.
            threading._register_atexit(_stop_all)  # type: ignore[attr-defined]  # noqa: SLF001
            os.register_at_fork(after_in_child=_forget_all)
            _REGISTERED = True
        _RUNNING.add(server)


def remove(server: Stoppable) -> None:
    """A server has stopped."""
    _RUNNING.discard(server)


def _stop_all() -> None:
    for server in tuple(_RUNNING):
        with contextlib.suppress(Exception):
            server.stop()


def _forget_all() -> None:
    for server in tuple(_RUNNING):
        server.forget()
    _RUNNING.clear()
