"""What all connections of a listener share."""

import msgspec

from naiad.core.clock import Clock
from naiad.protocol.http.access_log import AccessRecorder
from naiad.protocol.http.message import FastHandler, FastRoutes
from naiad.protocol.http.transport.bridge import AsgiApp
from naiad.protocol.http.transport.connection_registry import ConnectionRegistry
from naiad.protocol.http.transport.framing import ReplyFramer
from naiad.protocol.http.transport.head import RequestHead
from naiad.protocol.http.transport.head_cache import HeadCache
from naiad.protocol.http.transport.settings import HttpSettings


class HttpService(msgspec.Struct, frozen=True, kw_only=True):
    """One server's worth of collaborators.

    Attributes:
        routes: the fast lane.
        app: everything else.
        settings: limits and times.
        registry: who is connected, and the time.
        heads: header blocks seen before.
        framer: puts replies into bytes.
        clock: how long a connection has had the event loop in this turn.
        recorder: gets every reply for the access log; None when there is no such log.
    """

    routes: FastRoutes
    app: AsgiApp
    settings: HttpSettings
    registry: ConnectionRegistry
    heads: HeadCache
    framer: ReplyFramer
    clock: Clock
    recorder: AccessRecorder | None

    def handler_of(self, head: RequestHead) -> FastHandler | None:
        """Who answers a plain request in the fast lane; None when the receiver has to process it. Said once for each head."""
        try:
            handler = self.routes.find(head.method, head.path, head.headers)
            if handler is not None and self.routes.may_stream(head.path, head.headers):
                return None
            if head.length and head.length > self.routes.body_limit(head.path, head.headers):
                return None
        except Exception:  # noqa: BLE001 - the receiver gets it as well, logs it and responds
            return None
        if handler is not None:
            self.heads.keep_handler(head, handler)
        return handler
