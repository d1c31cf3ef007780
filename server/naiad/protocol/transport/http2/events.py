"""What a connection says to its user: the events that `Http2Server.receive` returns."""

import collections.abc

import msgspec

from naiad.protocol.transport.http2.errors import ErrorCode
from naiad.protocol.transport.http2.header_blocks import Headers
from naiad.protocol.transport.http2.streams import Stream


class RequestReceived(msgspec.Struct, gc=False):
    """A stream begins. `ended`: nothing follows. Of headers that are larger than we announce there may be only the size."""

    stream: Stream
    headers: Headers
    ended: bool


class DataReceived(msgspec.Struct, gc=False):
    """Data of a request: `buffer[start:end]`, not cut out so that the user copies them once. `ended`: nothing follows.

    What went into the stream's `Filling` is not among them: with nothing else the data are empty.

    Attributes:
        more: where further data behind them begin and end.
    """

    stream: Stream
    buffer: bytes
    start: int
    end: int
    ended: bool
    more: collections.abc.Sequence[tuple[int, int]] = ()


class WholeRequest(msgspec.Struct, gc=False):
    """A stream begins, and all its data have come: `RequestReceived` and `DataReceived` in one, as nearly every unary call comes."""

    stream: Stream
    headers: Headers
    buffer: bytes
    start: int
    end: int
    ended: bool = True
    more: collections.abc.Sequence[tuple[int, int]] = ()


Data = DataReceived | WholeRequest
"""What brings data."""


class StreamEnded(msgspec.Struct, gc=False):
    """The client has finished sending, with trailers."""

    stream: Stream


class StreamReset(msgspec.Struct, gc=False):
    """A stream is gone: the client reset it, or it broke a rule and `code` was sent."""

    stream: Stream
    code: int


class StreamDrained(msgspec.Struct, gc=False):
    """All data that waited for windows are sent."""

    stream: Stream


class PingReceived(msgspec.Struct, gc=False):
    """The client pings; the answer is written."""


class PingAnswered(msgspec.Struct, gc=False):
    """The client answers a ping of ours."""

    payload: bytes


class GoAwayReceived(msgspec.Struct, gc=False):
    """The client opens no more streams."""


class ConnectionFailed(msgspec.Struct, gc=False):
    """The client broke a rule of the connection. GOAWAY is written: send it, then close."""

    code: ErrorCode
    why: str


Event = (
    RequestReceived
    | DataReceived
    | WholeRequest
    | StreamEnded
    | StreamReset
    | StreamDrained
    | PingReceived
    | PingAnswered
    | GoAwayReceived
    | ConnectionFailed
)
