"""Bytes on an HTTP connection, held against h11: the same requests with the same bodies, and what the one refuses and the other takes is listed.

An input is one byte that chooses how it is cut into reads and who answers (the fast lane or the application), then what the client
sends. The difference that matters is two requests cut at different places, because that is how requests are smuggled; there is none
in the lists.
"""

import asyncio
import re
import typing

import h11

from naiad.core.inference import Cancellable
from naiad.protocol.http.message import FastHandler, Headers, HttpReply, HttpRequest, OnReply
from tests.server.protocol.http.scripted import Client, read_replies

WORDS = (
    "GET / HTTP/1.1\\x0d\\x0a", "POST / HTTP/1.1\\x0d\\x0a", "HTTP/1.0\\x0d\\x0a", "Host: a\\x0d\\x0a", "Content-Length: ", "Transfer-Encoding: chunked\\x0d\\x0a",
    "Connection: close\\x0d\\x0a", "Connection: keep-alive\\x0d\\x0a", "Expect: 100-continue\\x0d\\x0a", "Upgrade: x\\x0d\\x0a", "0\\x0d\\x0a\\x0d\\x0a",
    "\\x0d\\x0a", "\\x0d\\x0a\\x0d\\x0a", "5\\x0d\\x0ahello\\x0d\\x0a", ";a=b", "\\x0a", "\\x0d", "\\x09", "\\x00", "\\xff",
)  # fmt: skip

STRICTER: dict[str, str] = {
    "malformed: (Invalid method|Expected space after method)": "llhttp knows the methods that are registered; h11 takes any token",
    "This is not an HTTP/1.1 request": "the first bytes cannot become a request line in capitals, or a line ends in LF alone",
    "malformed: Invalid header value char": "control characters in a value; h11 refuses NUL, CR and LF only",
    "malformed: (Unexpected whitespace after header value|Invalid header field char)": "folded lines, obsolete since RFC 7230",
    "malformed: Missing expected (CR|LF) after header value": "a header line ends in LF alone",
    "malformed: (Expected|Missing expected) (CR|LF)": "a line ends in CR or LF alone",
    "A line between chunks ends without CR": "a line of a chunked body ends in LF alone",
    "A trailer is not a header line": "folded lines, obsolete since RFC 7230",
    "A line between chunks holds a control character": "bare CR and NUL in a chunk's extensions",
    "malformed: (Invalid characters in url|Unexpected (start )?char in url|Unexpected char in url)": "a target that is neither a path nor a URL",
    "malformed: (Invalid HTTP version|Expected HTTP)": "HTTP/4.1 and the like",
    "HTTP/[0-9.]+ is not spoken here": "HTTP/0.9, 1.2 and the like",
    "Request has invalid `Transfer-Encoding`": "white space of other kinds behind chunked",
    "Duplicate Content-Length": "h11 takes several that are equal",
    "Content-Length can't be present|contradict each other|Transfer-Encoding can't be present": "h11 lets Transfer-Encoding win; a proxy may do otherwise",
    "CONNECT is for proxies": "h11 knows both sides of a proxy",
    "This expectation cannot be met": "h11 leaves Expect to the application",
    "^HEAD$": "a refused HEAD request: the reply has no body, and so no message",
    "HTTP/1.0 has no Transfer-Encoding": "h11 ignores it",
    "The request target is malformed": "h11 leaves the target to the application",
}
"""What we refuse and h11 takes: a pattern of our message, and what it is."""

LAXER: dict[str, str] = {
    "^head: Missing mandatory Host": "as Triton: health checks by hand seldom send one, and nothing here depends on it",
    "^head: (no request line received|illegal request line: bytearray..(?:'|\")(.r|.n))": "empty lines before a request are skipped (RFC 9112 2.2)",
    "^closed$": "HTTP/1.0 with Connection: keep-alive stays open",
    "^body: (Only Transfer-Encoding|bad Content-Length|conflicting|Receive buffer too long)": (
        "what trailers say is skipped unread"
    ),
    r"^body: illegal chunk header: bytearray.*[0-9a-fA-F](.t| )+(;|.r.n)": "white space behind a chunk's size (RFC 9112 7.1.1)",
}
"""What we take and h11 refuses: a pattern of its message behind the part of the request that it is about, and why."""

_Request = tuple[bytes, bytes]


def seeds() -> list[bytes]:
    """Requests that are right, and pairs of them."""
    post = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
    chunked = b"POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: 1\r\n\r\n"
    get = b"GET /c?d=1 HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n"
    old = b"GET / HTTP/1.0\r\n\r\n"
    return [
        b"\0" + post + get,
        b"\1" + chunked + post,
        b"\x87" + get + post,
        b"\x80" + chunked,
        b"\0" + old,
    ]


