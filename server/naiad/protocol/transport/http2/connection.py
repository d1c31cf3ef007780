"""A server's side of one HTTP/2 connection without I/O: bytes in, events out; calls in, bytes out (RFC 9113).

`receive` takes what the socket has and returns events. What is to be written is in `sender.out`, which the user takes and replaces.
The rules are tables: `frames.RULES`, `settings.RULES`, `streams.TRANSITIONS`, `header_rules`, `floods.PER_SECOND`. Priorities are ignored,
as section 5.3 allows, and nothing is pushed.
"""

import struct

import hpack
import msgspec

from naiad.protocol.transport.http2 import frames, settings
from naiad.protocol.transport.http2.control_frames import ControlFrames, preface_end
from naiad.protocol.transport.http2.errors import ConnectionFault, ErrorCode, StreamFault
from naiad.protocol.transport.http2.events import (
    ConnectionFailed,
    Event,
    RequestReceived,
    StreamEnded,
    WholeRequest,
)
from naiad.protocol.transport.http2.floods import Cheap, Floods
from naiad.protocol.transport.http2.frames import (
    END_HEADERS,
    END_STREAM,
    HAS_PRIORITY,
    HEAD_BYTES,
    MAX_FRAME_BYTES,
    MAX_STREAM_ID,
    PADDED,
    READ_HEAD,
    Kind,
)
from naiad.protocol.transport.http2.header_blocks import (
    MAX_BLOCK_BYTES,
    MAX_LIST_BYTES,
    TOO_LONG,
    Block,
    BlockCache,
    Headers,
    decode,
    decoder,
    gives_up_table,
)
from naiad.protocol.transport.http2.header_rules import trailers_fault
from naiad.protocol.transport.http2.incoming_data import IncomingData, refuse
from naiad.protocol.transport.http2.open_block import OpenBlock
from naiad.protocol.transport.http2.open_streams import DRAIN_PING, OpenStreams
from naiad.protocol.transport.http2.sender import Sender
from naiad.protocol.transport.http2.settings import INITIAL_TABLE, INITIAL_WINDOW, STREAM_WINDOW
from naiad.protocol.transport.http2.streams import State, Step, Stream

_HEADERS, _CONTINUATION = int(Kind.HEADERS), int(Kind.CONTINUATION)
_CLOSED, _OPEN, _HALF_CLOSED = State.CLOSED, State.OPEN, State.HALF_CLOSED_REMOTE

_READ_LONG = struct.Struct(">I").unpack_from

TURN_UNITS = 1_024
"""How much is handled in one call of `receive`, in units of some microseconds: a frame is one of them, a header block one for each 64 bytes of its list and
each 16 of its own. A read of 256 KB can hold what takes a tenth of a second."""


class Limits(msgspec.Struct, frozen=True):
    """What one connection may have.

    Attributes:
        streams: at once (SETTINGS_MAX_CONCURRENT_STREAMS).
        connection_window: bytes of data that may be on their way on all streams together. Credit is given back as they come: what a client
            may leave here is bounded by the windows of its streams.
    """

    streams: int = 4_096
    connection_window: int = 16_777_216


