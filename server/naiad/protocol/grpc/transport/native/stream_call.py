"""One call that streams both ways. What the client does not read waits here, bounded: then the method is paused, and nothing more is read."""

import collections

from naiad.protocol.grpc.call import LongMessage, Metadata, Response, RpcStatus, StreamHandler
from naiad.protocol.grpc.transport.message_memory import LARGE_MESSAGE_BYTES
from naiad.protocol.grpc.transport.native import compression, responses
from naiad.protocol.grpc.transport.native.call_head import CallMetadata
from naiad.protocol.grpc.transport.native.messages import (
    Message,
    MessageError,
    MessageReader,
    credit,
)
from naiad.protocol.grpc.transport.native.service import (
    DEADLINE,
    BegunCall,
    CallTransport,
    Extras,
    GrpcService,
)
from naiad.protocol.grpc.transport.native.unary_call import NO_MESSAGE, ONE_PIECE, send_framed
from naiad.protocol.grpc.transport.native.unread_response import UnreadResponse
from naiad.protocol.transport.http2.events import Data
from naiad.protocol.transport.http2.settings import STREAM_WINDOW

HIGH_BYTES = 262_144
"""Unsent bytes of a stream above which its method is paused."""


class StreamCall:
    """One call; a `NativeCall` and a `StreamWriter` for its method.

    Attributes:
        began: a message of it has come.
    """

    __slots__ = (
        "_behind",
        "_behind_bytes",
        "_busy",
        "_connection",
        "_due",
        "_encoding",
        "_ended",
        "_half_closed",
        "_handler",
        "_head",
        "_headers",
        "_headers_sent",
        "_joining",
        "_messages",
        "_paused",
        "_reader",
        "_refused",
        "_service",
        "_stream",
        "began",
        "compressed",
        "extras",
    )  # fmt: skip

    def __init__(self, connection: CallTransport, service: GrpcService, begun: BegunCall) -> None:
        self._connection = connection
        self._service = service
        self._stream = begun.stream
        self._headers = begun.headers
        self._head = begun.head
        self._reader = MessageReader(lend=service.lender(begun.entry))
        self._messages: collections.deque[Message] | None = None  # of no idle stream
        self._ended = self._half_closed = self._headers_sent = False
        self._paused = self._busy = self._joining = self.compressed = False
        self.began = False
        self.extras: Extras | None = None
        self._refused: RpcStatus | None = None
        # While a long message is compressed in a thread: those that were sent after it, with their encodings, and the bytes of all of them.
        self._behind: collections.deque[tuple[bytes | LongMessage, bytes]] | None = None
        self._behind_bytes = 0
        self._encoding = (
            compression.chosen(service.encodings, begun.head.accepts)
            if begun.entry.compresses
            else b"identity"
        )
        self._handler: StreamHandler | None = None
        timeout = begun.timeout
        self._due = -1 if timeout is None else service.deadlines.add(self, timeout)
        streaming = begun.entry.streaming
        assert streaming is not None
        handler = streaming(self, self)
        if self._ended:
            handler.cancel()
        else:
            self._handler = handler

    # For the method

    def invocation_metadata(self) -> Metadata:
        """See `RpcCall`."""
        return CallMetadata(self._headers)

    def peer(self) -> str:
        """See `RpcCall`."""
        return self._connection.peer

    def send(self, message: bytes | LongMessage) -> None:
        """See `StreamWriter`."""
        stream = self._stream
        h2 = self._connection.h2
        extras = self.extras
        if not self._headers_sent:
            self._headers_sent = True
            h2.streams.send_headers(stream, self._initial())
        if len(message) > LARGE_MESSAGE_BYTES:
            self._service.memory.used()
        encoding = self._encoding if extras is None or extras.compress else b"identity"
        if self._behind is not None:
            self._behind.append((message, encoding))
            self._behind_bytes += len(message)
        elif encoding != b"identity" and len(message) > compression.COMPRESSED_HERE:
            self._behind = collections.deque()
            self._behind_bytes = len(message)
            compression.frame_later(self._service.loop, message, encoding, self._framed)
        elif (
            type(message) is not bytes or len(message) > ONE_PIECE
        ):  # not compressed: sent from where it is
            h2.streams.send_pieces(stream, responses.in_pieces(message))
        else:
            send_framed(h2.streams, stream, compression.framed(message, encoding))
        if (
            stream.unsent_bytes + self._behind_bytes > HIGH_BYTES
            and not self._paused
            and self._handler is not None
        ):
            self._paused = True
            self._handler.pause()
        self._connection.flush_soon()

    def capacity(self) -> None:
        """See `StreamWriter`."""
        if not self._busy:
            self._service.loop.call_soon(self._take)

    def end(self, refused: RpcStatus | None) -> None:
        """See `StreamWriter`."""
        if self._finish():
            self._refused = refused
            if self._behind is None:
                self._send_end()

    def _send_end(self) -> None:
        """Send the status; the messages are sent."""
        h2, stream = self._connection.h2, self._stream
        refused, extras = self._refused, self.extras
        if refused is not None and not self._headers_sent and extras is None:
            h2.streams.send_headers(stream, responses.trailers_only(refused), end_stream=True)
        else:
            if not self._headers_sent:
                h2.streams.send_headers(stream, self._initial())
            h2.streams.send_trailers(
                stream,
                responses.trailers(refused) if extras is None else responses.trailers_with(refused, extras.trailing),
            )  # fmt: skip
        if stream.unsent and self._due >= 0:
            seconds = self._service.deadlines.left(self._due)
            stream.call = UnreadResponse(self._connection, self._service, stream, seconds)
        self._connection.flush_soon()

    # For the connection

    def data(self, event: Data) -> None:
        """Data of the client."""
        if self._ended:
            return
        try:
            if self._messages is None:
                self._messages = collections.deque()
            self._messages.extend(self._reader.take(event))
        except MessageError as error:
            self.end(error.status)
            return
        self._stream.filling = self._reader.filling
        if event.ended:
            self.ended()
        else:
            self._take()
            if not self._messages:
                self._messages = None

    def ended(self) -> None:
        """The client has finished sending."""
        if self._reader.inside:
            self.end(NO_MESSAGE)
            return
        self._half_closed = True
        self._take()

    def drained(self) -> None:
        """Everything that waited is sent."""
        if self._paused and self._handler is not None:
            self._paused = False
            self._handler.resume()
            self._take()

    def reset(self) -> None:
        """The client has gone, or has cancelled the call (row 10.33)."""
        self._behind = None
        self._finish()

    def expire(self) -> None:
        """The deadline has passed."""
        self._cut_short(DEADLINE)

    def give_up(self, status: RpcStatus) -> None:
        """The server exits, or the connection is too old."""
        self._cut_short(status)

    # Inside

    def _cut_short(self, status: RpcStatus) -> None:
        """End the stream without the messages that wait for the client."""
        if not self._ended or self._behind is not None:
            self._connection.h2.streams.cut_short(self._stream)
        self._end_now(status)

    def _end_now(self, status: RpcStatus) -> None:
        """End the stream without the messages that wait to be compressed."""
        behind, self._behind = self._behind, None
        if self._ended and behind is not None:
            self._refused = status
            self._send_end()
        else:
            self.end(status)

    def _framed(self, data: Response) -> None:
        """A long message is compressed: send it, and those that came meanwhile up to the next long one."""
        behind = self._behind
        if behind is None:
            return  # the call has ended before its messages
        streams, stream = self._connection.h2.streams, self._stream
        if isinstance(data, RpcStatus):
            self._end_now(data)
            return
        send_framed(streams, stream, data)
        while behind:
            message, encoding = behind.popleft()
            if encoding != b"identity" and len(message) > compression.COMPRESSED_HERE:
                self._behind_bytes = len(message) + sum(len(each) for each, _ in behind)
                compression.frame_later(self._service.loop, message, encoding, self._framed)
                break
            send_framed(streams, stream, compression.framed(message, encoding))
        else:
            self._behind, self._behind_bytes = None, 0
            if self._ended:
                self._send_end()
            elif not stream.unsent_bytes:
                self.drained()
        self._connection.flush_soon()

    def _initial(self) -> bytes:
        """The header block in front of the messages."""
        if self.extras is not None:
            return responses.initial(self._encoding, self.extras.initial)
        return responses.HEADERS_ENCODED.get(self._encoding, responses.HEADERS)

    def _finish(self) -> bool:
        """End the work of the call; whether it had not ended."""
        if self._ended:
            return False
        self._ended = True
        if self._messages is not None:
            self._messages.clear()
        self._reader.drop()
        self._stream.filling = None
        if self._due >= 0:
            self._service.deadlines.remove(self, self._due)
        handler, self._handler = self._handler, None
        if handler is not None:
            handler.cancel()
        return True

    def _take(self) -> None:
        """Hand over the messages that the method takes, and let the client send as many more."""
        if self._busy:
            return
        self._busy = True
        messages = self._messages
        while (handler := self._handler) is not None and not self._joining:
            if not messages:
                if self._half_closed:
                    self._half_closed = False
                    handler.half_close()
                break
            if not handler.may_take():
                break
            message = messages.popleft()
            self.began = True
            self.compressed = message.compressed
            if not message.compressed and message.parts is None:
                handler.take(message.body if message.view is None else message.view)
                continue
            self._joining = True
            service = self._service
            compression.take_whole(
                service.loop, message, self._head.encoding, service.settings.max_decompressed_bytes, self._whole
            )  # fmt: skip
        self._busy = False
        handler = self._handler
        if handler is not None and not messages and not self._joining and handler.may_take():
            window = self._stream.receive_window
            more = credit(window, self._reader.missing, STREAM_WINDOW)
            if more:
                self._connection.h2.streams.grant(self._stream, more)
                self._connection.flush_soon()

    def _whole(self, body: Response) -> None:
        self._joining = False
        if isinstance(body, RpcStatus):
            self.end(body)
        elif self._handler is not None:
            if len(body) > LARGE_MESSAGE_BYTES:
                self._service.memory.used()
            self._handler.take(body)
        self._take()  # inside of itself this has no effect
