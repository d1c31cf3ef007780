"""A client and a set of routes for the transport's tests: bytes in, bytes out, no sockets."""

import asyncio
import collections.abc
import dataclasses
import logging
import socket
from typing import Any

from typing_extensions import override

from naiad.core.clock import ManualClock
from naiad.core.inference import Cancellable
from naiad.protocol.access_log import AccessLog, AccessObserver
from naiad.protocol.http.message import (
    AsgiApp,
    FastHandler,
    Headers,
    HttpReply,
    HttpRequest,
    OnReply,
    Receive,
    Scope,
    Send,
)
from naiad.protocol.http.transport.connection import Connection
from naiad.protocol.http.transport.framing import ReplyFramer
from naiad.protocol.http.transport.head_cache import HeadCache
from naiad.protocol.http.transport.service import HttpService, HttpSettings
from naiad.protocol.observer import Ended
from naiad.protocol.transport.connection_registry import ConnectionRegistry

TEXT = ((b"Content-Type", b"text/plain"),)
LIMIT = 1000


class SilentLog(logging.Handler):
    """Collects what was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


class FakeSocket:
    """As much of a socket as the connection looks at."""

    def __init__(self) -> None:
        self.error = 0

    def getsockopt(self, level: int, option: int) -> int:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_ERROR)
        error, self.error = self.error, 0
        return error


class FakeTransport(asyncio.Transport):
    """Keeps what is written; the test plays the kernel."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.protocol: asyncio.BaseProtocol | None = None
        self.sent = bytearray()
        self.writes: list[bytes] = []
        self.unsent = 0
        self.socket = FakeSocket()
        self.reading = True
        self.closed = False
        self.aborted = False
        self.eof_written = False

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        assert not self.eof_written
        self.sent += data
        self.writes.append(bytes(data))

    @override
    def writelines(self, list_of_data: collections.abc.Iterable[Any]) -> None:
        for data in list_of_data:
            self.write(data)

    @override
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    @override
    def get_write_buffer_size(self) -> int:
        return self.unsent

    @override
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {
            "peername": ("10.0.0.9", 4711),
            "sockname": ("10.0.0.1", 8000),
            "socket": self.socket,
        }.get(name, default)

    @override
    def is_closing(self) -> bool:
        return self.closed

    @override
    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    @override
    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    @override
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    @override
    def can_write_eof(self) -> bool:
        return True

    @override
    def write_eof(self) -> None:
        self.eof_written = True

    @override
    def close(self) -> None:
        if not self.closed:
            self.closed = True
            assert self.protocol is not None
            if not self.unsent:
                self._loop.call_soon(self.protocol.connection_lost, None)

    @override
    def abort(self) -> None:
        self.aborted = True
        self.unsent = 0
        if not self.closed:
            self.close()
        elif self.protocol is not None:
            self._loop.call_soon(self.protocol.connection_lost, None)


class Handle:
    """Counts its cancellations."""

    def __init__(self) -> None:
        self.cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1


@dataclasses.dataclass
class Held:
    """A request that the handler has not answered yet."""

    request: HttpRequest
    on_reply: OnReply
    handle: Handle

    def answer(self, text: bytes, *, status: int = 200) -> None:
        self.on_reply(HttpReply(status, TEXT, (text,)))


class ScriptedRoutes:
    """/echo answers at once with the body, /hold when the test says so, /fail raises; all else is the application's."""

    def __init__(self) -> None:
        self.held: list[Held] = []
        self.requests: list[HttpRequest] = []
        self.limit = LIMIT
        self.refusals: dict[str, HttpReply] = {}

    def find(self, method: bytes, path: str, headers: Headers) -> FastHandler | None:
        if method == b"BUG":
            raise RuntimeError("a bug in the routes")
        return {"/echo": self._echo, "/hold": self._hold, "/fail": self._fail, "/bad": _bad}.get(
            path
        )

    def tensors_from(self, path: str, headers: Headers) -> int:
        return int(headers.get(b"inference-header-content-length", b"0"))

    def may_stream(self, path: str, headers: Headers) -> bool:
        return path == "/stream"

    def refusal(self, method: bytes, path: str, headers: Headers) -> HttpReply | None:
        return self.refusals.get(path)

    def body_limit(self, path: str, headers: Headers) -> int:
        return self.limit

    def too_large(self, path: str, headers: Headers, size: int | None) -> str:
        of = "" if size is None else f" of {size} bytes"
        return f"Request body{of} exceeds the maximum allowed value of {self.limit} bytes"

    def _echo(self, request: HttpRequest, on_reply: OnReply) -> Cancellable | None:
        self.requests.append(request)
        shared = request.shared
        on_reply(HttpReply(200, TEXT, (request.body if shared is None else bytes(shared),)))
        return None

    def _hold(self, request: HttpRequest, on_reply: OnReply) -> Cancellable | None:
        self.requests.append(request)
        handle = Handle()
        self.held.append(Held(request, on_reply, handle))
        return handle

    def _fail(self, request: HttpRequest, on_reply: OnReply) -> Cancellable | None:
        raise RuntimeError("a bug in the handler")


def _bad(request: HttpRequest, on_reply: OnReply) -> Cancellable | None:
    on_reply(HttpReply(200, ((b"Name", b"a\r\nInjected: yes"),), (b"",)))
    return None