class _Routes:
    """Takes every request, in the fast lane or in the application, and keeps it."""

    def __init__(self, *, fast: bool) -> None:
        self._fast = fast
        self.requests: list[_Request] = []

    def find(self, method: bytes, path: str, headers: Headers) -> FastHandler | None:
        return self._take if self._fast else None

    def tensors_from(self, path: str, headers: Headers) -> int:
        return 0

    def may_stream(self, path: str, headers: Headers) -> bool:
        return False

    def body_limit(self, path: str, headers: Headers) -> int:
        return 1 << 20

    def too_large(self, path: str, headers: Headers, size: int | None) -> str:
        return "too large"

    def refusal(self, method: bytes, path: str, headers: Headers) -> HttpReply | None:
        return None

    def _take(self, request: HttpRequest, on_reply: OnReply) -> Cancellable | None:
        self.requests.append((request.method, request.body))
        on_reply(HttpReply(200, (), (b"",)))
        return None

    async def app(self, scope: typing.Any, receive: typing.Any, send: typing.Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message["body"]
            more = message["more_body"]
        self.requests.append((scope["method"].encode(), body))
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
        )
        await send({"type": "http.response.body", "body": b""})


def check(data: bytes) -> None:
    """Raise if the connection and h11 differ in a way that is not listed."""
    choice, stream = data[:1].ljust(1, b"\0")[0], data[1:]
    step = choice & 0x7F or len(stream) or 1
    ours, refusal = _loop().run_until_complete(_ours(stream, step, fast=choice < 0x80))
    theirs, error = _h11(stream)
    for mine, other in zip(ours, theirs, strict=False):
        assert mine == other, f"ours {mine!r}, h11's {other!r}"
    if len(ours) > len(theirs):
        assert error, f"we take {ours[len(theirs)]!r}, and h11 waits for more"
        assert _listed(LAXER, error), f"we take {ours[len(theirs)]!r}, and h11 refuses it: {error}"
    elif len(theirs) > len(ours):
        assert refusal, f"h11 takes {theirs[len(ours)]!r}, and we wait for more"
        assert _listed(STRICTER, refusal), (
            f"h11 takes {theirs[len(ours)]!r}, and we refuse it: {refusal}"
        )


def _listed(differences: dict[str, str], message: str) -> bool:
    return any(re.search(pattern, message) for pattern in differences)


_LOOPS: list[asyncio.AbstractEventLoop] = []


def _loop() -> asyncio.AbstractEventLoop:
    if not _LOOPS:
        _LOOPS.append(asyncio.new_event_loop())
    return _LOOPS[0]


async def _ours(stream: bytes, step: int, *, fast: bool) -> tuple[list[_Request], str]:
    """The whole requests of a stream, and with what message the connection refused to go on."""
    routes = _Routes(fast=fast)
    client = Client(routes=routes, app=routes.app)  # type: ignore[arg-type]  # of the same shape
    for at in range(0, len(stream), step):
        for _ in range(200):
            if client.is_reading():
                break
            await asyncio.sleep(0)
        client.send(stream[at : at + step])
    seen = -1
    while seen != len(routes.requests):
        seen = len(routes.requests)
        for _ in range(20):
            await asyncio.sleep(0)
    sent = bytes(client.transport.sent).replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")
    try:
        replies = read_replies(sent)
    except AssertionError:
        replies = read_replies(
            sent, heads=[len(routes.requests)]
        )  # a HEAD request is refused without a body
    refused = [reply.body.decode() or "HEAD" for reply in replies if reply.status >= 400]
    assert len(refused) <= 1
    assert "fault of the server" not in "".join(refused)
    assert len(replies) == len(routes.requests) + len(refused), "not every request has its reply"
    client.registry.remove(client.connection)
    if not client.is_closed():
        client.hang_up()
    await asyncio.sleep(0)
    return routes.requests, refused[0] if refused else ("closed" if client.has_ended() else "")


def _h11(stream: bytes) -> tuple[list[_Request], str]:
    """The whole requests of a stream, and why h11 stopped; "" when it waits for more."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 17)
    connection.receive_data(stream)
    found: list[_Request] = []
    method, body = b"", b""
    while True:
        part = "body" if connection.their_state is h11.SEND_BODY else "head"
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError as error:
            return found, f"{part}: {error}"
        if isinstance(event, h11.Request):
            method, body = event.method, b""
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            found.append((b"GET" if method == b"HEAD" else method, body))
            connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
            connection.send(h11.EndOfMessage())
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return found, "closed"
            connection.start_next_cycle()
        else:
            return found, "" if event is h11.NEED_DATA else "closed"
