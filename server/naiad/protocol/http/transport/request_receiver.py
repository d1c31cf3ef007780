"""The receiving side of a connection: turns the bytes that were read into requests, one after the other.

After each request the connection decides whether the next may be taken; until then the bytes stay
here (one read of the socket at most, because the connection stops reading). It selects the handler of a request; the
connection calls it. No sockets, no time.
"""

import typing

from naiad.protocol.http.message import FastHandler, HttpReply, HttpRequest, OnReply
from naiad.protocol.http.transport.body import Body, ChunkedBody, LengthBody
from naiad.protocol.http.transport.bridge import AsgiExchange
from naiad.protocol.http.transport.exchange import WholeBody
from naiad.protocol.http.transport.framing import CONTINUE, HttpError, too_large
from naiad.protocol.http.transport.head import CHUNKED, RequestHead, find_end, glimpse
from naiad.protocol.http.transport.service import HttpService

_NOT_ADMITTED = frozenset((401, 403))
_OPTIONS = HttpReply(204, ((b"Allow", b"GET, HEAD, POST, OPTIONS"),), ())


def _options_of_server(request: HttpRequest, on_reply: OnReply) -> None:
    """`OPTIONS *` is a request to the server itself (RFC 9110 9.3.7)."""
    on_reply(_OPTIONS)


def _constant(reply: HttpReply) -> FastHandler:
    """A handler that always sends this reply."""

    def answer(request: HttpRequest, on_reply: OnReply) -> None:
        on_reply(reply)

    return answer


class ReceiverCallbacks(typing.Protocol):
    """The callbacks of the receiver to its connection.

    Attributes:
        resting: no more requests are taken in this iteration of the event loop.
    """

    resting: bool

    def unsent(self) -> int:
        """Reply bytes that were written and not sent yet."""
        ...

    def rest(self) -> None:
        """Take nothing more in this iteration of the event loop; call `take` in the next."""
        ...

    def may_take(self) -> bool:
        """Whether the next request may be begun now."""
        ...

    def is_clear(self) -> bool:
        """Whether all earlier requests have their replies; if not, `take` is called again when they have."""
        ...

    def is_last(self) -> None:
        """The client has requested that the connection closes after this request."""
        ...

    def dispatch(self, head: RequestHead, handler: FastHandler, body: bytes, now: int) -> None:
        """Call the handler of a complete request. `now` as in `Exchange.started_ns`."""
        ...

    def bridge(self, head: RequestHead) -> AsgiExchange:
        """Begin a request in the application."""
        ...

    def may_stay(self) -> bool:
        """Whether the connection can be kept after a reply that begins now."""
        ...

    def write(self, data: bytes) -> None:
        """Send bytes now."""
        ...

    def stamp(self) -> int:
        """Monotonic nanoseconds; 0 without an access log."""
        ...


