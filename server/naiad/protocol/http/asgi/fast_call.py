"""A request of the fast lane in an ASGI application: the same handlers, with their callbacks, between `receive` and `send`.

While the handler works, and while its response is streamed, a client that goes cancels it.
"""

import asyncio
import collections.abc
import logging

from naiad.core.inference import Cancellable, RequestContext
from naiad.protocol.http.message import (
    BodyStream,
    FastHandler,
    FastRoutes,
    Headers,
    HttpReply,
    HttpRequest,
    Receive,
    Scope,
    Send,
    SpelledHeaders,
)
from naiad.protocol.http.replies import server_fault

log = logging.getLogger("naiad.http")

_WAITING_BYTES = 1 << 18
"""Bytes of a stream that the server has not taken, above which the model is held."""

ContextOf = collections.abc.Callable[[Headers, int], RequestContext | None]
"""The context of a request with these headers and so many bytes of body; None if nothing reads it."""

CONTEXT_OF = "naiad:context_of"
"""The key of a scope with its `ContextOf`, if there is one."""


SPELLING = "naiad:spelling"
"""The key of a scope with the client's spelling of header names by their names in lower case, where the server knows it."""

CHECK_HEAD = "naiad:check_head"
"""The key of a scope with a callback that gives the response that the head of the request alone decides; None if there is none."""


class DisconnectedError(Exception):
    """The client has gone before its whole request came."""


async def fast_call(routes: FastRoutes, scope: Scope, receive: Receive, send: Send) -> bool:
    """Answer a request of the fast lane; False if its path is not of that."""
    method, path, headers = scope["method"].encode(), scope["path"], headers_of(scope)
    handler = routes.find(method, path, headers)
    if handler is None:
        return False
    try:
        body = await whole_body(receive)
    except DisconnectedError:
        return True
    context_of: ContextOf | None = scope.get(CONTEXT_OF)
    context = None if context_of is None else context_of(headers, len(body))
    call = _Call(receive)
    try:
        reply = await call.reply(handler, HttpRequest(method, path, headers, body, context))
        if reply is not None:
            if context is not None:
                context.request_id = reply.request_id
            await call.send(reply, send)
    finally:
        call.close()
    return True


class _Call:
    """A call of a handler, which is cancelled unless it came to its end before the client went."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone: asyncio.Task[None] | None = None
        self._work: Cancellable | None = None

    async def reply(self, handler: FastHandler, request: HttpRequest) -> HttpReply | None:
        """Call the handler; None if the client goes before its reply."""
        replied: asyncio.Future[HttpReply] = asyncio.get_running_loop().create_future()

        def on_reply(reply: HttpReply) -> None:
            if not replied.done():
                replied.set_result(reply)

        try:
            self._work = handler(request, on_reply)
        except Exception:  # as in the native engine: a bug of ours is a response
            log.exception("%s failed", request.path)
            on_reply(server_fault())
        if not replied.done():
            await asyncio.wait((replied, self._watch()), return_when=asyncio.FIRST_COMPLETED)
        if not replied.done():
            return None
        reply = replied.result()
        self._work = reply.stream
        return reply

    async def send(self, reply: HttpReply, send: Send) -> None:
        """Send what the handler replied."""
        if reply.stream is None:
            await send_reply(reply, send)
        elif await _StreamSender(reply.stream).send(reply, send, self._watch()):
            self._work = None

    def _watch(self) -> asyncio.Task[None]:
        """The task that ends once the client has gone."""
        if self._gone is None:
            self._gone = asyncio.get_running_loop().create_task(disconnected(self._receive))
        return self._gone

    def close(self) -> None:
        """Cancel what has not come to its end."""
        if self._gone is not None:
            self._gone.cancel()
        if self._work is not None:
            self._work.cancel()


def headers_of(scope: Scope) -> Headers:
    """The headers of a scope; one that came several times is joined."""
    headers = SpelledHeaders()
    headers.spelling = scope.get(SPELLING, {})
    for name, value in scope["headers"]:
        headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


async def whole_body(receive: Receive) -> bytes:
    """The body of a request.

    Raises:
        DisconnectedError: the client has gone.
    """
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise DisconnectedError
        if piece := message.get("body", b""):
            pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def disconnected(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_reply(reply: HttpReply, send: Send) -> None:
    """Send a whole reply; large parts of its body are not joined."""
    size = sum(memoryview(part).nbytes for part in reply.body)
    await send(_start(reply, length=size))
    last = len(reply.body) - 1
    for index, part in enumerate(reply.body):
        more = index < last
        await send({"type": "http.response.body", "body": bytes(part), "more_body": more})
    if last < 0:
        await send({"type": "http.response.body", "body": b""})


def _start(reply: HttpReply, *, length: int | None) -> dict[str, object]:
    headers = [(name.lower(), value) for name, value in reply.headers]
    if length is not None and reply.status != 204:  # noqa: PLR2004 - No Content has no length
        headers.append((b"content-length", b"%d" % length))
    return {"type": "http.response.start", "status": reply.status, "headers": headers}


class _StreamSender:
    """Sends a streamed body: a `BodyWriter` for the stream, which is paused while the server takes nothing."""

    def __init__(self, stream: BodyStream) -> None:
        self._stream = stream
        self._waiting: list[bytes | memoryview] = []
        self._size = 0
        self._paused = self._ended = self._cut = False
        self._wakeup = asyncio.Event()

    def write(self, data: bytes | memoryview) -> None:
        """See `BodyWriter`."""
        if not data:
            return
        self._waiting.append(data)
        self._size += len(data)
        self._wakeup.set()
        if self._size > _WAITING_BYTES and not self._paused:
            self._paused = True
            self._stream.pause()

    def end(self) -> None:
        """See `BodyWriter`."""
        self._ended = True
        self._wakeup.set()

    def cut(self) -> None:
        """See `BodyWriter`."""
        self._cut = True
        self._wakeup.set()

    async def send(self, reply: HttpReply, send: Send, gone: asyncio.Task[None]) -> bool:
        """Send the reply to its end; False if the client has gone, or if the body cannot be completed: then the server closes the connection."""
        await send(_start(reply, length=None))
        gone.add_done_callback(self._disconnected)
        self._stream.begin(self)
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            if self._cut:
                return False
            data, self._waiting, self._size = b"".join(self._waiting), [], 0
            ended = self._ended
            if data:
                await send({"type": "http.response.body", "body": data, "more_body": True})
            if ended and not self._waiting:
                await send({"type": "http.response.body", "body": b""})
                return True
            if self._paused and not self._size:
                self._paused = False
                self._stream.resume()

    def _disconnected(self, _: asyncio.Task[None]) -> None:
        self.cut()
