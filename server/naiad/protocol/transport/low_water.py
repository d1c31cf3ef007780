"""How many bytes must have come before the loop is woken to read them (SO_RCVLOWAT).

A client that writes a long message in small pieces, as HTTP/2's frames are, would wake the loop for each of them: a megabyte in 64 frames 64 times. While it is known how many bytes still
come, the kernel waits for as many as one read takes. The end of the connection wakes the loop in any case, and so does a client that pauses, after `GRACE_S`: it may cancel, or ask whether
the server is there.
"""

import asyncio
import contextlib
import socket

GRACE_S = 0.02
"""How long bytes wait at most for others to come."""

LEAST_BYTES = 1 << 15
"""Fewer are not waited for."""

MOST_BYTES = 3 << 16
"""More are not waited for: less than is read at once, so that one read takes what has come when the loop is awake."""

_ANY = 1


class LowWaterMark:
    """The mark of one socket. It has no effect on a connection with TLS: how much is encrypted already, and was read, is not known."""

    __slots__ = ("_came", "_loop", "_mark", "_socket", "_timer", "_transport", "_usable")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop = loop
        self._transport = transport
        self._usable = transport.get_extra_info("ssl_object") is None
        self._mark = _ANY
        self._came = False
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None

    def wait_for(self, count: int) -> None:
        """At least so many bytes come; called after each read while some do, and with 0 when it is not known any more."""
        mark = min(count, MOST_BYTES) if count >= LEAST_BYTES and self._usable else _ANY
        if mark != self._mark:
            self._set(mark)
        if mark != _ANY:
            self._came = True
            if self._timer is None:
                self._timer = self._loop.call_later(GRACE_S, self._check)

    def close(self) -> None:
        """Stop the timer. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        if self._mark == _ANY:
            return
        if not self._came:
            self._set(_ANY)
            return
        self._came = False
        self._timer = self._loop.call_later(GRACE_S, self._check)

    def _set(self, mark: int) -> None:
        self._mark = mark
        if self._transport.is_closing():  # its descriptor may be another socket's
            return
        if (
            self._socket is None
        ):  # uvloop makes another object each time, and asks the system for its address
            self._socket = self._transport.get_extra_info("socket")
        with contextlib.suppress(OSError):  # the client has gone
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
