"""The other end of a connection: where it is, whether it still listens, whether it takes what it is sent."""

import asyncio
import socket

from naiad.protocol.http.transport.framing import CONTINUE

_PROBE_SECONDS = 0.02
"""How soon after a probe to look for its result; peers further away are looked at again at each tick."""


class Peer:
    """A client, seen through its socket.

    Args:
        transport: the connection's transport.

    Attributes:
        since: when something last came from it or went to it, so that waiting for it began anew (the registry's `now`).
    """

    __slots__ = ("_drained", "_stuck_bytes", "_stuck_since", "_transport", "since")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._drained: asyncio.Future[None] | None = None
        self._stuck_bytes = -1
        self._stuck_since = 0.0
        self.since = 0.0

    def address(self, name: str = "peername") -> tuple[str, int] | None:
        """Host and port of "peername" or "sockname"; None when the socket has none (any more)."""
        found = self._transport.get_extra_info(name)
        return (found[0], found[1]) if isinstance(found, tuple) and len(found) > 1 else None

    def probe(self, loop: asyncio.AbstractEventLoop) -> None:
        """Find out whether a client that sent EOF still listens: closing and half-closing look the same from here.

        An interim reply does it: HTTP/1.1 clients skip those they did not ask for (RFC 9110 15.2), and the kernel of
        a client that has closed refuses it. Row 1.19 wants the request of such a client cancelled. Not for HTTP/1.0,
        which knows no interim replies.
        """
        self._transport.write(CONTINUE)
        self.look_soon(loop)

    def look_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look what became of something that was just sent."""
        loop.call_later(_PROBE_SECONDS, self.abort_if_gone)

    def abort_if_gone(self) -> None:
        """Drop the connection of a peer that refused what was sent to it."""
        if self._transport.is_closing():
            return
        sock = self._transport.get_extra_info("socket")
        if sock is not None and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._transport.abort()

    def is_stuck(self, now: float, limit: float) -> bool:
        """Whether it has taken nothing of what waits for it for `limit` seconds, as seen by one who asks at each tick."""
        waiting = self._transport.get_write_buffer_size()
        if waiting != self._stuck_bytes:
            self._stuck_bytes = waiting
            self._stuck_since = now
        return now - self._stuck_since >= limit

    def wait(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """What is done once it has taken enough for the next write."""
        if self._drained is None:
            self._drained = loop.create_future()
        return self._drained

    def drained(self) -> None:
        """It has taken enough, or is gone."""
        self._stuck_bytes = -1
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
