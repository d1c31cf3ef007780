"""DATA frames as they come: windows, lengths, and where the bytes go (RFC 9113, sections 5.2 and 6.1).

A frame need not be whole to be taken: what has come of it is passed on, so that nothing is put together twice. Frames with the same head, as
most are in a long message, are taken in one go. Data of a stream with a `Filling` are copied to where they belong, once.
"""

from naiad.protocol.transport.http2 import frames
from naiad.protocol.transport.http2.errors import ConnectionFault, ErrorCode, StreamFault
from naiad.protocol.transport.http2.events import DataReceived, Event, StreamReset
from naiad.protocol.transport.http2.floods import Cheap, Floods
from naiad.protocol.transport.http2.frames import (
    END_STREAM,
    HEAD_BYTES,
    MAX_FRAME_BYTES,
    PADDED,
    Kind,
)
from naiad.protocol.transport.http2.open_streams import OpenStreams
from naiad.protocol.transport.http2.streams import Filling, State, Step, Stream

_CLOSED = State.CLOSED
_STEP_DATA, _LAST_DATA = Step.DATA, Step.LAST_DATA
_RULE = frames.RULES[Kind.DATA]


class IncomingData:
    """The DATA of one connection.

    Args:
        window: bytes of data that may be on their way on all streams together.

    Attributes:
        credit: bytes that came and were not given back to the window.
        left: bytes of the last frame that are still to come, padding included.
        stream: of the last frame, unless it ended with it.
    """

    __slots__ = ("_ended", "_floods", "_padding", "_streams", "_window", "credit", "left", "stream")  # fmt: skip

    def __init__(self, streams: OpenStreams, floods: Floods, window: int) -> None:
        self._streams = streams
        self._floods = floods
        self._window = window
        self.credit = 0
        self.left = 0
        self._padding = 0
        self.stream: Stream | None = None
        self._ended = False

    def take(  # noqa: PLR0917 - an object for them would be one more for every frame
        self, flags: int, number: int, size: int, data: bytes, at: int, events: list[Event]
    ) -> int:
        """Take a frame whose head is at `data[at]`, and those behind it that have the same head; returns where the next one begins.

        It returns `at` if what is needed of the frame has not come.

        Raises:
            ConnectionFault: the client breaks a rule of the connection.
        """
        frames.check(_RULE, number, size)
        start, end = at + HEAD_BYTES, len(data)
        stop = after = start + size
        padding = 0
        if flags & PADDED:
            if start == end and size:
                return at
            start, stop = frames.unpadded(data, start, stop, Kind.DATA)
            padding = after - stop
        ended = bool(flags & END_STREAM)
        try:
            stream = self._admit(number, stop - start, size, ended=ended)
        except StreamFault as fault:
            refuse(self._streams, self._floods, number, fault, events)
            stream = None
        if after > end:
            self.left, self._padding, self.stream, self._ended = after - end, padding, stream, ended  # fmt: skip
            if stream is not None:
                ended = ended and stop <= end
                if ended:
                    self.stream = None  # only padding is missing
                if ended or start < end or start == stop:
                    self._pass_on(stream, data, start, min(stop, end), events, ended=ended)
            return end
        self._padding, self.stream, self._ended = 0, None if ended else stream, False
        if stream is not None:
            event = self._pass_on(stream, data, start, stop, events, ended=ended)
            if size and not flags:
                return self._alike(event, size, data, at, after)
        return after

    def go_on(self, data: bytes, events: list[Event]) -> int:
        """Take what has come of the rest of the last frame; returns where the next one begins."""
        came = min(self.left, len(data))
        payload = max(0, min(came, self.left - self._padding))
        self.left -= came
        stream = self.stream
        if stream is not None:
            ended = self._ended and self.left <= self._padding
            if payload or ended:
                self._pass_on(stream, data, 0, payload, events, ended=ended)
            if ended:
                self.stream = None
        if not self.left:
            self._padding, self._ended = 0, False
        return came

    def _admit(self, number: int, length: int, size: int, *, ended: bool) -> Stream | None:
        """Count a frame with `length` bytes of data, of which `size` count for the windows; returns its stream, None for one that we have ended.

        Raises:
            StreamFault, ConnectionFault: the client may not send it now.
        """
        self.credit += size
        if self.credit > self._window:
            raise ConnectionFault(
                ErrorCode.FLOW_CONTROL_ERROR,
                "more DATA than the connection's window (section 6.9.1)",
            )
        step = _LAST_DATA if ended else _STEP_DATA
        stream = self._streams.by_id.get(number)
        if stream is None:
            self._streams.absent(number, step)
            return None
        stream.step(step)
        if not length and not ended:
            self._floods.add(Cheap.EMPTY_DATA)
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise StreamFault(
                ErrorCode.FLOW_CONTROL_ERROR,
                f"more DATA than the window of stream {number} (section 6.9.1)",
            )
        if stream.expected >= 0:
            stream.expected -= length
            if stream.expected < 0 or (ended and stream.expected):
                raise StreamFault(
                    ErrorCode.PROTOCOL_ERROR, "DATA do not fit content-length (section 8.1.1)"
                )
        if stream.state is _CLOSED:
            del self._streams.by_id[number]
        return stream

    @staticmethod
    def _pass_on(
        stream: Stream, data: bytes, start: int, stop: int, events: list[Event], *, ended: bool
    ) -> DataReceived:
        filling = stream.filling
        if filling is not None:
            start += filling.put(data, start, stop)
        event = DataReceived(stream, data, start, stop, ended)
        events.append(event)
        return event

    def _alike(self, event: DataReceived, size: int, data: bytes, at: int, following: int) -> int:
        """Take the frames that follow `event`'s and have the same head, that at `data[at]`, as far as they are whole and nothing forbids them."""
        stream = event.stream
        filling = stream.filling
        most = (len(data) - following) // (HEAD_BYTES + size)
        if filling is not None:
            most = 0 if event.start < event.end else min(most, filling.missing // size)
        taken = self._count(stream, data[at : at + HEAD_BYTES], size, data, following, most)
        if not taken:
            return following
        start, stride = following + HEAD_BYTES, HEAD_BYTES + size
        if filling is not None:
            filling.put_alike(data, start, size, taken)
        else:
            event.more = [
                (begin, begin + size) for begin in range(start, start + taken * stride, stride)
            ]
        return following + taken * stride

    @property
    def fills(self) -> bool:
        """Whether the data that are expected next, the rest of the last frame or the frame behind it, go to a stream's `Filling`."""
        return self.stream is not None and self.stream.filling is not None

    @property
    def awaited(self) -> int:
        """Bytes that come at least, heads of frames included, until the message is whole that goes to a stream's `Filling`, or until the client needs credit; 0 if none goes there."""
        stream = self.stream
        filling = None if stream is None else stream.filling
        if stream is None or filling is None:
            return 0
        behind = min(filling.missing - self.left, stream.receive_window, self._window - self.credit)
        if behind <= 0 or self._ended:
            return self.left
        return self.left + behind + HEAD_BYTES * -(-behind // MAX_FRAME_BYTES)

    def fill(self, data: bytearray, end: int, events: list[Event]) -> int:
        """Take what belongs to a stream's `Filling` at the beginning of `data[:end]`; nothing refers to `data` afterwards.

        Returns:
            How much was taken: 0 if there is no such stream, and no more than what nothing forbids.
        """
        stream = self.stream
        filling = None if stream is None else stream.filling
        came = min(self.left, end)
        if stream is None or filling is None or self._padding or came > filling.missing:
            return 0
        filling.put(data, 0, came)
        self.left -= came
        ended = self._ended and not self.left
        at = came
        if ended:
            self.stream = None
        elif not self.left:
            at = self._fill_frames(stream, filling, data, at, end)
        if at:
            events.append(DataReceived(stream, b"", 0, 0, ended))
        return at

    def _fill_frames(
        self, stream: Stream, filling: Filling, data: bytearray, at: int, end: int
    ) -> int:
        """Take the frames from `data[at]` on that have one head, go to `filling` and do not end the stream; the last one need not be whole. Returns where they end."""
        if end - at < HEAD_BYTES:
            return at
        head = data[at : at + HEAD_BYTES]
        size = int.from_bytes(head[:3], "big")
        if not 0 < size <= MAX_FRAME_BYTES or head[3:] != frames.head(0, Kind.DATA, 0, stream.id)[3:]:  # fmt: skip
            return at
        stride = HEAD_BYTES + size
        most = min((end - at) // stride, filling.missing // size)
        taken = self._count(stream, head, size, data, at, most)
        if taken:
            filling.put_alike(data, at + HEAD_BYTES, size, taken)
            at += taken * stride
        start = at + HEAD_BYTES
        if (
            start <= end < start + size <= start + filling.missing
            and data.startswith(head, at)
            and self._count(stream, head, size, data, at, 1)
        ):
            filling.put(data, start, end)
            self.left, self._padding, self.stream, self._ended = start + size - end, 0, stream, False  # fmt: skip
            at = end
        return at

    def _count(  # noqa: PLR0917 - as above
        self, stream: Stream, head: bytes | bytearray, size: int, data: bytes | bytearray, at: int, most: int,
    ) -> int:  # fmt: skip
        """Count the frames of `size` bytes from `data[at]` on that have this head, at most `most`, as far as no window and no length forbids them."""
        most = min(most, stream.receive_window // size, (self._window - self.credit) // size)
        if stream.expected >= 0:
            most = min(most, stream.expected // size)
        taken, stride = 0, HEAD_BYTES + size
        while taken < most and data.startswith(head, at + taken * stride):
            taken += 1
        stream.receive_window -= taken * size
        self.credit += taken * size
        if stream.expected >= 0:
            stream.expected -= taken * size
        return taken


def refuse(
    streams: OpenStreams, floods: Floods, number: int, fault: StreamFault, events: list[Event]
) -> None:
    """End a stream whose client broke a rule.

    Raises:
        ConnectionFault: that are too many in a second.
    """
    floods.add(Cheap.FAULT)
    stream = streams.refuse(number, fault.code)
    if stream is not None:
        events.append(StreamReset(stream, fault.code))
