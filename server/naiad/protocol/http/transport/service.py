"""What all connections of a listener share, and how the head of a request decides what becomes of it."""

import msgspec

from naiad.core.clock import Clock
from naiad.protocol.http.access_log import AccessRecorder
from naiad.protocol.http.message import (
    AsgiApp,
    FastHandler,
    FastRoutes,
    HttpReply,
    HttpRequest,
    OnReply,
)
from naiad.protocol.http.transport.body import Body, ChunkedBody, LengthBody
from naiad.protocol.http.transport.framing import HttpError, ReplyFramer, too_large
from naiad.protocol.http.transport.head import CHUNKED, RequestHead
from naiad.protocol.http.transport.head_cache import HeadCache
from naiad.protocol.http.transport.settings import HttpSettings
from naiad.protocol.transport.connection_registry import ConnectionRegistry

_NOT_ADMITTED = frozenset((401, 403))
_OPTIONS = HttpReply(204, ((b"Allow", b"GET, HEAD, POST, OPTIONS"),), ())


def _options_of_server(request: HttpRequest, on_reply: OnReply) -> None:
    """`OPTIONS *` is a request to the server itself (RFC 9110 9.3.7)."""
    on_reply(_OPTIONS)


class HttpService(msgspec.Struct, frozen=True, kw_only=True):
    """The collaborators of the connections.

    Attributes:
        routes: the fast lane.
        app: everything else.
        settings: limits and timeouts.
        registry: the open connections, and the time.
        heads: header blocks seen before.
        framer: puts responses into bytes.
        clock: how long a connection has had the event loop in this iteration.
        recorder: gets every response for the access log; None when there is no such log.
    """

    routes: FastRoutes
    app: AsgiApp
    settings: HttpSettings
    registry: ConnectionRegistry
    heads: HeadCache
    framer: ReplyFramer
    clock: Clock
    recorder: AccessRecorder | None

    def find(self, head: RequestHead) -> FastHandler | None:
        """The handler of any request; None for the application."""
        if head.target == b"*" and head.method == b"OPTIONS":
            return _options_of_server
        return self.routes.find(head.method, head.path, head.headers)

    def waits(self, head: RequestHead, handler: FastHandler | None) -> bool:
        """Whether a request is begun only when all earlier ones have their responses."""
        return (
            handler is None
            or head.expects_continue
            or self.routes.may_stream(head.path, head.headers)
        )

    def refusal(self, head: RequestHead, *, may_stay: bool) -> HttpReply | None:
        """The error of a fast-lane request that its head alone decides, or None.

        Checked before the length of the body: a client without a token must not learn its limit. `may_stay`: the connection
        can be kept after the response.

        Raises:
            HttpError: with this response; the body is not worth skipping, so that the connection has to close.
        """
        refused = self.routes.refusal(head.method, head.path, head.headers)
        if refused is None or (may_stay and self._skips_body(head, refused)):
            return refused
        raise HttpError(refused.status, "", reply=refused)

    def body_of(self, head: RequestHead) -> Body:
        """The body that follows a head.

        Raises:
            HttpError: it is longer than allowed.
        """
        limit = self.routes.body_limit(head.path, head.headers)
        if head.length == CHUNKED:
            return ChunkedBody(limit=limit, max_chunks=self.settings.max_chunks)
        if head.length > limit:
            raise too_large(limit, size=head.length)
        return LengthBody(head.length)

    def _skips_body(self, head: RequestHead, refused: HttpReply) -> bool:
        """Whether to skip the body of a refused request rather than to close the connection.

        A wrong model name does not cost the connection. For a client without a token, only as much is skipped as a new
        connection would cost. Only bodies of known length are skipped: a client that waits for `100 Continue` sends none.
        """
        if head.length == CHUNKED or head.expects_continue or not head.keep_alive:
            return False
        return refused.status not in _NOT_ADMITTED or head.length <= self.settings.discard_bytes
