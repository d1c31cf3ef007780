"""Listening sockets and their settings, and what to do about an address that cannot be listened on."""

import asyncio
import contextlib
import errno
import socket

import msgspec


class TransportSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The limits and timeouts (seconds) of connections, whatever protocol they carry, each with its default and the reason for it.

    Attributes:
        write_stall_timeout: how long a client may read nothing of a response that waits for it. Then the connection is aborted.
        linger_timeout: how long to go on reading, and dropping, what a refused client still sends. If the socket were closed at once,
            the kernel would answer those bytes with a reset that destroys the response which says what was wrong.
        tick: how often the timeouts are checked.
        write_high_bytes: unsent response bytes of a connection above which no further request is taken from it.
        backlog: connections that the kernel may hold before they are accepted.
        probe_idle: SO_KEEPALIVE finds peers that vanished without a word: first probe after so many seconds,
        probe_interval: the next ones after so many seconds,
        probe_count: and the connection is lost after so many without an answer.
    """

    write_stall_timeout: float = 60.0
    linger_timeout: float = 5.0
    tick: float = 1.0
    write_high_bytes: int = 262144
    backlog: int = 2048
    probe_idle: int = 60
    probe_interval: int = 15
    probe_count: int = 4


class ListenError(Exception):
    """An address cannot be listened on; the message says which option to change."""


_EVERY_ADDRESS = ("", "::")
_EVERY_IPV4 = "0.0.0.0"  # noqa: S104 - compared, or for a machine without IPv6
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


class ListenAddress:
    """An address to listen on.

    Args:
        host: address or name, an IPv6 address without brackets and perhaps with a scope (`fe80::1%eth0`). A name with several addresses stands for
            each of them, `::` and "" for all of the machine, IPv4 and IPv6, whatever `net.ipv6.bindv6only` says; IPv4 alone where IPv6 is off.
        port: TCP port; 0 takes a free one.
        port_option: the option that sets the port, for messages, e.g. "--http-port".
        as_grpc: with grpc's meaning of two hosts, which clients on IPv6 rely on: `0.0.0.0` is all of the machine as `::` is, and `localhost` is both
            loopbacks, each as far as the machine has IPv6 and the port is free there.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        port_option: str,
        reuse_port: bool = False,
        reuse_option: str = "",
        as_grpc: bool = False,
    ) -> None:
        self._host = host
        self._as_grpc = as_grpc
        self._port = port
        self._reuse_port = reuse_port
        self._port_option = port_option
        self._reuse_option = reuse_option

    async def bind(self, settings: TransportSettings) -> list[socket.socket]:
        """Sockets bound to every address of the host; all or none. They do not listen yet.

        Raises:
            ListenError: an address is taken, unknown or not allowed.
        """
        if self._as_grpc and self._host == "localhost":
            return await self._bind_loopbacks(settings)
        every_ipv4 = self._as_grpc and self._host == _EVERY_IPV4
        if not every_ipv4 and self._host not in _EVERY_ADDRESS:
            return await self._bind(self._host, settings)
        try:
            return await self._bind("::", settings)
        except ListenError as error:
            if every_ipv4 or _is_without_ipv6(error):
                return await self._bind(_EVERY_IPV4, settings)
            raise

    async def _bind_loopbacks(self, settings: TransportSettings) -> list[socket.socket]:
        sockets = await self._bind(self._host, settings)
        if all(sock.family == socket.AF_INET for sock in sockets):
            port = sockets[0].getsockname()[1]
            with contextlib.suppress(ListenError):
                sockets += await self._bind("::1", settings, port)
        return sockets

    async def _bind(
        self, host: str, settings: TransportSettings, port: int | None = None
    ) -> list[socket.socket]:
        loop = asyncio.get_running_loop()
        try:
            infos = await loop.getaddrinfo(
                host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        except socket.gaierror as error:
            raise ListenError(
                f"{host!r} is not an address to listen on ({error.strerror}). "
                "Give an address of this machine, or one for all: 0.0.0.0 for IPv4, :: for IPv4 and IPv6."
            ) from None
        sockets: list[socket.socket] = []
        port = self._port if port is None else port
        try:
            for family, kind, protocol, _, address in dict.fromkeys(infos):
                sock = socket.socket(family, kind, protocol)
                sockets.append(sock)
                self._prepare(sock, settings, dual=address[0] == "::")
                sock.bind((address[0], port, *address[2:]))
                port = sock.getsockname()[1]  # port 0: the same free port for all addresses
        except OSError as error:
            raise self._closed(sockets, error) from error
        return sockets

    def listen(self, sockets: list[socket.socket], backlog: int) -> None:
        """Let clients connect; without this uvloop would swallow what goes wrong.

        Raises:
            ListenError: another process that had bound the address as well listens already. All sockets are closed then.
        """
        try:
            for sock in sockets:
                sock.listen(backlog)
        except OSError as error:
            raise self._closed(sockets, error) from None

    def _prepare(self, sock: socket.socket, settings: TransportSettings, *, dual: bool) -> None:
        """Options that accepted sockets inherit."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not dual)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, settings.probe_idle)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, settings.probe_interval)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, settings.probe_count)
        sock.setblocking(False)

    def _closed(self, sockets: list[socket.socket], error: OSError) -> ListenError:
        for sock in sockets:
            sock.close()
        where = written(self._host or "*", self._port)
        if error.errno == errno.EADDRINUSE:
            share = "two servers share a port only if both ask for it"
            return ListenError(
                f"{where} is in use by another process. Choose another port with {self._port_option}, or stop that process"
                + (f"; {share} ({self._reuse_option}=true)." if self._reuse_option else ".")
            )
        if error.errno == errno.EACCES:
            return ListenError(
                f"{where} is not allowed for this user. Choose a port above 1023 with {self._port_option}."
            )
        return ListenError(
            f"{where} cannot be listened on ({error.strerror}). Give an address of this machine and a free port with {self._port_option}."
        )


def _is_without_ipv6(error: ListenError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in _NO_IPV6


def written(host: str, port: int) -> str:
    """Host and port in one, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bind_error(host: str, port: int) -> str:
    """What the kernel says to an address that another library could not listen on; "" if it has no objection."""
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        ):
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                probe.listen()
    except OSError as error:
        return error.strerror or str(error)
    return ""
