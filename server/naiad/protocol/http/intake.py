"""The receiving side of a connection: from what was read to requests that are begun, one after the other.

It stops at the end of each request and asks the connection whether the next may be taken; until then the bytes stay
here (one read of the socket at most, since the connection stops reading). It decides who answers a request; the
connection carries that out. No sockets, no time.
"""

import typing

from naiad.protocol.http.body import Body, ChunkedBody, LengthBody
from naiad.protocol.http.bridge import AsgiExchange
from naiad.protocol.http.exchange import WholeBody
from naiad.protocol.http.framing import CONTINUE, Refusal, too_large
from naiad.protocol.http.head import CHUNKED, RequestHead, find_end, glimpse
from naiad.protocol.http.message import FastHandler, HttpReply, HttpRequest, OnReply
from naiad.protocol.http.service import HttpService

_NOT_ADMITTED = frozenset((401, 403))
_OPTIONS = HttpReply(204, ((b"Allow", b"GET, HEAD, POST, OPTIONS"),), ())


def _options_of_server(request: HttpRequest, on_reply: OnReply) -> None:
    """`OPTIONS *` asks the server itself (RFC 9110 9.3.7)."""
    on_reply(_OPTIONS)


def _constant(reply: HttpReply) -> FastHandler:
    """A handler that gives this reply."""

    def answer(request: HttpRequest, on_reply: OnReply) -> None:
        on_reply(reply)

    return answer


class Desk(typing.Protocol):
    """What the intake asks of its connection.

    Attributes:
        resting: nothing more is taken in this turn of the event loop.
    """

    resting: bool

    def unsent(self) -> int:
        """Reply bytes that were written and not sent yet."""
        ...

    def rest(self) -> None:
        """Nothing more in this turn of the event loop; `take` again in the next."""
        ...

    def may_take(self) -> bool:
        """Whether the next request may be begun now."""
        ...

    def is_clear(self) -> bool:
        """Whether every request before has its reply; if not, the next is asked about again when they have."""
        ...

    def is_last(self) -> None:
        """The client wants the connection closed after the request that is taken now."""
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
        """Monotonic nanoseconds, 0 when nobody needs them."""
        ...


