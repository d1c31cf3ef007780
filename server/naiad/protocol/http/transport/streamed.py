"""A reply whose body is made while it is sent: its head, its chunks, its end.

It stays at the front of its connection's pipeline until it has ended, so that replies keep their order. HTTP/1.1 clients get chunks;
for HTTP/1.0, which has none, the end of the connection is the end of the body.
"""

import typing

from naiad.protocol.http.message import BodyStream, HttpReply
from naiad.protocol.http.transport.exchange import Exchange
from naiad.protocol.http.transport.framing import CLOSE, KEEP, header_lines, status_line

_CHUNKED = b"Transfer-Encoding: chunked\r\n"
_COPIED = 1 << 16
"""Chunks up to this size are put together with their frame; longer ones are written as they are."""

_LAST_CHUNK = b"0\r\n\r\n"


class StreamCallbacks(typing.Protocol):
    """The callbacks of a streamed reply to its connection."""

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes now."""
        ...

    def cut(self) -> None:
        """Abort the connection and cancel its requests."""
        ...

    def streamed(self, exchange: Exchange, *, reply: HttpReply, size: int, keep: bool) -> None:
        """The reply is complete, with `size` bytes of body; `keep`: its head left the connection open."""
        ...


class StreamedReply:
    """Implements `BodyWriter`.

    Args:
        callbacks: the connection.
        exchange: the request.
        reply: the reply with the stream.
        keep: whether the connection may stay open after it.

    Attributes:
        keeps: whether it does.
        stream: the body.
    """

    __slots__ = ("_callbacks", "_chunked", "_exchange", "_reply", "_size", "keeps", "stream")

    def __init__(
        self, callbacks: StreamCallbacks, exchange: Exchange, reply: HttpReply, *, keep: bool
    ) -> None:
        assert reply.stream is not None
        self._callbacks: StreamCallbacks | None = callbacks
        self._exchange = exchange
        self._reply = reply
        self._chunked = bool(exchange.head.minor)
        self.keeps = keep and self._chunked
        self._size = 0
        self.stream: BodyStream = reply.stream

    def start(self) -> None:
        """Send the head and let the body begin.

        Raises:
            ValueError: a header holds a line break.
        """
        assert self._callbacks is not None
        head = status_line(self._reply.status) + header_lines(self._reply.headers)
        if self._chunked:
            head += _CHUNKED
        self._callbacks.write(head + (KEEP if self.keeps else CLOSE)[2:])
        self.stream.begin(self)

    def write(self, data: bytes | memoryview) -> None:
        """See `BodyWriter`; nothing is sent to a client that has gone."""
        if self._callbacks is None or not data:  # an empty chunk would be the last one
            return
        self._size += len(data)
        if not self._chunked:
            self._callbacks.write(data)
        elif len(data) <= _COPIED:
            self._callbacks.write(b"%x\r\n%b\r\n" % (len(data), bytes(data)))
        else:
            for part in (b"%x\r\n" % len(data), data, b"\r\n"):
                self._callbacks.write(part)

    def end(self) -> None:
        """See `BodyWriter`."""
        callbacks, self._callbacks = self._callbacks, None
        if callbacks is not None:
            if self._chunked:
                callbacks.write(_LAST_CHUNK)
            callbacks.streamed(self._exchange, reply=self._reply, size=self._size, keep=self.keeps)

    def cut(self) -> None:
        """See `BodyWriter`."""
        callbacks, self._callbacks = self._callbacks, None
        if callbacks is not None:
            callbacks.cut()

    def abandon(self) -> None:
        """The connection is gone."""
        self._callbacks = None
