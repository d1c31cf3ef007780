"""The sending half of a connection: headers, data within the client's windows, what waits for them (RFC 9113, sections 5.2 and 6.9).

What is to be sent is collected in `out`; the user of the protocol writes it, once per iteration of its loop.
"""

import collections
import collections.abc

from naiad.protocol.transport.http2 import settings
from naiad.protocol.transport.http2.errors import ConnectionFault, ErrorCode, StreamFault
from naiad.protocol.transport.http2.frames import (
    END_HEADERS,
    END_STREAM,
    MAX_FRAME_BYTES,
    MAX_WINDOW,
    PACK_HEAD,
    Kind,
    head,
    header_frames,
)
from naiad.protocol.transport.http2.streams import AFTER_END, State, Step, Stream

Written = bytes | memoryview

NO_TABLE = b"\x20"
"""In front of a block: the dynamic table holds no bytes from now on (RFC 7541, section 6.3)."""

TURN_BYTES = 2_097_152
"""Of long data, sent in one iteration of the loop."""

_HEADERS = int(Kind.HEADERS)
_TRAILERS_END = END_HEADERS | END_STREAM


class Envelope:
    """What stands around the data of responses that differ in their data alone.

    Attributes:
        headers, trailers: their header blocks, each short enough for one frame of any client.
        before_headers, before_trailers: the heads of those frames, up to the number of the stream.
    """

    __slots__ = ("before_headers", "before_trailers", "headers", "trailers")

    def __init__(self, headers: bytes, trailers: bytes) -> None:
        self.headers, self.trailers = headers, trailers
        self.before_headers = PACK_HEAD(len(headers) << 8 | _HEADERS, END_HEADERS, 0)[:-4]
        self.before_trailers = PACK_HEAD(len(trailers) << 8 | _HEADERS, _TRAILERS_END, 0)[:-4]


