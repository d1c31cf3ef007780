"""The preface, and what a client's control frames change: RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, PRIORITY, PUSH_PROMISE (RFC 9113, sections 6.3 to 6.9)."""

import collections.abc
import struct

from naiad.protocol.transport.http2 import frames, settings
from naiad.protocol.transport.http2.errors import ConnectionFault, ErrorCode, StreamFault
from naiad.protocol.transport.http2.events import (
    Event,
    GoAwayReceived,
    PingAnswered,
    PingReceived,
    StreamDrained,
    StreamReset,
)
from naiad.protocol.transport.http2.floods import Cheap, Floods
from naiad.protocol.transport.http2.frames import ACK, MAX_STREAM_ID, Kind
from naiad.protocol.transport.http2.open_streams import OpenStreams
from naiad.protocol.transport.http2.sender import Sender
from naiad.protocol.transport.http2.streams import Step, Stream

_READ_LONG = struct.Struct(">I").unpack_from

Events = collections.abc.Sequence[Event]


def preface_end(data: bytes) -> int:
    """Where the frames begin, once the preface and the head of the first frame are there; 0 before (section 3.4).

    Raises:
        ConnectionFault: a client of HTTP/2 does not begin like this.
    """
    preface = frames.PREFACE
    if data[: len(preface)] != preface[: len(data)]:
        raise ConnectionFault(
            ErrorCode.PROTOCOL_ERROR, "no HTTP/2 connection preface (section 3.4)"
        )
    if len(data) < len(preface) + frames.HEAD_BYTES:
        return 0
    if data[len(preface) + 3] != Kind.SETTINGS:
        raise ConnectionFault(
            ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS (section 3.4)"
        )
    return len(preface)


class ControlFrames:
    """The control frames of one connection.

    Attributes:
        acknowledged: how many of our SETTINGS the client has acknowledged.
    """

    __slots__ = ("_floods", "_sender", "_streams", "acknowledged")

    def __init__(self, sender: Sender, streams: OpenStreams, floods: Floods) -> None:
        self._sender = sender
        self._streams = streams
        self._floods = floods
        self.acknowledged = 0

    def receive(self, kind: int, flags: int, number: int, payload: bytes) -> Events:
        """Apply one frame of a known kind, whose head follows its rule.

        Raises:
            StreamFault, ConnectionFault: the client may not send it now.
        """
        return _HANDLERS[kind](self, flags, number, payload)

    def _reset(self, flags: int, number: int, payload: bytes) -> Events:
        """RST_STREAM (section 6.4)."""
        del flags
        self._floods.add(Cheap.RESET)
        stream = self._streams.by_id.pop(number, None)
        if stream is None:
            self._streams.absent(number, Step.RESET)
            return ()
        stream.step(Step.RESET)
        self._sender.forget(stream)
        return (StreamReset(stream, _READ_LONG(payload)[0]),)

    def _settings(self, flags: int, number: int, payload: bytes) -> Events:
        """SETTINGS (section 6.5)."""
        del number
        self._floods.add(Cheap.SETTINGS)
        if flags & ACK:
            if payload:
                raise ConnectionFault(
                    ErrorCode.FRAME_SIZE_ERROR, "SETTINGS with ACK and values (section 6.5)"
                )
            self.acknowledged += 1
            return ()
        values = settings.parse(payload)
        sender = self._sender
        sender.frame_limit = min(values.get(settings.MAX_FRAME_SIZE, sender.frame_limit), 1 << 20)
        sender.limit_table(values.get(settings.HEADER_TABLE_SIZE, sender.table_bytes))
        drained: Events = ()
        if settings.INITIAL_WINDOW_SIZE in values:
            initial = values[settings.INITIAL_WINDOW_SIZE]
            drained = self._drained(sender.resized(self._streams.by_id, initial))
        sender.out.append(frames.SETTINGS_ACK)
        return drained

    def _ping(self, flags: int, number: int, payload: bytes) -> Events:
        """PING (section 6.7)."""
        del number
        self._floods.add(Cheap.PING)
        if flags & ACK:
            return (PingAnswered(payload),)
        self._sender.out.append(frames.ping(payload, ack=True))
        return (PingReceived(),)

    def _goaway(self, flags: int, number: int, payload: bytes) -> Events:
        """GOAWAY (section 6.8)."""
        del flags, number, payload
        self._floods.add(Cheap.GOAWAY)
        return (GoAwayReceived(),)

    def _window_update(self, flags: int, number: int, payload: bytes) -> Events:
        """WINDOW_UPDATE (section 6.9)."""
        del flags
        self._floods.add(Cheap.WINDOW_UPDATE)
        increment = _READ_LONG(payload)[0] & frames.MAX_WINDOW
        streams = self._streams
        stream = streams.by_id.get(number) if number else None
        if number and stream is None:
            if number > streams.last_id and streams.final is None:
                raise ConnectionFault(
                    ErrorCode.PROTOCOL_ERROR,
                    f"WINDOW_UPDATE on stream {number}, which is idle (section 5.1)",
                )
            return ()
        return self._drained(self._sender.opened(stream, increment))

    def _priority(self, flags: int, number: int, payload: bytes) -> Events:
        """PRIORITY (section 6.3), which changes nothing."""
        del flags
        self._floods.add(Cheap.PRIORITY)
        if _READ_LONG(payload)[0] & MAX_STREAM_ID == number:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, f"stream {number} depends on itself")
        return ()

    def _push_promise(self, flags: int, number: int, payload: bytes) -> Events:
        """PUSH_PROMISE (section 6.6), which no client may send."""
        del flags, number, payload
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client sends PUSH_PROMISE (section 8.4)")

    def _drained(self, sent: list[Stream]) -> Events:
        for stream in sent:
            self._streams.after_sending(stream)
        return [StreamDrained(stream) for stream in sent]


_Handler = collections.abc.Callable[[ControlFrames, int, int, bytes], Events]

_HANDLERS: dict[int, _Handler] = {
    Kind.PRIORITY: ControlFrames._priority,  # noqa: SLF001 - the table of this class
    Kind.RST_STREAM: ControlFrames._reset,  # noqa: SLF001
    Kind.SETTINGS: ControlFrames._settings,  # noqa: SLF001
    Kind.PUSH_PROMISE: ControlFrames._push_promise,  # noqa: SLF001
    Kind.PING: ControlFrames._ping,  # noqa: SLF001
    Kind.GOAWAY: ControlFrames._goaway,  # noqa: SLF001
    Kind.WINDOW_UPDATE: ControlFrames._window_update,  # noqa: SLF001
}
