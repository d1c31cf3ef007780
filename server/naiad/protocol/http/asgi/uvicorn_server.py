"""HTTP by uvicorn (`--http-engine=uvicorn`): the ecosystem's reference server in front of the same application. A `Frontend`.

uvicorn reads and writes HTTP/1.1 with httptools; signals, logs and the process stay ours.
"""

import asyncio
import collections.abc
import contextlib
import logging
import socket

import uvicorn
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from naiad.core.timeouts import timeout
from naiad.protocol.http.asgi.fast_call import SPELLING
from naiad.protocol.http.asgi.middleware import CHUNKS, ChunkCount, RequestMiddleware
from naiad.protocol.http.transport.service import HttpSettings
from naiad.protocol.transport.listener import UNANSWERED_GRACE_S
from naiad.protocol.transport.sockets import ListenAddress

_POLL_S = 0.05
_MS = 1000


class _Protocol(HttpToolsProtocol):
    """uvicorn's connection, with what ASGI leaves out: the spelling of header names, how many chunks a body came in, and a time for the first request."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._chunks = ChunkCount()
        self.scope[CHUNKS] = self._chunks

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        lower = name.lower()
        if lower != name:
            self.scope.setdefault(SPELLING, {}).setdefault(lower, name)
        super().on_header(name, value)

    def on_chunk_header(self) -> None:
        """A callback of the parser."""
        self._chunks.count += 1


class UvicornServer:
    """uvicorn on one address.

    Args:
        app: the whole application.
        prepare: makes what it needs before its first request.
    """

    def __init__(
        self,
        address: ListenAddress,
        app: RequestMiddleware,
        *,
        settings: HttpSettings,
        prepare: collections.abc.Callable[[], collections.abc.Awaitable[object]],
    ) -> None:
        self._listen_address = address
        self._app = app
        self._settings = settings
        self._prepare = prepare
        self._bound: list[socket.socket] = []
        self._address: tuple[str, int] | None = None
        self._server: uvicorn.Server | None = None
        self._seen = 0

    @property
    def address(self) -> tuple[str, int]:
        """See `Frontend`."""
        if self._address is None:
            raise RuntimeError("the server has no address before it is reserved")
        return self._address

    async def reserve(self) -> None:
        """See `Frontend`."""
        settings = self._settings
        self._bound = await self._listen_address.bind(settings)
        for sock in self._bound:
            # uvicorn waits for ever for a client that reads nothing: here the kernel gives it up.
            stall_ms = int(settings.write_stall_timeout * _MS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, stall_ms)
        self._address = self._bound[0].getsockname()[:2]

    def announce(self, on_client: collections.abc.Callable[[], None]) -> None:
        """See `Frontend`: with each request."""
        self._app.on_begin = on_client

    async def start(self) -> None:
        """See `Frontend`."""
        if not self._bound:
            await self.reserve()
        await self._prepare()
        settings = self._settings
        config = uvicorn.Config(
            self._app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            backlog=settings.backlog,
            timeout_keep_alive=settings.keep_alive_timeout,  # the loop takes fractions
        )
        # What it says of malformed requests, one line each, clients could fill the log with.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        sockets, self._bound = self._bound, []
        self._listen_address.listen(sockets, settings.backlog)
        await server.startup(sockets=sockets)
        self._server = server

    def was_in_use(self) -> bool:
        """See `Frontend`."""
        before, self._seen = self._seen, self._app.begun
        server = self._server
        running = server is not None and bool(server.server_state.tasks)
        return running or self._seen != before

    def begin_drain(self) -> None:
        """See `Frontend`."""
        self._app.begin_drain()

    async def close(self, timeout: float) -> int:  # noqa: ASYNC109 - as in `Frontend`
        """See `Frontend`."""
        for sock in self._bound:
            sock.close()
        self._bound.clear()
        server = self._server  # it may be called again, after one that was cancelled
        if server is None:
            return 0
        self._app.begin_drain()
        for listening in server.servers:
            listening.close()
        state = server.server_state
        for connection in tuple(state.connections):
            connection.shutdown()
        await _empty(state, timeout)
        unfinished = len(state.connections)
        if unfinished:
            self._app.give_up()
            await _empty(state, UNANSWERED_GRACE_S)
            for connection in tuple(state.connections):
                connection.transport.abort()
            await _empty(state, UNANSWERED_GRACE_S)
        self._server = None
        return unfinished


async def _empty(state: uvicorn.server.ServerState, seconds: float) -> None:
    """Wait so long for the connections and tasks to end; uvicorn has no event for that."""
    with contextlib.suppress(TimeoutError):
        async with timeout(seconds):
            while state.connections or state.tasks:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(_POLL_S)
