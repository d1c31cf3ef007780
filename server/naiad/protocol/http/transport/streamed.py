"""A response whose body is produced while it is sent: its head, its chunks, its end.

It stays at the front of its connection's pipeline until it has ended, so that responses keep their order. HTTP/1.1 clients get chunks;
for HTTP/1.0, which has none, the end of the connection is the end of the body.
"""

import collections.abc
import typing

from naiad.protocol.http.message import BodyStream, HttpReply
from naiad.protocol.http.transport.framing import ending, header_lines, status_line
from naiad.protocol.http.transport.head import RequestHead

_CHUNKED = b"Transfer-Encoding: chunked\r\n"
_COPIED = 1 << 16
"""Chunks up to this size are put together with their frame; longer ones are written as they are."""

_LAST_CHUNK = b"0\r\n\r\n"


class OnStreamEnd(typing.Protocol):
    """Called once, when a streamed response has ended."""

    def __call__(self, streamed: "StreamedReply", *, whole: bool) -> None:
        """`whole`: the body is complete; if not, it cannot be completed."""
        ...


class StreamedReply:
    """Implements `BodyWriter`.

    Args:
        head: the request's head.
        reply: the response with the stream.
        keep: whether the connection may stay open after it.
        write: sends bytes now.
        ended: the callback at the end.

    Attributes:
        reply: as given.
        keeps: whether the connection stays open after it.
        size: bytes of the body that were sent.
        stream: the body.
    """

    __slots__ = ("_chunked", "_ended", "_write", "keeps", "reply", "size", "stream")

    def __init__(
        self,
        head: RequestHead,
        reply: HttpReply,
        *,
        keep: bool,
        write: collections.abc.Callable[[bytes | memoryview], None],
        ended: OnStreamEnd,
    ) -> None:
        assert reply.stream is not None
        self._write = write
        self._ended: OnStreamEnd | None = ended  # None: nothing more is sent
        self._chunked = bool(head.minor)
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
            for part in (b"%x\r\n" % len(data), data, b"\r\n"):
                self._write(part)

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
