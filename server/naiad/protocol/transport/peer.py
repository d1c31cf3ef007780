"""The other end of a connection: its address, whether it is still there, whether it reads what it is sent."""

import asyncio
import fcntl
import socket
import termios

_IPV4_AS_IPV6 = "::ffff:"
_PROBE_SECONDS = 0.02
"""How soon after a probe to check its result; peers further away are checked again at each tick."""


def as_ipv4(host: str) -> str:
    """An IPv4 address that a socket for both families sees as one of IPv6 (`::ffff:192.0.2.1`) as it is written; others unchanged."""
    return host.removeprefix(_IPV4_AS_IPV6) if "." in host else host


class Peer:
    """A client, seen through its socket.

    Attributes:
        since: when it last sent or was sent something (the registry's `now`): timeouts count from there.
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
        address = self._transport.get_extra_info(name)
        if not isinstance(address, tuple) or len(address) < 2:  # noqa: PLR2004 - host and port
            return None
        return as_ipv4(address[0]), address[1]

    def check_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Check whether the kernel of the client refuses what was just sent."""
        loop.call_later(_PROBE_SECONDS, self.abort_if_gone)

    def abort_if_gone(self) -> None:
        """Abort the connection if the kernel of the client refused what was sent."""
        if self._transport.is_closing():
            return
        sock = self._transport.get_extra_info("socket")
        if sock is not None and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._transport.abort()

    def is_stuck(self, now: float, limit: float) -> bool:
        """Whether it has read nothing of what waits for it for `limit` seconds. To be called at each tick."""
        unsent = self._transport.get_write_buffer_size()
        if unsent != self._stuck_bytes:
            self._stuck_bytes = unsent
            self._stuck_since = now
        return now - self._stuck_since >= limit

    def has_all(self) -> bool:
        """Whether its kernel has acknowledged all that was sent, the end of the connection included if that was, and nothing that came is unread.

        To close a socket in which something is unread resets the connection, which takes from the client what it has not read yet.
        """
        sock = self._transport.get_extra_info("socket")
        if sock is None or self._transport.get_write_buffer_size():
            return False
        unacknowledged, unread = bytearray(4), bytearray(4)
        try:
            fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, unacknowledged)
            fcntl.ioctl(sock.fileno(), termios.FIONREAD, unread)
        except (OSError, ValueError):  # it is closed
            return False
        return not (any(unacknowledged) or any(unread))

    def wait(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """The future that is done once it has read enough for the next write."""
        if self._drained is None:
            self._drained = loop.create_future()
        return self._drained

    def drained(self) -> None:
        """It has read enough, or has gone."""
        self._stuck_bytes = -1
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
