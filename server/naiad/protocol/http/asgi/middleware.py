"""What the native engine does around each request, as ASGI middleware for other servers: limits, timeouts, drain, the access log.

The server in front owns connections and framing (RFC 9112). This owns what belongs to a request: a body above its limit is refused before it is
read, one that stands still is given up, and a request without a response at the end of a drain gets one.
"""

import asyncio
import collections.abc
import contextlib
import logging
import urllib.parse

import msgspec

from naiad.core.inference import RequestContext
from naiad.core.timeouts import timeout
from naiad.protocol.http.asgi.fast_call import CHECK_HEAD, CONTEXT_OF, headers_of, send_reply
from naiad.protocol.http.message import (
    AsgiApp,
    FastRoutes,
    Headers,
    HttpReply,
    Message,
    Receive,
    Scope,
    Send,
)
from naiad.protocol.http.replies import error_reply, options_reply, refusal, server_fault
from naiad.protocol.http.transport.head import CONTROL_IN_PATH, holds_control
from naiad.protocol.observer import Ended, Observer
from naiad.protocol.transport.frontend import unheard
from naiad.protocol.transport.listener import UNANSWERED
from naiad.protocol.transport.peer import as_ipv4
from naiad.protocol.transport.sockets import written

log = logging.getLogger("naiad.http")

_CLOSE = (b"connection", b"close")
_ALLOWED = options_reply(b"GET, HEAD, POST, OPTIONS")


CHUNKS = "naiad:chunks"
"""The key of a scope with the `ChunkCount` of its body, where the server knows it."""


class ChunkCount(msgspec.Struct):
    """How many transfer chunks a body has come in so far."""

    count: int = 0


class RequestSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a request, as in `HttpSettings`; times are seconds."""

    body_idle_timeout: float = 60.0
    discard_bytes: int = 65536
    max_chunks: int = 65536
    linger_timeout: float = 5.0


class RefusedError(Exception):
    """A request is refused while its body comes; the exception handler of the application sends the reply."""

    def __init__(self, reply: HttpReply) -> None:
        super().__init__(reply.status)
        self.reply = reply


class RequestMiddleware:
    """The outermost middleware.

    Args:
        app: answers with the reply of a `RefusedError` that `receive` raises.
        routes: gives the limits of bodies; called for each request.
    """

    def __init__(
        self,
        app: AsgiApp,
        routes: collections.abc.Callable[[], FastRoutes],
        settings: RequestSettings,
        observer: Observer | None = None,
    ) -> None:
        self._app = app
        self._routes = routes
        self._settings = settings
        self._observer = observer
        self._draining = False
        self._running: set[_Request] = set()
        self.begun = 0
        """How many requests came so far."""
        self.on_begin: collections.abc.Callable[[], None] = unheard
        """Called with each of them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self.begun += 1
        self.on_begin()
        request = _Request(scope, receive, send, self._settings, self._observer)
        request.closes = self._draining
        self._running.add(request)
        try:
            await self._run(request)
        finally:
            self._running.discard(request)

    async def _run(self, request: "_Request") -> None:
        scope = request.scope
        if scope["path"] == "*" and scope["method"] == "OPTIONS":
            await send_reply(_ALLOWED, request.send)
            return
        if holds_control(scope["path"]):
            await send_reply(refusal(400, CONTROL_IN_PATH), request.send)
            return
        request.routes = self._routes()
        try:
            await self._app(request.scope, request.receive, request.send)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not request.given_up or task is None:
                raise
            task.uncancel()
            if not request.status:
                await send_reply(error_reply(UNANSWERED), request.send)
        except Exception:
            if request.gone:
                return  # the framework raises it
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not request.status:
                await send_reply(server_fault(), request.send)
        finally:
            request.record()

    def begin_drain(self) -> None:
        """Have each response close its connection from now on."""
        self._draining = True
        for request in self._running:
            request.closes = True

    def give_up(self) -> int:
        """Send UNAVAILABLE in place of each response that has not begun, and cut the others. Returns how many there were."""
        for request in self._running:
            request.give_up()
        return len(self._running)


