"""How far a model may run ahead of the client that reads its answers: one flow a stream.

Without it a model that sends faster than its client reads would fill the server's memory. Two things are bounded: answers on their way
from the model to the loop (by bytes), and answers that the loop has written and the client has not taken (the protocol says `hold`
when its own buffer is full, and `go_on` when there is room again). While either is the case `wait` keeps the thread that sends.

A model that answers from coroutines does not wait: its other requests share the thread. What it sends to a client that does not read is
counted, and `overran` says when that client is to be cut off.

Nobody waits for ever: who cannot take any more, because the client left or the last answer was given, calls `close`.
"""

import collections.abc
import threading

LIMIT_BYTES = 1 << 20
"""Bytes of answers that may be on their way to the loop; the one that passes it still goes."""

OVERRUN_BYTES = 16 << 20
"""Bytes that a model which cannot be kept waiting may send to a client that takes nothing; more, and that client is cut off."""

ANSWER_BYTES = 512
"""What an answer weighs beside its tensors."""


class Flow:
    """Between model threads, which call `sent` and `wait`, and the event loop, which calls everything else.

    Each number has one writer at a time (a sender's lock sees to it), so none needs a lock here.

    Args:
        limit: bytes that may be on their way.
    """

    __slots__ = (
        "_arrived", "_closed", "_held", "_largest", "_limit", "_on_hold", "_piled", "_room", "_sent", "_waiting",
    )  # fmt: skip

    def __init__(self, limit: int = LIMIT_BYTES) -> None:
        self._limit = limit
        self._sent = 0
        self._arrived = 0
        self._held = False
        self._closed = False
        self._waiting = False
        self._piled = 0
        self._largest = 0
        self._room = threading.Event()
        self._on_hold: collections.abc.Callable[[bool], None] | None = None

    def is_full(self) -> bool:
        """Whether who sends should wait now."""
        return (self._held or self._sent - self._arrived > self._limit) and not self._closed

    def sent(self, size: int) -> None:
        """An answer of so many bytes goes on its way; said before it does."""
        self._sent += size

    def wait(self) -> None:
        """Return once there is room; at once if there is."""
        while self.is_full():
            self._room.clear()
            self._waiting = True
            # Asked again: what made room before the line above could not know that somebody waits.
            if not self.is_full():
                self._room.set()  # for another thread whose wake-up was cleared above
                return
            self._room.wait()

    def coming(self, size: int) -> None:
        """An answer of so many bytes has come to the loop and is handed on next: it piles up if the client takes nothing already."""
        if self._held:
            self._piled += size
            self._largest = max(self._largest, size)

    def arrived(self, size: int) -> None:
        """It was handed on."""
        self._arrived += size
        if self._waiting:
            self._wake()

    def hold(self) -> None:
        """The client does not take what is sent to it."""
        if not self._held:
            self._held = True
            if self._on_hold is not None:
                self._on_hold(True)

    def go_on(self) -> None:
        """It does again."""
        self._let_go()
        self._piled = self._largest = 0
        if self._waiting:
            self._wake()

    def watch(self, on_hold: "collections.abc.Callable[[bool], None]") -> None:
        """Have a host whose model cannot `wait` here told when it shall be held and when it may go on; at once if it is held."""
        self._on_hold = on_hold
        if self._held and not self._closed:
            on_hold(True)

    def overran(self) -> bool:
        """Whether too much has come for a client that takes nothing, beside the largest of it: one goes before the model knows."""
        return self._piled - self._largest > OVERRUN_BYTES

    def close(self) -> None:
        """Nobody needs to wait any more: the client left, or has its last answer."""
        self._let_go()
        self._on_hold = None
        self._closed = True
        self._waiting = False
        self._room.set()

    def _let_go(self) -> None:
        if self._held:
            self._held = False
            if self._on_hold is not None:
                self._on_hold(False)

    def _wake(self) -> None:
        # Half of the limit has to be free, or the thread would be woken for each answer.
        if not self._held and self._sent - self._arrived <= self._limit // 2:
            self._waiting = False
            self._room.set()
