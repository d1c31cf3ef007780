"""An HTTP server on one address: what its connections share, behind a `Listener`."""

import functools

from naiad.core.clock import Clock
from naiad.protocol.http.message import AsgiApp, FastRoutes
from naiad.protocol.http.transport.connection import Connection
from naiad.protocol.http.transport.framing import ReplyFramer
from naiad.protocol.http.transport.head_cache import HeadCache
from naiad.protocol.http.transport.service import HttpService, HttpSettings
from naiad.protocol.observer import Observer
from naiad.protocol.transport.connection_registry import ConnectionRegistry
from naiad.protocol.transport.listener import Listener, ProtocolFactory
from naiad.protocol.transport.sockets import ListenAddress

_IDLE_S = 0.2
"""How long connections without a request take one while the listener closes: a request that its client sends as it learns that it is connected takes
a round trip, less than this between any two places."""


def http_listener(
    address: ListenAddress,
    *,
    routes: FastRoutes,
    app: AsgiApp,
    settings: HttpSettings,
    clock: Clock,
    observer: Observer | None = None,
) -> Listener:
    """An HTTP server: `routes` is the fast lane, `app` everything else. `observer` follows each request."""

    def protocol(registry: ConnectionRegistry) -> ProtocolFactory:
        service = HttpService(
            routes=routes,
            app=app,
            settings=settings,
            registry=registry,
            heads=HeadCache(
                routes, entries=settings.known_heads, entry_bytes=settings.known_head_bytes
            ),
            framer=ReplyFramer(join_bytes=settings.join_bytes),
            clock=clock,
            observer=observer,
        )
        return functools.partial(Connection, service)

    return Listener(address, settings=settings, protocol=protocol, idle_s=_IDLE_S)
