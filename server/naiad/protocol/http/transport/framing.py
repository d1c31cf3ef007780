"""Responses as bytes: status lines, headers, streamed bodies, and the errors of the transport itself.

Pure: no sockets. Prefixes of responses (status line and headers up to the length) repeat, so they are remembered, bounded.
"""

import collections.abc
import http
import typing

from naiad.protocol.http.message import BodyStream, HttpReply

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

KEEP = b"\r\n\r\n"
"""Ends the headers of a response after which an HTTP/1.1 connection stays open."""
KEEP_1_0 = b"\r\nConnection: keep-alive\r\n\r\n"
"""Ends the headers of such a response to HTTP/1.0, where a header has to say it."""
CLOSE = b"\r\nConnection: close\r\n\r\n"

_MAX_PREFIXES = 1024
_CHUNKED = b"Transfer-Encoding: chunked\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_COPIED = 1 << 16
"""Chunks up to this size are put together with their frame; longer ones are written as they are."""
_BODYLESS = frozenset({204, 304})

ReplyHeaders = tuple[tuple[bytes, bytes], ...]


class HttpError(Exception):
    """The transport refuses a request: it sends `status` and {"error": message}, or the whole reply, and closes the connection."""

    def __init__(self, status: int, message: str, *, reply: HttpReply | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.reply = reply


def status_line(status: int) -> bytes:
    """The first line of a response, CRLF included."""
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    return f"HTTP/1.1 {status} {phrase}\r\n".encode("latin-1")


def header_lines(headers: ReplyHeaders) -> bytes:
    """Header lines, each with its CRLF.

    Raises:
        ValueError: a name or value holds a line break, with which a client could write headers of its own.
    """
    for name, value in headers:
        if b"\n" in name or b"\r" in name or b"\n" in value or b"\r" in value:
            raise ValueError(f"a reply header holds a line break: {name!r}: {value!r}")
    return b"".join([b"%b: %b\r\n" % pair for pair in headers])


def ending(*, keep: bool, minor: int) -> bytes:
    """The end of a response's headers: whether the connection stays open, for HTTP/1.`minor`."""
    if not keep:
        return CLOSE
    return KEEP if minor else KEEP_1_0


def bytes_of(part: bytes | memoryview) -> int:
    """The size of a part of a body: the length of a view counts its elements."""
    return len(part) if type(part) is bytes else memoryview(part).nbytes


class ReplyFramer:
    """Writes responses as bytes.

    Args:
        join_bytes: up to this body size everything is joined to one buffer (one copy costs less than one more buffer).
    """

    def __init__(self, *, join_bytes: int) -> None:
        self._join_bytes = join_bytes
        self._prefixes: dict[tuple[int, ReplyHeaders], bytes] = {}
        self._last: tuple[int, ReplyHeaders, bytes] = 0, (), b""

    def frame(
        self, reply: HttpReply, tail: bytes, *, head_only: bool = False
    ) -> tuple[bytes, tuple[bytes | memoryview, ...]]:
        """A first buffer, and for a large body the parts that follow it. `tail` is KEEP, KEEP_1_0 or CLOSE.

        The response to HEAD (`head_only`) has no body, but its length.

        Raises:
            ValueError: a header holds a line break.
        """
        # Most responses have the status and the headers of the one before.
        status, headers, prefix = self._last
        if headers is not reply.headers or status != reply.status:
            prefix = self._prefixes.get((reply.status, reply.headers)) or self._remember(reply)
            self._last = reply.status, reply.headers, prefix
        body = reply.body
        if len(body) == 1 and not head_only:
            (text,) = body
            if type(text) is bytes and 0 < len(text) <= self._join_bytes:
                return b"%bContent-Length: %d%b%b" % (prefix, len(text), tail, text), ()
        size = 0
        for part in body:
            size += len(part) if type(part) is bytes else memoryview(part).nbytes
        if size <= self._join_bytes and not head_only:
            if size == 0 and reply.status in _BODYLESS:
                return prefix + tail[2:], ()
            return b"".join((prefix, b"Content-Length: %d" % size, tail, *body)), ()
        head = b"".join((prefix, b"Content-Length: %d" % size, tail))
        return head, () if head_only else body

    def _remember(self, reply: HttpReply) -> bytes:
        prefix = status_line(reply.status) + header_lines(reply.headers)
        if len(self._prefixes) >= _MAX_PREFIXES:
            self._prefixes.clear()
        self._prefixes[reply.status, reply.headers] = prefix
        return prefix


class OnStreamEnd(typing.Protocol):
    """Called once, when a streamed response has ended."""

    def __call__(self, streamed: "StreamedReply", *, whole: bool) -> None:
        """`whole`: the body is complete; if not, it cannot be completed."""


class StreamedReply:
    """A response whose body is produced while it is sent: its head, its chunks, its end. Implements `BodyWriter`.

    It stays at the front of its connection's pipeline until it has ended, so that responses keep their order. HTTP/1.1 clients get chunks;
    for HTTP/1.0, which has none, the end of the connection is the end of the body.

    Args:
        minor: of the request: 1 for HTTP/1.1, 0 for HTTP/1.0.
        keep: whether the connection may stay open after it.

    Attributes:
        keeps: whether the connection stays open after it.
        size: bytes of the body that were sent.
    """

    __slots__ = ("_chunked", "_ended", "_write", "_write_parts", "keeps", "reply", "size", "stream")

    def __init__(
        self,
        reply: HttpReply,
        *,
        minor: int,
        keep: bool,
        write: collections.abc.Callable[[bytes | memoryview], None],
        write_parts: collections.abc.Callable[[collections.abc.Sequence[bytes | memoryview]], None],
        ended: OnStreamEnd,
    ) -> None:
        assert reply.stream is not None
        self._write = write
        self._write_parts = write_parts
        self._ended: OnStreamEnd | None = ended  # None: nothing more is sent
        self._chunked = bool(minor)
        self.reply = reply
        self.keeps = keep and self._chunked
        self.size = 0
        self.stream: BodyStream = reply.stream

    def start(self) -> None:
        """Send the head and let the body begin.

        Raises:
            ValueError: a header holds a line break.
        """
        head = status_line(self.reply.status) + header_lines(self.reply.headers)
        if self._chunked:
            head += _CHUNKED
        self._write(head + ending(keep=self.keeps, minor=1)[2:])
        self.stream.begin(self)

    def write(self, data: bytes | memoryview) -> None:
        """See `BodyWriter`; nothing is sent to a client that has gone."""
        if self._ended is None or not data:  # an empty chunk would be the last one
            return
        self.size += len(data)
        if not self._chunked:
            self._write(data)
        elif len(data) <= _COPIED:
            self._write(b"%x\r\n%b\r\n" % (len(data), bytes(data)))
        else:
            self._write_parts((b"%x\r\n" % len(data), data, b"\r\n"))

    def end(self) -> None:
        """See `BodyWriter`."""
        if self._ended is not None and self._chunked:
            self._write(_LAST_CHUNK)
        self._end(whole=True)

    def cut(self) -> None:
        """See `BodyWriter`."""
        self._end(whole=False)

    def abandon(self) -> None:
        """The client has gone."""
        self._ended = None

    def _end(self, *, whole: bool) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(self, whole=whole)