class Intake:
    """What was read and is not used up, and the body under way.

    Args:
        service: routes, limits and known heads.
        desk: the connection.

    Attributes:
        unread: bytes that belong to no request that was begun.
        body: the body under way; None between requests.
        body_held: the application has enough of that body for now.
        owes_continue: the client waits for `100 Continue` before it sends that body.
        working: inside `take`: who is called from there must not enter it again.
    """

    __slots__ = (
        "_desk",
        "_searched",
        "_service",
        "_sink",
        "body",
        "body_held",
        "owes_continue",
        "unread",
        "working",
    )

    def __init__(self, service: HttpService, desk: Desk) -> None:
        self._service = service
        self._desk = desk
        self._sink: WholeBody | AsgiExchange | None = None
        self._searched = 0
        self.unread = b""
        self.body: Body | None = None
        self.body_held = False
        self.owes_continue = False
        self.working = False

    def add(self, data: bytes) -> None:
        """Bytes came; `take` uses them."""
        self.unread = self.unread + data if self.unread else data

    def take(self) -> None:
        """Use up what is unread, until the rest is incomplete or has to wait.

        Raises:
            Refusal: the client sent what cannot be served; the input is unusable from here on.
        """
        data, at, self.working = self.unread, 0, True
        began_ns, begun, fed = self._service.clock.monotonic_ns(), False, False
        try:
            while at < len(data):
                if self.body is not None:
                    if fed and self._time_is_over(began_ns):
                        self._desk.rest()
                    if self._desk.resting:
                        break
                    at = self.body.take(data, at, self._feed)
                    fed = True
                    if self.body.done():
                        self._end_body()
                    continue
                before = at
                if begun and self._turn_is_over(began_ns):
                    self._desk.rest()
                elif self._desk.may_take():
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

    def _turn_is_over(self, began_ns: int) -> bool:
        unsent = self._desk.unsent()
        return unsent >= self._service.settings.turn_bytes or self._time_is_over(began_ns)

    def _time_is_over(self, began_ns: int) -> bool:
        elapsed_ns = self._service.clock.monotonic_ns() - began_ns
        return elapsed_ns >= self._service.settings.turn_seconds * 1e9

    def in_question(self) -> tuple[RequestHead, int]:
        """The request that is being taken, as far as it is known, and when it began (as `Exchange.started_ns`): for the log of a refusal."""
        if self._sink is not None:
            return self._sink.head, self._sink.started_ns
        return glimpse(self.unread), self._desk.stamp()

    def drop(self) -> None:
        """Forget everything: nothing more is taken from this client."""
        self.unread = b""
        self.body = self._sink = None
        self.body_held = self.owes_continue = False

    def want_body(self) -> None:
        """Whoever gets the body asks for it."""
        self.body_held = False
        if self.owes_continue:
            self.owes_continue = False
            self._desk.write(CONTINUE)

    def ignore_body(self) -> None:
        """Its request is answered: read past the rest of the body."""
        self._sink = None
        self.body_held = self.owes_continue = False

    def ignores_body(self) -> bool:
        """Whether a body is read past whose request has its reply."""
        return self.body is not None and self._sink is None

    def small_rest(self) -> bool:
        """Whether what is left of the body is so little that reading past it is worth while."""
        if self.body is None:
            return True
        left = self.body.left()
        return (
            left is not None
            and left <= self._service.settings.discard_bytes
            and not self.owes_continue
        )

    def waits_for_client(self, *, under_way: bool) -> bool:
        """Whether the client is in the middle of a request that it could go on sending."""
        if self.body is not None:
            return not (self.body_held or self.owes_continue)
        return bool(self.unread) and not under_way

    def overdue(self, waited: float) -> Refusal | None:
        """What to answer when the client sent nothing for `waited` seconds of a body, or began a head so long ago."""
        settings = self._service.settings
        if self.body is None:
            if waited >= settings.head_timeout:
                text = f"The request headers did not come within {settings.head_timeout:g} s."
                return Refusal(408, f"{text} Send the request again.")
        elif waited >= settings.body_idle_timeout:
            text = f"The request body stopped coming for {settings.body_idle_timeout:g} s."
            return Refusal(408, f"{text} Send the request again.")
        return None

    def _take_head(self, data: bytes, at: int) -> int:
        """Begin the request at `at`; return where the rest begins, or `at` when it has to wait."""
        if data.startswith(b"\r\n", at):
            return at + 2  # an empty line before a request is read past (RFC 9112 2.2)
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
        if waits and not self._desk.is_clear():
            return at
        if not head.keep_alive:
            self._desk.is_last()
        self._begin(head, handler, nothing_came=end == len(data))
        return end

    def _begin(self, head: RequestHead, handler: FastHandler | None, *, nothing_came: bool) -> None:
        """Take a request whose head is complete; `nothing_came` of its body yet."""
        if head.length:
            # The head is judged first: a client without a token must not learn, nor lift, the limit of the body.
            refused = None
            if handler is not None:
                refused = self._service.routes.refusal(head.method, head.path, head.headers)
            if refused is not None and not self._may_stay(head, refused):
                raise Refusal(refused.status, "", reply=refused)
            self.body = self._body_of(head)
            if refused is not None:
                self._desk.dispatch(head, _constant(refused), b"", self._desk.stamp())
                return
            self.owes_continue = head.expects_continue and nothing_came
        if handler is None:
            self._sink = self._desk.bridge(head)
        else:
            self._sink = WholeBody(head, handler, self._desk.stamp())
            if self.owes_continue:
                self.want_body()
        if self.body is None:
            self._end_body()

    def _may_stay(self, head: RequestHead, refused: HttpReply) -> bool:
        """Whether to read past the body of a refused request; if not, the connection ends with the reply.

        A mistake in the name of a model costs no connection. A client without a token is read no further than a new
        connection would cost. Past nothing else than a body of known length: a client that waits for `100 Continue` sends none.
        """
        if head.length == CHUNKED or head.expects_continue or not head.keep_alive:
            return False
        if not self._desk.may_stay():
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
            self._desk.dispatch(sink.head, sink.handler, sink.whole(), sink.started_ns)
        elif sink is not None:
            sink.end()
