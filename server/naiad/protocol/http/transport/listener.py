"""Opens the listening sockets, makes a connection for each client, and closes in order.

The order of a shutdown: `begin_drain` (still accepting; replies say Connection: close), then `close` (no more
clients; idle connections close at once; what is under way is finished, within a timeout; what is not is answered with 503).
"""

import asyncio
import contextlib
import errno
import socket

from naiad.core.clock import Clock
from naiad.protocol.access_log import AccessLog
from naiad.protocol.http.access_log import AccessRecorder
from naiad.protocol.http.message import AsgiApp, FastRoutes
from naiad.protocol.http.replies import error_reply
from naiad.protocol.http.transport.connection import Connection
from naiad.protocol.http.transport.connection_registry import ConnectionRegistry
from naiad.protocol.http.transport.framing import HttpError, ReplyFramer
from naiad.protocol.http.transport.head_cache import HeadCache
from naiad.protocol.http.transport.service import HttpService
from naiad.protocol.http.transport.settings import HttpSettings
from naiad.protocol.status import http_status
from naiad.protocol.unanswered import LAST_WORDS_S, UNANSWERED

_UNANSWERED = HttpError(
    http_status(UNANSWERED.code), UNANSWERED.message, reply=error_reply(UNANSWERED)
)


class ListenError(Exception):
    """An address cannot be listened on; the message says which option to change."""


class HttpListener:
    """An HTTP server on one address.

    Args:
        host: address or name to listen on; a name with several addresses is listened on at each. "" means all of them.
        port: TCP port; 0 takes a free one (`address` tells which).
        routes: the fast lane.
        app: everything else.
        settings: limits and times.
        clock: for the access log, and for how long a connection has had the event loop.
        access_log: gets an entry a reply; None switches it off.
        reuse_port: let several processes listen on the same port (row 1.23).
        port_option: what the user calls the port, for messages, e.g. "--http-port".
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        routes: FastRoutes,
        app: AsgiApp,
        settings: HttpSettings,
        clock: Clock,
        access_log: AccessLog | None = None,
        reuse_port: bool = False,
        port_option: str = "--http-port",
    ) -> None:
        self._host = host
        self._port = port
        self._routes = routes
        self._app = app
        self._settings = settings
        self._clock = clock
        self._access_log = access_log
        self._reuse_port = reuse_port
        self._port_option = port_option
        self._servers: list[asyncio.Server] = []
        self._reserved: list[socket.socket] = []
        self._address: tuple[str, int] | None = None
        self._registry: ConnectionRegistry | None = None

    async def reserve(self) -> None:
        """Take the address, so that nobody else can, and accept nobody yet: clients are refused until `start`.

        Raises:
            ListenError: the address is taken, unknown or not allowed.
        """
        self._reserved = await self._open_sockets(asyncio.get_running_loop())
        self._address = self._reserved[0].getsockname()[:2]

    async def start(self) -> None:
        """Listen and serve; takes the address first when `reserve` did not.

        Raises:
            ListenError: as `reserve`.
        """
        loop = asyncio.get_running_loop()
        settings = self._settings
        if not self._reserved:
            await self.reserve()
        sockets, self._reserved = self._reserved, []
        self._registry = ConnectionRegistry(loop, tick=settings.tick)
        service = HttpService(
            routes=self._routes,
            app=self._app,
            settings=settings,
            registry=self._registry,
            heads=HeadCache(entries=settings.known_heads, entry_bytes=settings.known_head_bytes),
            framer=ReplyFramer(join_bytes=settings.join_bytes),
            clock=self._clock,
            recorder=(
                None
                if self._access_log is None
                else AccessRecorder(self._access_log, clock=self._clock)
            ),
        )
        try:
            for sock in sockets:
                sock.listen(settings.backlog)  # here, because uvloop swallows what goes wrong
        except OSError as error:  # another process that had only reserved it as well was faster
            for sock in sockets:
                sock.close()
            raise self._explained(error) from None
        for sock in sockets:
            server = await loop.create_server(
                lambda: Connection(service), sock=sock, backlog=settings.backlog
            )
            self._servers.append(server)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens on (the first, when there are several).

        Raises:
            RuntimeError: it was not started.
        """
        if self._address is None:
            raise RuntimeError("the listener was not started")
        return self._address

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return 0 if self._registry is None else len(self._registry)

    def begin_drain(self, *, close_idle: bool = True) -> None:
        """Go on accepting and answering, but close each connection after its next reply.

        Args:
            close_idle: close connections without a request at once. A client may be sending just then and will have to
                repeat its request: pass False while others may still route here, `close` closes them later.
        """
        if self._registry is not None:
            self._registry.draining = True
            for connection in self._registry.connections():
                connection.drain(close_idle=close_idle)

    async def close(self, timeout: float) -> int:  # noqa: ASYNC109 - it bounds the clients, then acts; not a deadline to raise at
        """Accept no more, close what is idle, finish what is under way.

        Args:
            timeout: seconds for what is under way. Who has no reply by then gets an error; a reply that has begun is cut.

        Returns:
            How many connections were not finished.
        """
        for server in self._servers:
            server.close()
        self._servers.clear()
        for sock in self._reserved:
            sock.close()
        self._reserved.clear()
        registry = self._registry
        if registry is None:
            return 0
        self.begin_drain()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(registry.empty(), timeout)
        left = registry.connections()
        for connection in left:
            connection.fail(_UNANSWERED)
        if left:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(registry.empty(), LAST_WORDS_S)
            for connection in registry.connections():
                connection.cut()
            await registry.empty()
        return len(left)

    async def _open_sockets(self, loop: asyncio.AbstractEventLoop) -> list[socket.socket]:
        """Sockets bound to every address of the host; all or none."""
        try:
            found = await loop.getaddrinfo(
                self._host or None, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        except socket.gaierror as error:
            raise ListenError(
                f"{self._host!r} is not an address to listen on ({error.strerror}). "
                "Give an address of this machine, or 0.0.0.0 for all."
            ) from None
        sockets: list[socket.socket] = []
        port = self._port
        try:
            for family, kind, protocol, _, where in dict.fromkeys(found):
                sock = socket.socket(family, kind, protocol)
                sockets.append(sock)
                self._prepare(sock)
                sock.bind((where[0], port, *where[2:]))
                port = sock.getsockname()[1]  # port 0: the same free port for all addresses
        except OSError as error:
            for sock in sockets:
                sock.close()
            raise self._explained(error) from None
        return sockets

    def _prepare(self, sock: socket.socket) -> None:
        """Options that accepted sockets inherit."""
        settings = self._settings
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, settings.probe_idle)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, settings.probe_interval)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, settings.probe_count)
        sock.setblocking(False)

    def _explained(self, error: OSError) -> ListenError:
        where = f"{self._host or '*'}:{self._port}"
        if error.errno == errno.EADDRINUSE:
            return ListenError(
                f"{where} is in use by another process. Choose another port with {self._port_option}, or stop "
                "that process; two servers share a port only if both ask for it (--reuse-http-port=true)."
            )
        if error.errno == errno.EACCES:
            return ListenError(
                f"{where} is not allowed for this user. Choose a port above 1023 with {self._port_option}."
            )
        return ListenError(
            f"{where} cannot be listened on ({error.strerror}). Give an address of this machine and a free port with {self._port_option}."
        )