class _Request:
    """One request: its `receive` and `send`, and what is known of it.

    Attributes:
        closes: the connection ends with the response.
        status: of the response; 0 before that.
        given_up: see `give_up`.
        gone: the client has gone before its whole body came.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        settings: RequestSettings,
        observer: Observer | None,
    ) -> None:
        self._receive = receive
        self._send = send
        self._settings = settings
        self._observer = observer
        self._received_ns = 0 if observer is None else observer.now_ns()
        self._context: RequestContext | None = None
        self._task = asyncio.current_task()
        self._headers = headers_of(scope)
        length = self._headers.get(b"content-length", b"")
        self._length = int(length) if length.isdigit() else None
        self._chunked = b"transfer-encoding" in self._headers
        self._received = self._sent = 0
        self._whole = not self._chunked and not self._length
        self._limit: int | None = None
        self._complete = False
        self.scope = {**scope, CHECK_HEAD: self._check_head}
        if observer is not None:
            self.scope[CONTEXT_OF] = self._context_of
        self.routes: FastRoutes | None = None
        self.closes = self.given_up = self.gone = False
        self.status = 0

    async def receive(self) -> Message:
        """See ASGI; raises RefusedError for a body that is too large or stands still."""
        if self._whole or self.status:
            return await self._receive()
        if self._limit is None:
            self._check_limit(self._length)
        try:
            async with timeout(self._settings.body_idle_timeout):
                message = await self._receive()
        except TimeoutError:
            text = f"The request body stopped coming for {self._settings.body_idle_timeout:g} s."
            self.closes = True
            raise RefusedError(refusal(408, f"{text} Send the request again.")) from None
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            assert self._limit is not None
            if self._received > self._limit:
                self._refuse_size(None)
            self._check_chunks()
        else:
            self.gone = True
        return message

    def _check_head(self, scope: Scope) -> HttpReply | None:
        """See `CHECK_HEAD`. `scope` has the path without its prefix."""
        assert self.routes is not None
        method = scope["method"].encode()
        refused = self.routes.refusal(method, scope["path"], self._headers)
        if refused is None and not self._whole:
            try:
                self._check_limit(self._length)
            except RefusedError as error:
                return error.reply
        return refused

    def _check_limit(self, length: int | None) -> None:
        assert self.routes is not None
        self._limit = self.routes.body_limit(self.scope["path"], self._headers)
        if length is not None and length > self._limit:
            self._refuse_size(length)

    def _check_chunks(self) -> None:
        """Refuse a body of too many chunks (row 1.13), the last, empty one not counted."""
        chunks: ChunkCount | None = self.scope.get(CHUNKS)
        most = self._settings.max_chunks
        if chunks is not None and chunks.count > most + 1:
            self.closes = True
            text = f"The request body has more than {most} chunks. Send larger chunks, or a Content-Length."
            raise RefusedError(refusal(400, text))

    def _refuse_size(self, size: int | None) -> None:
        assert self.routes is not None
        self.closes = True
        message = self.routes.too_large(self.scope["path"], self._headers, size)
        raise RefusedError(refusal(400, message))

    async def send(self, message: Message) -> None:
        """See ASGI; what is sent to a client that has gone is dropped."""
        if self.gone:
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self._context is not None and self._observer is not None:
                self._context.send_ns = self._observer.now_ns()
            self.closes = self.closes or not (self._whole or self._small_rest())
            if self.closes:
                message = {**message, "headers": [*message.get("headers", ()), _CLOSE]}
        elif message["type"] == "http.response.body":
            self._sent += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
            if self._complete and self.closes and not self._whole:
                await self._send({**message, "more_body": True})
                await self._linger()
                message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    def _small_rest(self) -> bool:
        """Whether the server may read and drop the rest of the body, which costs less than another connection."""
        if self._length is None:
            return False
        return self._length - self._received <= self._settings.discard_bytes

    async def _linger(self) -> None:
        """Read what a refused client still sends: were the connection closed at once, the kernel's reset would destroy the response."""
        with contextlib.suppress(TimeoutError):
            async with timeout(self._settings.linger_timeout):
                while True:
                    message = await self._receive()
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        return

    def give_up(self) -> None:
        """The server exits: see `RequestMiddleware.give_up`."""
        if not self.given_up and self._task is not None:
            self.given_up = self.closes = True
            self._task.cancel()

    def _context_of(self, headers: Headers, size: int) -> RequestContext | None:
        if self._observer is None or not self._observer.follows(headers.get):
            return None
        self._context = self._observer.begin(headers.get, self._received_ns, size)
        return self._context

    def record(self) -> None:
        """Write the access log's entry, if the client got its response."""
        if self._observer is None:
            return
        context, follows = self._context, self._observer.follows(self._headers.get)
        if not self._complete or not (context or follows):
            if self._context is not None:
                self._context.finish()
            return
        if context is None:
            context = self._observer.begin(self._headers.get, self._received_ns, self._received)
        scope = self.scope
        head_only = scope["method"] == "HEAD"
        context.response_bytes = 0 if head_only else self._sent
        client = scope.get("client")
        path = scope.get("raw_path") or urllib.parse.quote(scope["path"]).encode()
        query = scope.get("query_string", b"")
        target = path + b"?" + query if query else path
        self._observer.end(
            Ended(
                "http",
                written(as_ipv4(client[0]), client[1]) if client else "",
                scope["method"],
                target.decode("latin-1"),
                self.status,
                context,
            )
        )
