"""The other end of a connection: where it is, whether it still listens, whether it takes what it is sent."""

import asyncio
import socket

from naiad.protocol.http.framing import CONTINUE

_PROBE_SECONDS = 0.02
"""How soon after a probe to look for its result; peers further away are looked at again at each tick."""


class Peer:
    """A client, seen through its socket.

    Args:
        transport: the connection's transport.
    """

    __slots__ = ("_stuck_bytes", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._stuck_bytes = 0

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
        loop.call_later(_PROBE_SECONDS, self.abort_if_gone)

    def abort_if_gone(self) -> None:
        """Drop the connection of a peer that refused what was sent to it."""
        if self._transport.is_closing():
            return
        sock = self._transport.get_extra_info("socket")
        if sock is not None and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._transport.abort()

    def took_bytes(self) -> bool:
        """Whether it took anything of what waits for it since this was last asked."""
        before, self._stuck_bytes = self._stuck_bytes, self._transport.get_write_buffer_size()
        return self._stuck_bytes != before