class Sender:
    """Attributes.

    Attributes:
        out: what is to be written, in order.
        window: bytes that the client takes on all streams together.
        initial_window: that of new streams.
        frame_limit: the largest payload that the client takes.
        held: the socket takes no more: data wait here, so that `unsent_bytes` counts them.
        turn: bytes of long data that may still be sent before `out` is taken the next time, so that many megabytes neither keep the loop nor wait in the socket's buffer.
        sent: headers, data or room for the client's data were sent; its reader sets it back.
        table_bytes: the client's dynamic table may be as large as it believes: 4,096, and 0 once a block has said that nothing goes into it.
        announces_table: the next block says that.
    """

    __slots__ = (
        "_waiting",
        "announces_table",
        "frame_limit",
        "held",
        "initial_window",
        "out",
        "sent",
        "table_bytes",
        "turn",
        "window",
    )

    def __init__(self) -> None:
        self.out: list[Written] = []
        self.window = settings.INITIAL_WINDOW
        self.initial_window = settings.INITIAL_WINDOW
        self.frame_limit = MAX_FRAME_BYTES
        self.held = False
        self.sent = False
        self.table_bytes = settings.INITIAL_TABLE
        self.announces_table = False
        self.turn = TURN_BYTES
        self._waiting: dict[Stream, None] = {}

    def headers(self, stream: Stream, block: bytes, *, end_stream: bool = False) -> None:
        """Send a header block."""
        self.sent = True
        if self.announces_table:
            self.announces_table = False
            self.table_bytes = 0
            block = NO_TABLE + block
        self.out.append(
            header_frames(stream.id, block, end_stream=end_stream, limit=self.frame_limit)
        )
        if end_stream:
            stream.step(Step.END)

    def response(self, stream: Stream, around: Envelope, prefix: bytes, data: bytes) -> None:
        """Send a whole response and end the stream; in one piece where the windows have room and all of it is short."""
        size = len(prefix) + len(data)
        if (
            size > stream.send_window
            or size > self.window
            or size > self.frame_limit
            or self._waiting
            or self.held
            or self.announces_table
        ):
            self.headers(stream, around.headers)
            self.data(stream, prefix + data)
            self.trailers(stream, around.trailers)
            return
        self.sent = True
        stream.send_window -= size
        self.window -= size
        head = PACK_HEAD(size << 8, 0, stream.id)
        number = head[-4:]
        self.out.append(
            b"".join(
                (
                    around.before_headers, number, around.headers, head, prefix, data,
                    around.before_trailers, number, around.trailers,
                )
            )
        )  # fmt: skip
        stream.state = AFTER_END[stream.state]

    def data(self, stream: Stream, data: bytes) -> None:
        """Send data as far as the windows allow; the rest waits."""
        if not data:
            return
        unsent = stream.unsent
        if not unsent and not self.held:
            size = len(data)
            if size <= stream.send_window and size <= self.window and size <= self.frame_limit:
                stream.send_window -= size
                self.window -= size
                self.sent = True
                self.out.append(head(size, Kind.DATA, 0, stream.id) + data)
                return
        stream.wait(data)
        self._waiting[stream] = None
        if not self.held:
            self._send_waiting(stream)

    def pieces(self, stream: Stream, pieces: collections.abc.Iterable[Written]) -> None:
        """Send long data in pieces, none of them empty; as `data`, but nothing is copied."""
        for piece in pieces:
            stream.wait(piece)
        self._waiting[stream] = None
        if not self.held:
            self._send_waiting(stream)

    def last_data(self, stream: Stream, data: bytes) -> None:
        """Send data and end the stream without trailers."""
        if (
            not stream.unsent
            and not self.held
            and len(data) <= min(stream.send_window, self.window, self.frame_limit)
        ):
            stream.send_window -= len(data)
            self.window -= len(data)
            self.sent = True
            self.out.append(head(len(data), Kind.DATA, END_STREAM, stream.id) + data)
            stream.step(Step.END)
            return
        self.data(stream, data)
        stream.trailers = b""

    def _end(self, stream: Stream) -> None:
        """END_STREAM, on a frame without data or with the trailers that wait."""
        if stream.trailers:
            self.headers(stream, stream.trailers, end_stream=True)
        else:
            self.out.append(head(0, Kind.DATA, END_STREAM, stream.id))
            stream.step(Step.END)

    def trailers(self, stream: Stream, block: bytes) -> None:
        """End the stream with a header block, after its data."""
        if stream.unsent:
            stream.trailers = block
        else:
            self.headers(stream, block, end_stream=True)

    def forget(self, stream: Stream) -> None:
        """A stream is gone: nothing of it is sent."""
        if stream.unsent:
            stream.unsent = None
            stream.unsent_bytes = 0
            self._waiting.pop(stream, None)

    def opened(self, stream: Stream | None, increment: int) -> list[Stream]:
        """The client takes more, on a stream or on the connection (section 6.9.1). Returns the streams whose data are all sent now.

        Raises:
            StreamFault, ConnectionFault: the increment is 0, or the window grows too large.
        """
        if stream is None:
            if not increment:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of 0 (section 6.9)")
            self.window += increment
            if self.window > MAX_WINDOW:
                raise ConnectionFault(
                    ErrorCode.FLOW_CONTROL_ERROR,
                    "the window of the connection overflows (section 6.9.1)",
                )
        else:
            if not increment:
                raise StreamFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of 0 (section 6.9)")
            stream.send_window += increment
            if stream.send_window > MAX_WINDOW:
                raise StreamFault(
                    ErrorCode.FLOW_CONTROL_ERROR,
                    f"the window of stream {stream.id} overflows (section 6.9.1)",
                )
        return self.pump() if self._waiting else []

    def limit_table(self, table_bytes: int) -> None:
        """The client sets the size of its dynamic table: one that is smaller than it was has to be acknowledged by the next block (RFC 7541, section 4.2)."""
        self.announces_table = self.announces_table or table_bytes < self.table_bytes

    def resized(self, streams: dict[int, Stream], initial: int) -> list[Stream]:
        """The client sets the window of its streams (section 6.9.2); see `opened`."""
        change = initial - self.initial_window
        self.initial_window = initial
        for stream in streams.values():
            stream.send_window += change
            if stream.send_window > MAX_WINDOW:
                raise ConnectionFault(
                    ErrorCode.FLOW_CONTROL_ERROR,
                    f"the window of stream {stream.id} overflows (section 6.9.2)",
                )
        return self.pump() if change > 0 else []

    def pump(self) -> list[Stream]:
        """Send what waits, as far as the windows and `turn` allow: some frames of each stream in turn. Returns the streams that wait no more."""
        drained = []
        while self._waiting and self.window > 0 and self.turn > 0 and not self.held:
            sent = False
            frames = 4 if len(self._waiting) > 1 else -1
            for stream in tuple(self._waiting):
                if stream.send_window > 0 and self.window > 0:
                    sent = True
                    if self._send_waiting(stream, frames):
                        drained.append(stream)
            if not sent:
                break
        return drained

    @property
    def wants_turn(self) -> bool:
        """Whether data wait for nothing but the next turn."""
        return self.turn <= 0 < self.window and bool(self._waiting) and not self.held

    def _send_waiting(self, stream: Stream, frames: int = -1) -> bool:
        """Send up to so many frames of a stream that waits; whether all of it is sent."""
        unsent, out, limit = stream.unsent, self.out, self.frame_limit
        room = min(stream.send_window, self.window, self.turn)
        if frames >= 0:
            room = min(room, frames * limit)
        whole = b""
        sent = 0
        while unsent and sent < room:
            size = min(room - sent, limit, stream.unsent_bytes - sent)
            if size == limit:
                whole = whole or head(limit, Kind.DATA, 0, stream.id)
                alike = min(room - sent, len(unsent[0])) // limit
                if alike > 1:
                    sent += _cut(unsent, alike * limit, limit, whole, out)
                    continue
                out.append(whole)
            else:
                out.append(head(size, Kind.DATA, 0, stream.id))
            sent += size
            while size:
                first = unsent[0]
                if len(first) <= size:
                    out.append(unsent.popleft())
                    size -= len(first)
                else:
                    out.append(first[:size])
                    unsent[0] = first[size:]
                    size = 0
        if sent:
            self.sent = True
            stream.send_window -= sent
            self.window -= sent
            self.turn -= sent
            stream.unsent_bytes -= sent
        if unsent:
            return False
        self._waiting.pop(stream, None)
        if stream.trailers is not None and stream.state is not State.CLOSED:
            self._end(stream)
        return True


def _cut(
    unsent: collections.deque[memoryview], size: int, limit: int, whole: bytes, out: list[Written]
) -> int:
    """Take whole frames of `limit` bytes, `size` bytes in all, out of the first piece; returns `size`. A megabyte has 64 of them."""
    first = unsent[0]
    for at in range(0, size, limit):
        out += (whole, first[at : at + limit])
    if size == len(first):
        unsent.popleft()
    else:
        unsent[0] = first[size:]
    return size
