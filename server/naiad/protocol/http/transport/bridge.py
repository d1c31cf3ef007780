"""One request for the ASGI application: ASGI 3, HTTP scope, body and response streamed.

One task per request: the control plane can afford it. It begins only when all earlier requests have their responses, so
what is written here goes straight to the client.
"""

import asyncio
import collections.abc
import enum
import logging

from naiad.protocol.http.message import AsgiApp, Message, Scope
from naiad.protocol.http.replies import server_fault
from naiad.protocol.http.transport.framing import (
    ReplyFramer,
    ending,
    header_lines,
    status_line,
)
from naiad.protocol.http.transport.head import RequestHead
from naiad.protocol.http.transport.response_sender import ResponseSender

_logger = logging.getLogger(__name__)
_OURS = frozenset({b"connection", b"transfer-encoding"})
"""Response headers that only the transport may set."""


class _Progress(enum.Enum):
    """How far the response of the application has come."""

    NONE = "none"
    DECLARED = "its status and headers are known"
    BEGUN = "its head was sent"
    DONE = "it is complete"
    GONE = "the client has gone: it is dropped"


_ENDED = (_Progress.DONE, _Progress.GONE)


class AsgiExchange:
    """A request in the application.

    Args:
        scope: the connection's part of the scope: client and server.
        read_body: called with whether the application wants more of the body, or has enough for now.
        finished: called when the response is complete, with whether the connection can be kept.
        body_high: body bytes waiting here above which reading stops.
        started_ns: as in `RequestDispatcher.dispatch`.
    """

    def __init__(
        self,
        app: AsgiApp,
        head: RequestHead,
        scope: Scope,
        *,
        sender: ResponseSender,
        read_body: collections.abc.Callable[[bool], None],
        finished: collections.abc.Callable[[bool], None],
        body_high: int,
        started_ns: int,
    ) -> None:
        self.head = head
        self.started_ns = started_ns
        self._progress = _Progress.NONE
        self.received = 0
        self._app = app
        self._scope = scope
        self._sender = sender
        self._read_body = read_body
        self._finished = finished
        self._body_high = body_high
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._ended = False
        self._end_given = False
        self._wakeup = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.status = 0
        self._headers: tuple[tuple[bytes, bytes], ...] = ()
        self._declared: int | None = None
        self.sent = 0
        self._chunked = False
        self._bodyless = False
        self._keep = False

    @property
    def begun(self) -> bool:
        """Whether the response was begun and is not complete."""
        return self._progress is _Progress.BEGUN

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call the application."""
        path, _, query = self.head.target.partition(b"?")
        self._scope.update(
            type="http",
            scheme="http",
            asgi={"version": "3.0", "spec_version": "2.3"},
            http_version="1.1" if self.head.minor else "1.0",
            method=self.head.method.decode("ascii"),
            path=self.head.path,
            raw_path=path,
            query_string=query,
            root_path="",
            headers=list(self.head.headers.items()),
        )
        self._task = loop.create_task(self._run())

    def feed(self, piece: bytes) -> None:
        """A piece of the body came."""
        if self._progress not in _ENDED:
            self.received += len(piece)
            self._pieces.append(piece)
            self._waiting += len(piece)
            if self._waiting > self._body_high:
                self._read_body(False)
            self._wakeup.set()

    def end(self) -> None:
        """The body is complete."""
        self._ended = True
        self._wakeup.set()

    def disconnect(self) -> None:
        """The client has gone: the application's next receive returns a disconnect, and what it sends is dropped."""
        self._progress = _Progress.GONE
        self._wakeup.set()

    def cancel(self) -> None:
        """The client has gone: cancel the application's call."""
        self.disconnect()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._send)
        except Exception:
            if self._progress is not _Progress.GONE:
                _logger.exception("%s %s failed", self._scope["method"], self.head.path)
        if self._progress not in _ENDED:
            self._break_off()

    def _break_off(self) -> None:
        """The application ended without a complete response."""
        if self.begun:
            self._sender.cut()
            return
        reply = server_fault()
        keep = self.head.keep_alive and self._sender.may_stay()
        tail = ending(keep=keep, minor=self.head.minor)
        first, _ = ReplyFramer(join_bytes=1 << 16).frame(reply, tail, head_only=self.head.head_only)
        self._progress = _Progress.DONE
        self._sender.write(first)
        self.status, self.sent = 500, len(reply.body[0])
        self._finished(keep)

    async def _receive(self) -> Message:
        while True:
            if self._progress in _ENDED:
                return {"type": "http.disconnect"}
            if self._pieces or (self._ended and not self._end_given):
                body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
                self._pieces.clear()
                self._waiting = 0
                self._end_given = self._ended
                if not self._ended:
                    self._read_body(True)
                return {"type": "http.request", "body": body, "more_body": not self._ended}
            if not self._ended:
                self._read_body(True)
            self._wakeup.clear()
            await self._wakeup.wait()

    async def _send(self, message: Message) -> None:
        if self._progress in _ENDED:
            return
        kind = message["type"]
        if kind == "http.response.start" and self._progress is _Progress.NONE:
            self._progress = _Progress.DECLARED
            self.status = message["status"]
            self._headers = tuple(
                (bytes(name), bytes(value)) for name, value in message.get("headers", ())
            )
        elif kind == "http.response.body" and self._progress is not _Progress.NONE:
            more = message.get("more_body", False)
            self._write(message.get("body", b""), more=more)
            room = self._sender.drained() if more else None
            if room is not None:
                await room
        else:
            raise RuntimeError(
                f"{kind!r} is not expected now: send one http.response.start, then http.response.body"
            )

    def _write(self, body: bytes, *, more: bool) -> None:
        data = [] if self.begun else [self._begin(len(body), more=more)]
        if self._declared is not None:
            body = body[: self._declared - self.sent]  # more would be read as the next response
        if body and not self._bodyless:
            self.sent += len(body)
            data += (b"%x\r\n" % len(body), body, b"\r\n") if self._chunked else (body,)
        if not more and self._chunked and not self._bodyless:
            data.append(b"0\r\n\r\n")
        if data:
            self._sender.write(b"".join(data))
        if not more:
            self._progress = _Progress.DONE
            self._wakeup.set()
            short = self._declared is not None and not self._bodyless and self.sent < self._declared
            self._finished(self._keep and not short)

    def _begin(self, size: int, *, more: bool) -> bytes:
        """The response's head: how long its body is, or what ends it, and whether the connection stays open."""
        self._keep = self.head.keep_alive and self._sender.may_stay()
        lines = []
        for name, value in self._headers:
            lowered = name.lower()
            if lowered == b"content-length":
                self._declared = int(value)
            elif lowered == b"connection" and value.lower() == b"close":
                self._keep = False
            if lowered not in _OURS:
                lines.append((name, value))
        without = self.status < 200 or self.status in (204, 304)  # noqa: PLR2004 - statuses without a body
        self._bodyless = without or self.head.head_only
        if self._declared is None and not without:
            if not more:
                self._declared = size
                lines.append((b"content-length", b"%d" % size))
            elif self.head.minor:
                self._chunked = True
                lines.append((b"transfer-encoding", b"chunked"))
            else:
                self._keep = False  # HTTP/1.0: the end of the connection is the end of the body
        head = status_line(self.status) + header_lines(tuple(lines))
        self._progress = _Progress.BEGUN
        return head + ending(keep=self._keep, minor=self.head.minor)[2:]
