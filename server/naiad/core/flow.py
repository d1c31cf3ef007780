"""Flow control between a model and the client that reads its responses: one `Flow` per stream.

Without it a model that sends faster than its client reads would fill the server's memory. Two things are bounded: responses in transit
from the model to the loop (in bytes), and responses that the loop has written and the client has not read (the protocol calls `pause`
when its own buffer is full, and `resume` when it has capacity again). In both cases `wait` blocks the thread that sends.

A model that sends from coroutines does not wait: its other requests share the thread. What it sends to a client that does not read is
counted, and `overran` says when that client is to be disconnected.

No thread waits for ever: when the client has gone or the final response was sent, `close` is called. A model that sends on, because it ignores that,
still waits until the loop has taken what is in transit, which it drops; where the loop takes nothing any more, for `CLOSED_WAIT_S` per response.
"""

import collections.abc
import threading

LIMIT_BYTES = 1 << 20
"""Bytes of responses that may be in transit to the loop; the response that exceeds it is still sent."""

OVERRUN_BYTES = 16 << 20
"""Bytes that a model which does not wait may send to a client that does not read; with more, that client is disconnected."""

CLOSED_WAIT_S = 1.0
"""How long a sender waits at most for the loop once the flow is closed: the loop may have ended."""

RESPONSE_BYTES = 512
"""The size of a response beside its tensors."""


class Flow:
    """Used by model threads, which call `sent` and `wait`, and by the event loop, which calls everything else.

    Each counter has one writer at a time (senders have a lock), so it needs no lock here.
    """

    __slots__ = (
        "_arrived", "_capacity", "_closed", "_largest", "_limit", "_on_pause", "_paused", "_sent", "_unread",
        "_waiting",
    )  # fmt: skip

    def __init__(self, limit: int = LIMIT_BYTES) -> None:
        self._limit = limit
        self._sent = 0
        self._arrived = 0
        self._paused = False
        self._closed = False
        self._waiting = False
        self._unread = 0
        self._largest = 0
        self._capacity = threading.Event()
        self._on_pause: collections.abc.Callable[[bool], None] | None = None

    def is_full(self) -> bool:
        """Whether a sender should wait now."""
        return self._paused or self._sent - self._arrived > self._limit

    def sent(self, size: int) -> None:
        """A response of this size is about to be sent."""
        self._sent += size

    def wait(self) -> None:
        """Wait for capacity."""
        while self.is_full():
            self._capacity.clear()
            self._waiting = True
            # Checked again: capacity that came before the line above did not wake this thread.
            if not self.is_full():
                self._capacity.set()  # for another thread whose wake-up was cleared above
                return
            if not self._capacity.wait(CLOSED_WAIT_S) and self._closed:
                return

    def coming(self, size: int) -> None:
        """A response of this size has come to the loop and is passed on next: it counts as unread if the client does not read."""
        if self._paused:
            self._unread += size
            self._largest = max(self._largest, size)

    def arrived(self, size: int) -> None:
        """The response was passed on."""
        self._arrived += size
        if self._waiting:
            self._wake()

    def pause(self) -> None:
        """The client does not read."""
        if not self._paused and not self._closed:
            self._paused = True
            if self._on_pause is not None:
                self._on_pause(True)

    def resume(self) -> None:
        """The client reads again."""
        self._release()
        self._unread = self._largest = 0
        if self._waiting:
            self._wake()

    def watch(self, on_pause: "collections.abc.Callable[[bool], None]") -> None:
        """Set the callback of a host whose model cannot `wait` here: True when it is to pause, False when it may resume; at once if paused."""
        self._on_pause = on_pause
        if self._paused and not self._closed:
            on_pause(True)

    def overran(self) -> bool:
        """Whether too much has come for a client that does not read, except for the largest response: one is sent before the model knows."""
        return self._unread - self._largest > OVERRUN_BYTES

    def close(self) -> None:
        """End every wait for the client, which has gone or has its final response; `pause` has no effect any more."""
        self._closed = True
        self._release()
        self._on_pause = None
        self._waiting = False
        self._capacity.set()

    def _release(self) -> None:
        if self._paused:
            self._paused = False
            if self._on_pause is not None:
                self._on_pause(False)

    def _wake(self) -> None:
        # Half of the limit has to be free; otherwise the thread would be woken for each response.
        if not self._paused and self._sent - self._arrived <= self._limit // 2:
            self._waiting = False
            self._capacity.set()
