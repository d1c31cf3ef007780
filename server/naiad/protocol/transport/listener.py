"""Accepts connections on one address and closes them in order, whatever protocol they carry.

The order of a shutdown: `begin_drain` (still accepting; responses announce the close), then `close` (the clients that wait in the kernel, and no
more; connections without a request close once none has come for a moment; requests in progress are finished, within a timeout; the rest get `UNANSWERED`).
"""

import asyncio
import collections.abc
import contextlib
import functools
import itertools
import socket
import ssl

from naiad.errors import unavailable
from naiad.protocol.transport.connection_registry import ConnectionRegistry
from naiad.protocol.transport.frontend import unheard
from naiad.protocol.transport.sockets import ListenAddress, TransportSettings

UNANSWERED = unavailable(
    "Server exiting: its exit timeout (--exit-timeout-secs) was over before this request had its answer. Send it to another server"
)
"""The response to each request that has none when the server exits all the same, over HTTP and gRPC alike (rows 1.19, 17.14)."""

UNANSWERED_GRACE_S = 0.5
"""How long clients have to read that before their connections are aborted."""

_AT_ONCE = 4
"""Clients that one wake-up of the loop takes: uvloop takes one from each socket, so there are as many for the same queue. Where four or eight clients connect at a
time, that saves a sixth of a connection's processor time; a client that comes alone costs 1 µs more for each."""

_ITERATIONS = 8
"""Of the loop, in which no client must have come until all are taken over that the kernel has accepted: uvloop needs two, asyncio's own six."""

_TAKEN_S = 1.0
"""How long it does so at most: clients that connect for each request may come in every iteration, and those that waited first have long been taken."""

_SECURE_S = 1.0
"""How long a client that was accepted just then may take to secure its connection."""

_POLL_S = 0.02
"""How often connections that have sent everything are asked whether their clients have it."""

ProtocolFactory = collections.abc.Callable[[], asyncio.Protocol]


