"""The streams of a connection: which are open, what is sent on them, and how they end (RFC 9113, sections 5.1 and 6.8)."""

import collections
import collections.abc

from naiad.protocol.transport.http2 import frames, streams
from naiad.protocol.transport.http2.errors import ConnectionFault, ErrorCode
from naiad.protocol.transport.http2.sender import Envelope, Sender
from naiad.protocol.transport.http2.streams import State, Step, Stream

_CLOSED, _OPEN = State.CLOSED, State.OPEN

_REMEMBERED = 256
"""Streams that we ended first: what the client sent before it knew is ignored (section 5.1)."""


DRAIN_PING = b"draining"
"""What the ping behind the first GOAWAY holds: the client that answers it has seen that GOAWAY."""


class OpenStreams:
    """The streams.

    Attributes:
        by_id: those that are not closed.
        last_id: the largest number that the client has used.
        final: once no further stream is served, the last one that is (section 6.8).
    """

    __slots__ = ("_ended_early", "_sender", "by_id", "final", "last_id")

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._ended_early: collections.OrderedDict[int, None] = collections.OrderedDict()
        self.by_id: dict[int, Stream] = {}
        self.last_id = 0
        self.final: int | None = None

    def __len__(self) -> int:
        return len(self.by_id)

    def all(self) -> tuple[Stream, ...]:
        """Those that are open now."""
        return tuple(self.by_id.values())

    def absent(self, number: int, step: Step) -> None:
        """Something comes for a stream that is not open: idle, closed, or one that we ended and whose frames are still coming.

        Raises:
            StreamFault, ConnectionFault: the client may not send it.
        """
        if self.final is not None or number in self._ended_early:
            return
        if number > self.last_id:
            raise ConnectionFault(
                ErrorCode.PROTOCOL_ERROR,
                f"{step.name} on stream {number}, which is idle (section 5.1)",
            )
        fault = streams.CLOSED[step]
        if isinstance(fault, streams.Fault):
            raise streams.fault_of(fault, step, number, _CLOSED)

    # What is sent. On a stream that is gone none of these has an effect.

    def respond(self, stream: Stream, around: Envelope, prefix: bytes, data: bytes) -> None:
        """Send a whole response, whose data are in two pieces, and end the stream."""
        if stream.state is not _CLOSED:
            self._sender.response(stream, around, prefix, data)
            if stream.state is _CLOSED:
                del self.by_id[stream.id]
            else:
                self.after_sending(stream)

    def send_headers(self, stream: Stream, block: bytes, *, end_stream: bool = False) -> None:
        """Begin a response; with `end_stream`, that is all of it."""
        if stream.state is not _CLOSED:
            self._sender.headers(stream, block, end_stream=end_stream)
            self.after_sending(stream)

    def send_data(self, stream: Stream, data: bytes) -> None:
        """Send data; what the client does not take yet waits, see `Stream.unsent_bytes`."""
        if stream.state is not _CLOSED:
            self._sender.data(stream, data)

    def send_pieces(
        self, stream: Stream, pieces: collections.abc.Iterable[bytes | memoryview]
    ) -> None:
        """Send long data, in pieces of which none is empty and none is copied; as `send_data`."""
        if stream.state is not _CLOSED:
            self._sender.pieces(stream, pieces)

    def send_last_data(self, stream: Stream, data: bytes) -> None:
        """End a response with data, without trailers."""
        if stream.state is not _CLOSED:
            self._sender.last_data(stream, data)
            self.after_sending(stream)

    def send_trailers(self, stream: Stream, block: bytes) -> None:
        """End a response once its data are sent."""
        if stream.state is not _CLOSED:
            self._sender.trailers(stream, block)
            self.after_sending(stream)

    def cut_short(self, stream: Stream) -> None:
        """Forget what waits to be sent on a stream, the trailers that are to end it, too."""
        self._sender.forget(stream)
        stream.trailers = None

    def after_sending(self, stream: Stream) -> None:
        """Forget a stream that has ended. A client that still sends is asked to stop (section 8.1)."""
        state = stream.state
        if state is State.HALF_CLOSED_LOCAL:
            self.reset(stream, ErrorCode.NO_ERROR)
        elif state is _CLOSED:
            self.by_id.pop(stream.id, None)

    def grant(self, stream: Stream, increment: int) -> None:
        """Let the client send more on a stream (section 6.9)."""
        if increment > 0 and stream.state is _OPEN:
            stream.receive_window += increment
            self._sender.sent = True
            self._sender.out.append(frames.window_update(stream.id, increment))

    def hold(self, *, held: bool) -> list[Stream]:
        """The socket takes no more data, or takes them again. Returns the streams whose data are all sent now."""
        self._sender.held = held
        return [] if held else self.go_on()

    def go_on(self) -> list[Stream]:
        """Send more of what waits. Returns the streams whose data are all sent now."""
        drained = self._sender.pump()
        for stream in drained:
            self.after_sending(stream)
        return drained

    # How they end

    def finish(self, why: str = "") -> None:
        """Serve no streams but those that have begun, and say so with GOAWAY (section 6.8). Idempotent."""
        if self.final is None:
            self.final = self.last_id
            self._sender.out.append(frames.goaway(self.last_id, ErrorCode.NO_ERROR, why))

    def reset(self, stream: Stream, code: ErrorCode) -> None:
        """End a stream with RST_STREAM."""
        if stream.state is not _CLOSED:
            stream.step(Step.RESET)
            self.refuse(stream.id, code)

    def refuse(self, number: int, code: ErrorCode) -> Stream | None:
        """End what a client began or broke with RST_STREAM; returns the stream if there was one."""
        stream = self.by_id.pop(number, None)
        if stream is not None:
            stream.state = _CLOSED
            self._sender.forget(stream)
        self._sender.out.append(frames.reset(number, code))
        self._ended_early[number] = None
        if len(self._ended_early) > _REMEMBERED:
            self._ended_early.popitem(last=False)
        return stream