class RequestReceiver:
    """The unused input of a connection, and the body that is being received.

    Args:
        service: routes, limits and known heads.
        callbacks: the connection.

    Attributes:
        unread: bytes after the last request that was begun.
        body: the body that is being received; None between requests.
        body_held: the application has enough of that body for now.
        owes_continue: the client waits for `100 Continue` before it sends that body.
        working: inside `take`, which must not be called again from there.
    """

    __slots__ = (
        "_callbacks",
        "_searched",
        "_service",
        "_sink",
        "body",
        "body_held",
        "owes_continue",
        "unread",
        "working",
    )

    def __init__(self, service: HttpService, callbacks: ReceiverCallbacks) -> None:
        self._service = service
        self._callbacks = callbacks
        self._sink: WholeBody | AsgiExchange | None = None
        self._searched = 0
        self.unread = b""
        self.body: Body | None = None
        self.body_held = False
        self.owes_continue = False
        self.working = False

    def add(self, data: bytes) -> None:
        """Add received bytes, for `take`."""
        self.unread = self.unread + data if self.unread else data

    def take(self) -> None:
        """Process the unread bytes, until the rest is incomplete or has to wait.

        Raises:
            HttpError: an invalid request; the rest of the input cannot be used.
        """
        data, at, self.working = self.unread, 0, True
        began_ns, begun, fed = self._service.clock.monotonic_ns(), False, False
        try:
            while at < len(data):
                if self.body is not None:
                    if fed and self._time_is_over(began_ns):
                        self._callbacks.rest()
                    if self._callbacks.resting:
                        break
                    at = self.body.take(data, at, self._feed)
                    fed = True
                    if self.body.done():
                        self._end_body()
                    continue
                before = at
                if begun and self._iteration_is_over(began_ns):
                    self._callbacks.rest()
                elif self._callbacks.may_take():
                    at = self._take_head(data, at)
                    begun = True
                if at == before:
                    break
            self.unread = data[at:] if at else data
        except Exception:
            self.unread = data[at:]
            raise
        finally:
            self.working = False

    def _iteration_is_over(self, began_ns: int) -> bool:
        unsent = self._callbacks.unsent()
        return unsent >= self._service.settings.turn_bytes or self._time_is_over(began_ns)

    def _time_is_over(self, began_ns: int) -> bool:
        elapsed_ns = self._service.clock.monotonic_ns() - began_ns
        return elapsed_ns >= self._service.settings.turn_seconds * 1e9

    def in_question(self) -> tuple[RequestHead, int]:
        """The request that is being received, as far as it is known, and its `Exchange.started_ns`, for the access log of an error."""
        if self._sink is not None:
            return self._sink.head, self._sink.started_ns
        return glimpse(self.unread), self._callbacks.stamp()

    def drop(self) -> None:
        """Drop all input: nothing more is read from this client."""
        self.unread = b""
        self.body = self._sink = None
        self.body_held = self.owes_continue = False

    def want_body(self) -> None:
        """The body is wanted: resume it, and send `100 Continue` if the client waits for it."""
        self.body_held = False
        if self.owes_continue:
            self.owes_continue = False
            self._callbacks.write(CONTINUE)

    def ignore_body(self) -> None:
        """The request has its reply: skip the rest of the body."""
        self._sink = None
        self.body_held = self.owes_continue = False

    def ignores_body(self) -> bool:
        """Whether the rest of a body is being skipped."""
        return self.body is not None and self._sink is None

    def small_rest(self) -> bool:
        """Whether the rest of the body is small enough to skip."""
        if self.body is None:
            return True
        left = self.body.left()
        return (
            left is not None
            and left <= self._service.settings.discard_bytes
            and not self.owes_continue
        )

    def waits_for_client(self, *, under_way: bool) -> bool:
        """Whether a request is incomplete that the client could continue."""
        if self.body is not None:
            return not (self.body_held or self.owes_continue)
        return bool(self.unread) and not under_way

    def overdue(self, waited: float) -> HttpError | None:
        """The error if the client sent nothing of a body for `waited` seconds, or began a head that long ago."""
        settings = self._service.settings
        if self.body is None:
            if waited >= settings.head_timeout:
                text = f"The request headers did not come within {settings.head_timeout:g} s."
                return HttpError(408, f"{text} Send the request again.")
        elif waited >= settings.body_idle_timeout:
            text = f"The request body stopped coming for {settings.body_idle_timeout:g} s."
            return HttpError(408, f"{text} Send the request again.")
        return None

    def _take_head(self, data: bytes, at: int) -> int:
        """Begin the request at `at`; return where the rest begins, or `at` when it has to wait."""
        if data.startswith(b"\r\n", at):
            return at + 2  # an empty line before a request is skipped (RFC 9112 2.2)
        if data.endswith(b"\r", at) and len(data) == at + 1:
            return at  # perhaps one of these
        service = self._service
        end = find_end(
            data,
            at,
            at + self._searched,
            max_head=service.settings.max_head_bytes,
            max_line=service.settings.max_line_bytes,
        )
        self._searched = len(data) - at if end < 0 else 0
        if end < 0:
            return at
        block = data[at:end]
        head = service.heads.known.get(block) or service.heads.read(block)[0]
        handler = service.routes.find(head.method, head.path, head.headers)
        if head.target == b"*" and head.method == b"OPTIONS":
            handler = _options_of_server
        waits = (
            handler is None
            or head.expects_continue
            or service.routes.may_stream(head.path, head.headers)
        )
        if waits and not self._callbacks.is_clear():
            return at
        if not head.keep_alive:
            self._callbacks.is_last()
        self._begin(head, handler, nothing_came=end == len(data))
        return end

    def _begin(self, head: RequestHead, handler: FastHandler | None, *, nothing_came: bool) -> None:
        """Take a request whose head is complete; `nothing_came` of its body yet."""
        if head.length:
            # The head is checked first: a client without a token must not learn the limit of the body.
            refused = None
            if handler is not None:
                refused = self._service.routes.refusal(head.method, head.path, head.headers)
            if refused is not None and not self._may_stay(head, refused):
                raise HttpError(refused.status, "", reply=refused)
            self.body = self._body_of(head)
            if refused is not None:
                self._callbacks.dispatch(head, _constant(refused), b"", self._callbacks.stamp())
                return
            self.owes_continue = head.expects_continue and nothing_came
        if handler is None:
            self._sink = self._callbacks.bridge(head)
        else:
            self._sink = WholeBody(head, handler, self._callbacks.stamp())
            if self.owes_continue:
                self.want_body()
        if self.body is None:
            self._end_body()

    def _may_stay(self, head: RequestHead, refused: HttpReply) -> bool:
        """Whether to skip the body of a refused request; if not, the connection closes after the reply.

        A wrong model name does not cost the connection. For a client without a token, only as much is skipped as a new
        connection would cost. Only bodies of known length are skipped: a client that waits for `100 Continue` sends none.
        """
        if head.length == CHUNKED or head.expects_continue or not head.keep_alive:
            return False
        if not self._callbacks.may_stay():
            return False
        return (
            refused.status not in _NOT_ADMITTED
            or head.length <= self._service.settings.discard_bytes
        )

    def _body_of(self, head: RequestHead) -> Body:
        limit = self._service.routes.body_limit(head.path, head.headers)
        if head.length == CHUNKED:
            return ChunkedBody(limit=limit, max_chunks=self._service.settings.max_chunks)
        if head.length > limit:
            raise too_large(limit, size=head.length)
        return LengthBody(head.length)

    def _feed(self, piece: bytes) -> None:
        self.owes_continue = False
        if self._sink is not None:
            self._sink.feed(piece)

    def _end_body(self) -> None:
        sink, self._sink, self.body, self.body_held = self._sink, None, None, False
        if isinstance(sink, WholeBody):
            self._callbacks.dispatch(sink.head, sink.handler, sink.whole(), sink.started_ns)
        elif sink is not None:
            sink.end()
