"""Finds response senders that are unreachable and that Python has not freed yet, because they are part of a reference cycle.

A sender that is dropped notifies its host (`api/response.py`), and its client gets an error. But an exception that was kept (`error = e`), or a
function that calls itself, holds its frame, which holds it, and the sender with it, until the garbage collector comes by, which it
does only once many objects were made: a worker that waits for its next request makes none. So while senders are open, it is called.

Limits: those of `backends/instance.py`: standard library, Python 3.8.
"""

import collections
import gc
import threading
import weakref
from collections.abc import Iterable
from typing import Any

from naiad.backends.python.api.response import InferenceResponseSender, is_open

LOOK_S = 1.0
"""How often open senders are looked at; what is answered sooner costs nothing."""

_YOUNG = 1
_ALL = 2
_ALL_EVERY = 10
"""One collection in so many goes through all objects; what was there after the load is frozen and not among them."""


class LeakedSenderCollector:
    """The senders of one instance. Its thread starts with the first one that is still open when its batch has come back."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: collections.deque[Any] = collections.deque()
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def watch(self, senders: "Iterable[InferenceResponseSender | None]") -> None:
        """Their batch has come back."""
        still = [
            weakref.ref(sender) for sender in senders if sender is not None and is_open(sender)
        ]
        if not still:
            return
        self._open.extend(still)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name=f"{self._name}-leaks", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        rounds = 0
        while not self._over.wait(LOOK_S):
            if self._any_open():
                rounds += 1
                gc.collect(_YOUNG if rounds % _ALL_EVERY else _ALL)

    def _any_open(self) -> bool:
        senders = self._open
        for _ in range(len(senders)):
            reference = senders.popleft()
            sender = reference()
            if sender is not None and is_open(sender):
                senders.append(reference)
            # Or this thread would hold it while it waits.
            del sender
        return bool(senders)
