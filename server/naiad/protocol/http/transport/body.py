"""Bodies: from the bytes behind a header block to the pieces of one body, and where it ends.

Bodies with a Content-Length are cut out here without a parser (httptools would copy each piece), and chunked ones
are decoded here because httptools cannot tell where in its input a message ended. Strict on purpose: a
lenient reading of chunk sizes is how requests are smuggled. Pure: no sockets, no time.
"""

import collections.abc
import io
import re
import typing

from naiad.protocol.http.message import FastHandler, HttpRequest
from naiad.protocol.http.transport.framing import HttpError
from naiad.protocol.http.transport.head import RequestHead

Feed = collections.abc.Callable[[bytes], None]

_MAX_LINE = 4096
"""Bytes of a chunk's size line with its extensions, and of one trailer line."""
_MAX_TRAILERS = 65536
_PART_BYTES = 4096
"""One read may hold 40,000 chunks, which take 50 ms and more; so many bytes of them take a millisecond."""
_SPILLED = 1 << 20
"""Bytes from which a body of unknown length is kept in shared memory."""
_SIZE_DIGITS = 15
"""Hex digits of a chunk size; more is an overflow somewhere."""
_HEX = frozenset(b"0123456789abcdefABCDEF")
_PLAIN_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})\r\n")
_LINE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*\r\n").fullmatch
_TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\r]*\r\n").fullmatch


class Body(typing.Protocol):
    """A body that is being received."""

    def take(self, data: bytes, at: int, feed: Feed) -> int:
        """Pass what belongs to the body from `data[at:]` to `feed`, all of it or a part that takes little time; return where the rest begins.

        Raises:
            HttpError: malformed, too many chunks, or too long.
        """

    def done(self) -> bool:
        """Whether all of it was taken."""

    def left(self) -> int | None:
        """Bytes still to come; None if that is unknown."""


class LengthBody:
    """A body of known length, at least one byte.

    Attributes:
        rest: bytes still to come.
    """

    __slots__ = ("rest",)

    def __init__(self, length: int) -> None:
        self.rest = length

    def take(self, data: bytes, at: int, feed: Feed) -> int:
        """As `Body.take`; a read that is all body is passed on without a copy."""
        have = len(data) - at
        if have <= self.rest:
            self.rest -= have
            feed(data[at:] if at else data)
            return len(data)
        end = at + self.rest
        self.rest = 0
        feed(data[at:end])
        return end

    def done(self) -> bool:
        """Whether all of it was taken."""
        return self.rest == 0

    def left(self) -> int:
        """Bytes still to come."""
        return self.rest