async def echo_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with method, path and the whole body."""
    body = b""
    more = True
    while more:
        message = await receive()
        assert message["type"] == "http.request"
        body += message["body"]
        more = message["more_body"]
    text = f"{scope['method']} {scope['path']} ".encode() + body
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-app", b"yes")]})
    await send({"type": "http.response.body", "body": text})


@dataclasses.dataclass(frozen=True)
class Reply:
    """A reply as a client reads it."""

    status: int
    headers: dict[str, str]
    body: bytes


def read_replies(data: bytes, *, heads: collections.abc.Sequence[int] = ()) -> list[Reply]:
    """All replies in `data`; `heads` are the indices of those to HEAD requests, which have no body.

    Raises:
        AssertionError: the rest is not a whole reply.
    """
    replies: list[Reply] = []
    while data:
        top, found, data = data.partition(b"\r\n\r\n")
        assert found, top
        first, *lines = top.decode("latin-1").split("\r\n")
        assert first.startswith("HTTP/1.1 "), first
        status = int(first.split(" ", 2)[1])
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        assert len(headers) == len(lines), lines
        body = b""
        if len(replies) in heads or status in (100, 204, 304):
            pass
        elif headers.get("transfer-encoding") == "chunked":
            body, data = _unchunk(data)
        elif "content-length" in headers:
            size = int(headers["content-length"])
            assert len(data) >= size
            body, data = data[:size], data[size:]
        else:
            body, data = data, b""
        replies.append(Reply(status, headers, body))
    return replies


def _unchunk(data: bytes) -> tuple[bytes, bytes]:
    body = b""
    while True:
        line, found, data = data.partition(b"\r\n")
        assert found
        size = int(line, 16)
        body += data[:size]
        assert data[size : size + 2] == b"\r\n"
        data = data[size + 2 :]
        if not size:
            return body, data


class Client:
    """One connection and what a client would see of it. Made inside a running loop."""

    def __init__(
        self,
        *,
        routes: ScriptedRoutes | None = None,
        app: AsgiApp = echo_app,
        settings: HttpSettings | None = None,
        access_log: AccessLog | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        settings = settings or HttpSettings()
        self.routes = routes or ScriptedRoutes()
        self.clock = ManualClock()
        self.registry = ConnectionRegistry(loop, tick=settings.tick)
        observer = None if access_log is None else AccessObserver(access_log, clock=self.clock)
        self.service = HttpService(
            routes=self.routes,
            app=app,
            settings=settings,
            registry=self.registry,
            heads=HeadCache(
                self.routes, entries=settings.known_heads, entry_bytes=settings.known_head_bytes
            ),
            framer=ReplyFramer(join_bytes=settings.join_bytes),
            clock=self.clock,
            observer=observer,
        )
        self.connection = Connection(self.service)
        self.transport = FakeTransport(loop)
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)

    def send(self, data: bytes) -> None:
        """What the client sends; lost when the server has closed."""
        while data and not self.transport.closed:
            assert self.transport.reading, "the kernel would hold this back"
            protocol = self.transport.protocol
            if not isinstance(protocol, asyncio.BufferedProtocol):
                self.connection.data_received(data)
                return
            room = memoryview(protocol.get_buffer(-1))
            count = min(len(room), len(data))
            room[:count] = data[:count]
            data = data[count:]
            protocol.buffer_updated(count)

    def replies(self, *, heads: collections.abc.Sequence[int] = ()) -> list[Reply]:
        """All whole replies since this was last asked."""
        data = bytes(self.transport.sent)
        self.transport.sent.clear()
        return read_replies(data, heads=heads)

    def reply(self) -> Reply:
        """The only reply since this was last asked."""
        (reply,) = self.replies()
        return reply

    def hang_up(self) -> None:
        """The client's connection breaks."""
        self.transport.closed = True
        assert self.transport.protocol is not None
        self.transport.protocol.connection_lost(ConnectionResetError())

    # Methods, not attributes: the type checker would take the first assertion for the last word.

    def is_reading(self) -> bool:
        """Whether the server reads on."""
        return self.transport.reading

    def is_closed(self) -> bool:
        """Whether the server has closed the connection."""
        return self.transport.closed

    def is_cut(self) -> bool:
        """Whether it has done so without waiting for what is unsent."""
        return self.transport.aborted

    def has_ended(self) -> bool:
        """Whether the server has said that it sends nothing more."""
        return self.transport.closed or self.transport.eof_written


def post(path: str, body: bytes = b"", *lines: str) -> bytes:
    """A POST request with a Content-Length."""
    return request("POST", path, f"Content-Length: {len(body)}", *lines) + body


def request(method: str, path: str, *lines: str) -> bytes:
    """A request's head."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: test", *lines, "", ""]).encode()


def entries() -> tuple[list[Ended], AccessLog]:
    """A list and the access log that fills it."""
    found: list[Ended] = []
    return found, found.append


def broken(*_: object) -> None:
    """Stands for any function that has a bug."""
    raise RuntimeError("a bug")


async def settle() -> None:
    """Let what is ready to run, run."""
    for _ in range(10):
        await asyncio.sleep(0)