class Http2Server:
    """One connection.

    Attributes:
        sender: its sending half.
        incoming: the data that come.
        began: the client's preface has come.
        asked: the client was asked to give up its table.
        behind: frames that have come wait for the next turn: call `receive`, with no bytes, once others had theirs.
        streams: those that are open, and what is sent on them.
    """

    __slots__ = (
        "_block", "_blocks", "_control", "_decoder", "_events", "_floods", "_limits", "_turn", "_unread",
        "asked", "began", "behind", "failed", "incoming", "sender", "streams",
    )  # fmt: skip

    def __init__(self, blocks: BlockCache, limits: Limits) -> None:
        self._limits = limits
        self._blocks = blocks
        self._decoder: hpack.Decoder | None = decoder(INITIAL_TABLE)
        self._floods = Floods()
        self._unread = b""
        self._turn = TURN_UNITS
        self.began = self.asked = self.behind = False
        self._block: OpenBlock | None = None
        self._events: list[Event] = []
        self.failed = False
        self.sender = Sender()
        self.streams = OpenStreams(self.sender)
        self._control = ControlFrames(self.sender, self.streams, self._floods)
        self.incoming = IncomingData(self.streams, self._floods, limits.connection_window)
        self.sender.out += (
            frames.settings(
                {
                    settings.MAX_CONCURRENT_STREAMS: limits.streams,
                    settings.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                    settings.MAX_HEADER_LIST_SIZE: MAX_LIST_BYTES,
                }
            ),
            frames.window_update(0, limits.connection_window - INITIAL_WINDOW),
        )

    # What comes

    def receive(self, data: bytes) -> list[Event]:
        """Take bytes. Never raises: what breaks a rule of the connection is the last event, and GOAWAY is written."""
        events: list[Event] = []
        if self.failed:
            return events
        self._events = events
        self._turn = TURN_UNITS
        if self._unread:
            data = self._unread + data
        at = 0
        try:
            if self.incoming.left:
                at = self.incoming.go_on(data, events)
            if not self.began:
                at = preface_end(data)
                self.began = at > 0
            if self.began:
                at = self._frames(data, at)
        except ConnectionFault as fault:
            self.fail(fault.code, str(fault))
        self._unread = data[at:] if at < len(data) and not self.failed else b""
        self.behind = self._turn <= 0 and len(self._unread) >= HEAD_BYTES
        if self.incoming.credit >= self._limits.connection_window >> 1:
            self._return_credit()
        return events

    def receive_in(self, buffer: bytearray, count: int) -> list[Event]:
        """As `receive` of `buffer[:count]`, which is used again: what goes to the `Filling` of a stream is not copied before."""
        events: list[Event] = []
        usual = self.failed or self._unread
        at = 0 if usual else self.incoming.fill(buffer, count, events)
        if at < count:
            events += self.receive(bytes(memoryview(buffer)[at:count]))
        else:
            self._return_credit()
        return events

    @property
    def fills(self) -> bool:
        """See `IncomingData`."""
        return self.incoming.fills

    @property
    def awaited(self) -> int:
        """See `IncomingData`."""
        return self.incoming.awaited

    def _frames(self, data: bytes, at: int) -> int:
        """Take the frames from `data[at]` on; returns where the one begins that is not whole."""
        end = len(data)
        while end - at >= 9 and self._turn > 0:  # noqa: PLR2004 - HEAD_BYTES, as a constant of the code
            size_and_kind, flags, stream_id = READ_HEAD(data, at)
            kind = size_and_kind & 0xFF
            if (
                flags == END_HEADERS
                and kind == _HEADERS
                and self._decoder is None
                and (whole := self._whole_request(stream_id, data, at + 9, size_and_kind >> 8, end))
            ):
                at = whole
                continue
            self._turn -= 1
            size = size_and_kind >> 8
            if not kind and self._block is None and size <= MAX_FRAME_BYTES:
                number = stream_id & MAX_STREAM_ID
                following = self.incoming.take(flags, number, size, data, at, self._events)
                if following == at:
                    break
                at = following
                continue
            start = at + 9
            following = start + size
            if following > end and size <= MAX_FRAME_BYTES:
                break
            self._frame(kind, flags, stream_id & MAX_STREAM_ID, data, start, following)
            at = following
        return at

    def _whole_request(self, number: int, data: bytes, start: int, length: int, end: int) -> int:
        """Take a request in one frame of each kind, as nearly every unary call comes: HEADERS, whose `length` bytes begin at `data[start]`, and DATA behind them.

        The effects are those of the frames taken one by one. Returns where the next frame begins; 0 if anything is not as usual: then nothing has
        changed, and the frames are taken one by one.
        """
        following = start + length
        start_of_data = following + 9
        if start_of_data > end:
            return 0
        head: tuple[int, int, int] = READ_HEAD(data, following)
        size_and_kind, flags, other = head
        size = size_and_kind >> 8
        end_of_data = start_of_data + size
        streams, incoming = self.streams, self.incoming
        by_id = streams.by_id
        credit = incoming.credit + size
        if (
            size_and_kind & 0xFF  # DATA is 0
            or flags != END_STREAM
            or other != number
            or end_of_data > end
            or number <= streams.last_id
            or not number & 1
            or (length | size) > MAX_FRAME_BYTES  # no bit above that of the limit
            or self._block is not None
            or streams.final is not None
            or len(by_id) >= self._limits.streams
            or credit > self._limits.connection_window
        ):
            return 0
        headers = self._blocks.read(data[start:following])
        block = headers.block
        if block.fault or block.content_length not in (-1, size):
            return 0
        self._turn -= block.size >> 6
        streams.last_id = number
        incoming.credit = credit
        stream = by_id[number] = Stream(
            number, _HALF_CLOSED, self.sender.initial_window, STREAM_WINDOW - size
        )
        self._events.append(WholeRequest(stream, headers, data, start_of_data, end_of_data))
        return end_of_data

    def _frame(  # noqa: PLR0917 - an object for them would be one more for every frame
        self, kind: int, flags: int, number: int, data: bytes, start: int, end: int
    ) -> None:
        """One frame, whose payload is `data[start:end]`, by its rule."""
        size = end - start
        if size > MAX_FRAME_BYTES:
            raise ConnectionFault(
                ErrorCode.FRAME_SIZE_ERROR, f"a frame with {size} bytes (section 4.2)"
            )
        if self._block is not None and (kind != _CONTINUATION or number != self._block.stream_id):
            raise ConnectionFault(
                ErrorCode.PROTOCOL_ERROR,
                f"a frame of kind {kind} on stream {number} inside the header block of stream {self._block.stream_id} (section 6.10)",
            )
        if kind >= len(frames.RULES):
            self._floods.add(Cheap.UNKNOWN)
            return
        rule = frames.RULES[kind]
        frames.check(rule, number, size)
        if rule.padded and flags & PADDED:
            start, end = frames.unpadded(data, start, end, rule.kind)
        try:
            if kind == _HEADERS:
                self._headers(flags, number, data, start, end)
            elif kind == _CONTINUATION:
                self._continuation(flags, number, data[start:end])
            else:
                self._events += self._control.receive(kind, flags, number, data[start:end])
        except StreamFault as fault:
            refuse(self.streams, self._floods, number, fault, self._events)

    def _headers(self, flags: int, number: int, data: bytes, start: int, end: int) -> None:
        """HEADERS (section 6.2)."""
        if flags & HAS_PRIORITY:
            if end - start < 5:  # noqa: PLR2004 - bytes of the priority fields
                raise ConnectionFault(
                    ErrorCode.FRAME_SIZE_ERROR, "HEADERS without its priority (section 6.2)"
                )
            if _READ_LONG(data, start)[0] & MAX_STREAM_ID == number:
                self._depends_on_itself(number, data[start + 5 : end], flags)
            start += 5
        if flags & END_HEADERS:
            self._complete(number, data[start:end], flags)
        else:
            self._block = OpenBlock(number, flags, data[start:end])

    def _depends_on_itself(self, number: int, block: bytes, flags: int) -> None:
        """A stream that depends on itself; RFC 7540, section 5.3.1. RFC 9113 ignores priorities, and tools still test this one."""
        if flags & END_HEADERS and self._decoder is not None:
            decode(self._decoder, block)
        self.streams.last_id = max(self.streams.last_id, number)
        raise StreamFault(ErrorCode.PROTOCOL_ERROR, f"stream {number} depends on itself")

    def _continuation(self, flags: int, number: int, payload: bytes) -> None:
        """CONTINUATION (section 6.10)."""
        block = self._block
        if block is None:
            raise ConnectionFault(
                ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS (section 6.10)"
            )
        block.add(payload)
        if flags & END_HEADERS:
            self._block = None
            self._complete(number, block.content(), block.flags, whole=block.is_whole)

    def _complete(self, number: int, block: bytes, flags: int, *, whole: bool = True) -> None:
        """A whole header block: a request, or the trailers of one."""
        headers = self._decoded(block, whole=whole)
        self._turn -= (headers.block.size >> 6) + (len(block) >> 4)
        ended = bool(flags & END_STREAM)
        if number <= self.streams.last_id:
            self._trailers(number, headers, ended=ended)
            return
        if not number & 1:
            raise ConnectionFault(
                ErrorCode.PROTOCOL_ERROR, f"a client opens stream {number} (section 5.1.1)"
            )
        self.streams.last_id = number
        if self.streams.final is not None:
            raise StreamFault(ErrorCode.REFUSED_STREAM, "behind the last stream (section 6.8)")
        if len(self.streams) >= self._limits.streams:
            raise StreamFault(
                ErrorCode.REFUSED_STREAM,
                f"more than {self._limits.streams} streams (section 5.1.2)",
            )
        decoded = headers.block
        if decoded.fault:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, decoded.fault)
        if ended and decoded.content_length > 0:
            raise StreamFault(
                ErrorCode.PROTOCOL_ERROR, "no DATA for content-length (section 8.1.1)"
            )
        stream = Stream(
            number, _HALF_CLOSED if ended else _OPEN, self.sender.initial_window, STREAM_WINDOW
        )
        stream.expected = decoded.content_length
        self.streams.by_id[number] = stream
        self._events.append(RequestReceived(stream, headers, ended))

    def _decoded(self, block: bytes, *, whole: bool) -> Headers:
        """The fields of a block; of one that was too long to be kept `block` is how it begins."""
        if self._control.acknowledged > 1 and self._decoder is not None and gives_up_table(block):
            self._decoder = None
        if whole and self._decoder is None:
            return self._blocks.read(block)
        if self._decoder is None:
            return TOO_LONG
        if whole:
            return Headers(Block(decode(self._decoder, block)))
        why = f"a header block of more than {MAX_BLOCK_BYTES} bytes (section 10.5.1)"
        raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, why)

    def _trailers(self, number: int, headers: Headers, *, ended: bool) -> None:
        step = Step.TRAILERS if ended else Step.HEADERS
        stream = self.streams.by_id.get(number)
        if stream is None:
            self.streams.absent(number, step)
            return
        stream.step(step)
        fault = trailers_fault(headers.fields)
        if fault or stream.expected > 0:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, fault or "too few DATA (section 8.1.1)")
        if stream.state is _CLOSED:
            del self.streams.by_id[number]
        self._events.append(StreamEnded(stream))

    # What is sent

    def _return_credit(self) -> None:
        """Give back the connection's window once half of it is used."""
        incoming = self.incoming
        if incoming.credit >= self._limits.connection_window >> 1 and not self.failed:
            self.sender.out.append(frames.window_update(0, incoming.credit))
            incoming.credit = 0

    def ping(self, payload: bytes) -> None:
        """Ask whether the client is there."""
        self.sender.out.append(frames.ping(payload))

    def give_up_table(self) -> None:
        """Ask the client to send header blocks that need no dynamic table, see `header_blocks`. Idempotent."""
        if not self.asked:
            self.asked = True
            self.sender.out.append(frames.settings({settings.HEADER_TABLE_SIZE: 0}))

    def tick(self) -> None:
        """A second has passed, see `floods`."""
        self._floods.tick()

    # The end

    def go_away(self, why: str = "") -> None:
        """Ask the client to open no more streams, and serve those that it opens all the same (section 6.8). `PingAnswered` with `DRAIN_PING` says that it knows."""
        out = self.sender.out
        out.append(frames.goaway(MAX_STREAM_ID, ErrorCode.NO_ERROR, why))
        out.append(frames.ping(DRAIN_PING))

    def finish(self, why: str = "") -> None:
        """Serve no streams but those that have begun. Idempotent."""
        self.streams.finish(why)

    def fail(self, code: ErrorCode, why: str) -> None:
        """End the connection with GOAWAY (section 5.4.1)."""
        if not self.failed:
            self.failed = True
            self.sender.out.append(frames.goaway(self.streams.last_id, code, why))
            self._events.append(ConnectionFailed(code, why))