class ChunkedBody:
    """A chunked body (RFC 9112 7.1). Extensions and trailers are checked and skipped.

    Args:
        limit: body bytes allowed (row 1.11).
        max_chunks: chunks allowed, the last, empty one not counted (row 1.13).
        too_large: the error message of a longer one.
    """

    def __init__(self, *, limit: int, max_chunks: int, too_large: str) -> None:
        self._limit = limit
        self._too_large = too_large
        self._max_chunks = max_chunks
        self._size = 0
        self._chunks = 0
        self._left = 0
        self._line = b""
        self._trailer_bytes = 0
        self._step = self._size_line

    def done(self) -> bool:
        """Whether the last chunk and the trailers were taken."""
        return self._step == self._finished

    def left(self) -> int | None:
        """Unknown."""
        return None

    def take(self, data: bytes, at: int, feed: Feed) -> int:
        """As `Body.take`: about `_PART_BYTES` of small chunks at a time."""
        stop = min(len(data), at + _PART_BYTES)
        while at < stop and self._step != self._finished:
            if not self._line and self._step == self._size_line:
                at = self._whole_chunks(data, at, stop, feed)
            if at < stop:
                at = self._step(data, at, feed)
        return at

    def _whole_chunks(self, data: bytes, at: int, stop: int, feed: Feed) -> int:
        """Take the chunks that came whole, are plain and begin before `stop`. The steps take all others."""
        pieces: list[bytes] = []
        while at < stop and (match := _PLAIN_SIZE.match(data, at)) is not None:
            size = int(match[1], 16)
            begin = match.end()
            end = begin + size
            over = self._size + size > self._limit or self._chunks >= self._max_chunks
            if not size or over or data[end : end + 2] != b"\r\n":
                break
            self._size += size
            self._chunks += 1
            pieces.append(data[begin:end])
            at = end + 2
        if pieces:
            feed(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        return at

    def _read_line(self, data: bytes, at: int) -> int:
        """Collect a line into `_line`, its CRLF included; return where the rest begins, or -1 when it is incomplete."""
        end = data.find(b"\n", at, at + _MAX_LINE + 2)
        if end < 0:
            self._line += data[at : at + _MAX_LINE + 2]
        else:
            self._line += data[at : end + 1]
        if len(self._line) > _MAX_LINE:
            raise HttpError(
                400,
                f"A line between chunks is longer than {_MAX_LINE} bytes. Send shorter chunk extensions.",
            )
        if end < 0:
            return -1
        if not self._line.endswith(b"\r\n"):
            raise HttpError(
                400,
                "A line between chunks ends without CR. End the lines of a chunked body with CRLF.",
            )
        if not _LINE(self._line):
            raise HttpError(
                400,
                "A line between chunks holds a control character. Send chunk extensions and trailers without.",
            )
        return end + 1

    def _size_line(self, data: bytes, at: int, feed: Feed) -> int:
        after = self._read_line(data, at)
        if after < 0:
            return len(data)
        digits, semicolon, _ = self._line[:-2].partition(b";")
        if semicolon:
            digits = digits.rstrip(b" \t")  # only an extension may have space before it
        self._line = b""
        if not digits or len(digits) > _SIZE_DIGITS or not _HEX.issuperset(digits):
            raise HttpError(
                400,
                "A chunk does not begin with its size. Send the size in hexadecimal, CRLF, that many bytes, CRLF.",
            )
        self._left = int(digits, 16)
        if self._left == 0:
            self._step = self._trailer
            return after
        self._chunks += 1
        if self._chunks > self._max_chunks:
            raise HttpError(
                400,
                f"The request body has more than {self._max_chunks} chunks. Send larger chunks, or a Content-Length.",
            )
        self._size += self._left
        if self._size > self._limit:
            raise HttpError(400, self._too_large)
        self._step = self._content
        return after

    def _content(self, data: bytes, at: int, feed: Feed) -> int:
        piece = data[at : at + self._left]
        self._left -= len(piece)
        feed(piece)
        if self._left == 0:
            self._step = self._content_end
        return at + len(piece)

    def _content_end(self, data: bytes, at: int, feed: Feed) -> int:
        missing = data[at : at + 2 - len(self._line)]
        self._line += missing
        if not b"\r\n".startswith(self._line):
            raise HttpError(
                400,
                "A chunk is longer than its size says. Send as many bytes as announced, then CRLF.",
            )
        if self._line == b"\r\n":
            self._line = b""
            self._step = self._size_line
        return at + len(missing)

    def _trailer(self, data: bytes, at: int, feed: Feed) -> int:
        after = self._read_line(data, at)
        if after < 0:
            return len(data)
        self._trailer_bytes += len(self._line)
        if self._trailer_bytes > _MAX_TRAILERS:
            raise HttpError(
                431,
                f"The trailers are longer than {_MAX_TRAILERS} bytes together. Send fewer of them.",
            )
        if self._line == b"\r\n":
            self._step = self._finished
        elif not _TRAILER(self._line):
            raise HttpError(
                400,
                "A trailer is not a header line. Send NAME: VALUE behind the last chunk, or nothing but CRLF.",
            )
        self._line = b""
        return after

    def _finished(self, data: bytes, at: int, feed: Feed) -> int:
        return at


Dispatch = collections.abc.Callable[[RequestHead, FastHandler, HttpRequest, int], None]
"""Calls the handler of a complete request: its head, handler, request and `RequestContext.received_ns`."""


class WholeBody:
    """Collects the body of a fast-lane request: a single piece is kept as it came, several are copied once.

    Args:
        started_ns: as in `RequestDispatcher.dispatch`.
        spill: called once the body is large, if its length is not known before: where the rest is to go with what came so far; None for nowhere else.
    """

    __slots__ = ("_buffer", "_dispatch", "_first", "_handler", "_spill", "_spilled", "head", "started_ns")  # fmt: skip

    def __init__(
        self,
        head: RequestHead,
        handler: FastHandler,
        started_ns: int,
        dispatch: Dispatch,
        *,
        spill: collections.abc.Callable[[], "DirectBody | None"] | None = None,
    ) -> None:
        self.head = head
        self.started_ns = started_ns
        self._handler = handler
        self._dispatch = dispatch
        self._first = b""
        self._buffer: io.BytesIO | None = None
        self._spill = spill
        self._spilled: DirectBody | None = None

    def feed(self, piece: bytes) -> None:
        """The next piece."""
        if self._buffer is not None:
            self._buffer.write(piece)
            if self._spill is not None and self._buffer.tell() >= _SPILLED:
                spill, self._spill = self._spill, None
                self._spilled = spill()
                if self._spilled is not None:
                    self._spilled.add(self._buffer.getvalue())
                    self._buffer = None
                    self._first = b""
        elif self._spilled is not None:
            self._spilled.add(piece)
        elif not self._first:
            self._first = piece
        else:
            self._buffer = io.BytesIO()
            self._buffer.write(self._first)
            self._buffer.write(piece)

    def end(self) -> None:
        """The body is complete."""
        if self._spilled is not None:
            self._spilled.end()
            return
        # getvalue hands the buffer itself over when nothing else writes to it: no second copy
        whole = self._first if self._buffer is None else self._buffer.getvalue()
        self._dispatch(self.head, self._handler, self.head.request(whole), self.started_ns)


class DirectBody(LengthBody):
    """The body of a fast-lane request that is received into shared memory: straight from the socket where it can, so that no copy of it is made. It is its own sink.

    Args:
        memory: for the whole body, and `at` bytes before it. One of unknown length need not fill it.
        started_ns: as in `RequestDispatcher.dispatch`.

    Attributes:
        memory: the same. The next byte goes to the place that is `rest` bytes from its end.
        size: bytes of the memory.
    """

    __slots__ = ("_dispatch", "_handler", "_start", "head", "memory", "size", "started_ns")

    def __init__(
        self,
        head: RequestHead,
        handler: FastHandler,
        started_ns: int,
        dispatch: Dispatch,
        *,
        memory: memoryview,
        at: int,
    ) -> None:
        super().__init__(len(memory) - at)
        self.head = head
        self.started_ns = started_ns
        self._handler = handler
        self._dispatch = dispatch
        self._start = at
        self.memory = memory
        self.size = len(memory)

    def add(self, piece: bytes) -> None:
        """The next piece, which was read elsewhere."""
        self.rest -= len(piece)
        self.feed(piece)

    def feed(self, piece: bytes) -> None:
        """A piece that `rest` does not count any more."""
        end = self.size - self.rest
        self.memory[end - len(piece) : end] = piece

    def end(self) -> None:
        """The body is complete."""
        whole = self.memory[self._start : self.size - self.rest].toreadonly()
        head = self.head
        request = HttpRequest(head.method, head.path, head.headers, b"", None, whole)
        self._dispatch(head, self._handler, request, self.started_ns)