class Listener:
    """A server on one address; a `Frontend`.

    Args:
        tls: what connections are secured by; None for plain ones.
        protocol: called once at the start; gives what makes the connection of an accepted socket, which adds itself to the registry.
        idle_s: seconds for which `close` goes on taking requests on connections that have none.
    """

    def __init__(
        self,
        address: ListenAddress,
        *,
        settings: TransportSettings,
        protocol: collections.abc.Callable[[ConnectionRegistry], ProtocolFactory],
        tls: ssl.SSLContext | None = None,
        idle_s: float = 0.0,
    ) -> None:
        self._listen_address = address
        self._settings = settings
        self._protocol = protocol
        self._tls = tls
        self._idle_s = idle_s
        self._servers: list[asyncio.Server] = []
        self._bound: list[socket.socket] = []
        self._address: tuple[str, int] | None = None
        self._registry: ConnectionRegistry | None = None
        self._seen = 0
        self._on_client: collections.abc.Callable[[], None] = unheard

    async def reserve(self) -> None:
        """Bind the address, so that no other process can, and accept no client yet: clients are refused until `start`.

        Raises:
            ListenError: the address is taken, unknown or not allowed.
        """
        self._bound = await self._listen_address.bind(self._settings)
        self._address = self._bound[0].getsockname()[:2]

    def listen(self) -> None:
        """Let the kernel accept clients, which wait for `start`. After `reserve`.

        Raises:
            ListenError: as `reserve`.
        """
        self._listen_address.listen(self._bound, self._settings.backlog)

    def announce(self, on_client: collections.abc.Callable[[], None]) -> None:
        """See `Frontend`: with each connection, and with the first request on one that was idle."""
        self._on_client = on_client

    async def start(self) -> None:
        """Listen and serve; binds the address first if `reserve` did not.

        Raises:
            ListenError: as `reserve`.
        """
        loop, settings = asyncio.get_running_loop(), self._settings
        if not self._bound:
            await self.reserve()
        sockets, self._bound = self._bound, []
        self._registry = ConnectionRegistry(loop, tick=settings.tick)
        self._registry.on_arrival = self._on_client
        factory = self._protocol(self._registry)
        if self._tls is not None:
            factory = functools.partial(_expected, factory, self._registry)
        self._listen_address.listen(sockets, settings.backlog)
        for sock in sockets:
            for each in (sock, *(sock.dup() for _ in range(_AT_ONCE - 1))):
                server = await loop.create_server(
                    factory, sock=each, backlog=settings.backlog, ssl=self._tls
                )
                self._servers.append(server)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens on (the first, if there are several).

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

    def was_in_use(self) -> bool:
        """See `Frontend`."""
        registry, before = self._registry, self._seen
        if registry is None:
            return False
        self._seen = registry.arrivals
        return registry.awake > 0 or registry.arrivals != before

    def begin_drain(self, *, close_idle: bool = False) -> None:
        """Go on accepting and responding, but close each connection after its next response.

        Args:
            close_idle: close connections without a request now. A client may be sending just then and will have to
                repeat its request; `close` closes them in any case.
        """
        if self._registry is not None:
            self._registry.draining = True
            for connection in self._registry.connections():
                connection.drain(close_idle=close_idle)

    def stop_accepting(self) -> None:
        """Accept no more clients. Idempotent."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for sock in self._bound:
            sock.close()
        self._bound.clear()

    async def take_waiting(self, seconds: float) -> None:
        """Make connections of the clients that the kernel has accepted, then accept no more; at most some `seconds`. Idempotent."""
        registry = self._registry
        if not self._servers or registry is None:
            self.stop_accepting()
            return
        # After a stall of the loop the timer that ends the drain is first, and clients that have connected meanwhile would be reset with the port.
        await _all_accepted(registry, min(_TAKEN_S, seconds))
        self.stop_accepting()
        if self._tls is not None:
            limit = min(_SECURE_S, seconds)
            until = registry.loop.time() + limit
            while registry.expects(limit) and registry.loop.time() < until:  # noqa: ASYNC110 - nothing tells of a client that gives up
                await asyncio.sleep(_POLL_S)

    async def close(self, timeout: float) -> int:  # noqa: ASYNC109 - it bounds the clients, then acts; not a deadline to raise at
        """Take over the clients that wait and accept no more, close idle connections, finish the requests in progress.

        The first request of a client that has just connected, and the next one of a client that does not know of the stop, may be on its way: so an idle
        connection takes one for a moment. The sending side ends first, the connection once the client has taken note of that (RFC 9112, section 9.6).

        Args:
            timeout: seconds for the requests in progress. Those without a response by then get `UNANSWERED`; a response that has
                begun is cut.

        Returns:
            How many connections were not finished.
        """
        give_up_at = asyncio.get_running_loop().time() + max(timeout, 0.0)
        self.begin_drain()
        await self.take_waiting(max(timeout, 0.0) / 4)
        registry = self._registry
        if registry is None:
            return 0
        await _emptied(registry, min(self._idle_s, max(timeout, 0.0) / 2))
        self.begin_drain(close_idle=True)
        await _emptied(registry, give_up_at - registry.loop.time())
        unfinished = registry.connections()
        for connection in unfinished:
            connection.give_up()
        if unfinished:
            await _emptied(registry, UNANSWERED_GRACE_S)
            for connection in registry.connections():
                connection.cut()
            await registry.empty()
        return len(unfinished)


def _expected(factory: ProtocolFactory, registry: ConnectionRegistry) -> asyncio.Protocol:
    """The connection of an accepted socket that is to be secured first."""
    connection = factory()
    registry.expect(connection)
    return connection


async def _all_accepted(registry: ConnectionRegistry, seconds: float) -> None:
    """Wait until the loop has taken over each client that the kernel has accepted, `seconds` at most where more and more come."""
    until, quiet, before = registry.loop.time() + seconds, 0, registry.accepted
    for iteration in itertools.count(1):
        await asyncio.sleep(0)
        quiet = quiet + 1 if registry.accepted == before else 0
        before = registry.accepted
        late = iteration >= _ITERATIONS and registry.loop.time() >= until
        if quiet == _ITERATIONS or late:
            return


async def _emptied(registry: ConnectionRegistry, seconds: float) -> None:
    """Wait until every connection is closed, `seconds` at most; those whose clients have everything close."""
    until = registry.loop.time() + seconds
    while (left := until - registry.loop.time()) > 0:
        registry.check()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(registry.empty(), min(left, _POLL_S))
            return
