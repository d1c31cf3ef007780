"""What all connections of a listener share: limits and timeouts, the access log, and how the head of a request decides what becomes of it."""

import msgspec

from naiad.core.clock import Clock
from naiad.core.inference import RequestContext
from naiad.protocol.http.message import (
    AsgiApp,
    FastHandler,
    FastRoutes,
    HttpReply,
    HttpRequest,
    OnReply,
)
from naiad.protocol.http.transport.body import Body, ChunkedBody, LengthBody
from naiad.protocol.http.transport.framing import HttpError, ReplyFramer
from naiad.protocol.http.transport.head import CHUNKED, RequestHead
from naiad.protocol.http.transport.head_cache import HeadCache
from naiad.protocol.observer import Ended, Observer
from naiad.protocol.transport.connection_registry import ConnectionRegistry
from naiad.protocol.transport.sockets import TransportSettings, written

_NOT_ADMITTED = frozenset((401, 403))
_OPTIONS = HttpReply(204, ((b"Allow", b"GET, HEAD, POST, OPTIONS"),), ())


def _options_of_server(request: HttpRequest, on_reply: OnReply) -> None:
    """`OPTIONS *` is a request to the server itself (RFC 9110 9.3.7)."""
    on_reply(_OPTIONS)


class HttpSettings(TransportSettings, frozen=True, kw_only=True):
    """The limits and timeouts of every HTTP connection, each with its default and the reason for it. Times are seconds.

    Attributes:
        keep_alive_timeout: how long a connection may stay without a request before it is closed. Longer than the 60 s
            after which common load balancers drop theirs, so that the server is not the first to close.
        head_timeout: from the first byte of a request to the end of its headers; a total, so that a byte now and then does
            not hold a connection for ever. Then 408.
        body_idle_timeout: how long a body may stay without a byte. Then 408.
        max_head_bytes: request line and headers together; more is 431.
        max_line_bytes: the request line; more is 414. Model names and versions need less than 1 KiB.
        max_chunks: transfer chunks of one body; more is 400 (row 1.13: exactly the maximum passes).
        max_pipelined: requests of one connection that may wait for their responses; the next is not read before one of them is sent.
        max_unanswered: how many of these may be without a response. How large it gets is not known before, and a client that does not read holds it.
        held_bytes: bytes of finished responses that may wait for an earlier one, above which the next request is not read; each request without
            one counts as much as the largest response that waited so far.
        iteration_seconds: after so long a connection that has further requests waiting lets others have the event loop, and continues in
            the next iteration of the loop. Each iteration takes one request at least.
        iteration_bytes: the same after so many unsent reply bytes.
        body_high_bytes: body bytes that the ASGI application has not taken, above which reading stops.
        discard_bytes: how much of a body that no handler wants may be left if the connection is to be kept: reading so little is
            cheaper than a new connection.
        join_bytes: replies up to this size are joined and written at once; larger parts are handed over as they are.
        direct_bytes: bodies with tensors of at least so many bytes are received into shared memory (`direct_body.py`), without a copy.
        known_heads: how many header blocks are remembered in parsed form (they repeat); 0 switches it off.
        known_head_bytes: longer header blocks are not remembered.
    """

    keep_alive_timeout: float = 75.0
    head_timeout: float = 30.0
    body_idle_timeout: float = 60.0
    max_head_bytes: int = 65536
    max_line_bytes: int = 16384
    max_chunks: int = 65536
    max_pipelined: int = 64
    max_unanswered: int = 4
    held_bytes: int = 1 << 22
    iteration_seconds: float = 0.002
    iteration_bytes: int = 65536
    body_high_bytes: int = 262144
    discard_bytes: int = 65536
    join_bytes: int = 65536
    direct_bytes: int = 1 << 19
    known_heads: int = 1024
    known_head_bytes: int = 2048


def ended(
    head: RequestHead, peer: tuple[str, int] | None, reply: HttpReply, context: RequestContext
) -> Ended:
    """A request that got its response."""
    context.request_id = reply.request_id
    return Ended(
        "http",
        written(*peer) if peer else "",
        "HEAD" if head.head_only else head.method.decode("latin-1"),
        head.target.decode("latin-1"),
        reply.status,
        context,
    )


class HttpService(msgspec.Struct, frozen=True, kw_only=True):
    """The collaborators of the connections."""

    routes: FastRoutes
    app: AsgiApp
    settings: HttpSettings
    registry: ConnectionRegistry
    heads: HeadCache
    framer: ReplyFramer
    clock: Clock
    observer: Observer | None

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
        routes = self.routes
        limit = routes.body_limit(head.path, head.headers)
        if head.length == CHUNKED:
            message = routes.too_large(head.path, head.headers, None)
            return ChunkedBody(limit=limit, max_chunks=self.settings.max_chunks, too_large=message)
        if head.length > limit:
            raise HttpError(400, routes.too_large(head.path, head.headers, head.length))
        return LengthBody(head.length)

    def _skips_body(self, head: RequestHead, refused: HttpReply) -> bool:
        """Whether to skip the body of a refused request rather than to close the connection.

        A wrong model name does not cost the connection. For a client without a token, only as much is skipped as a new
        connection would cost. Only bodies of known length are skipped, none beyond its limit: a client that waits for `100 Continue` sends none.
        """
        if head.length == CHUNKED or head.expects_continue or not head.keep_alive:
            return False
        limit = self.routes.body_limit(head.path, head.headers)
        if refused.status in _NOT_ADMITTED:
            limit = min(limit, self.settings.discard_bytes)
        return head.length <= limit
