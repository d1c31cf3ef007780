"""One unary call on a stream: its message, the method, its response. No task and no future."""

import functools

import msgspec

from naiad.core.inference import Cancellable
from naiad.protocol.grpc.call import LongMessage, Metadata, Response, RpcStatus, in_one_piece
from naiad.protocol.grpc.transport.message_memory import LARGE_MESSAGE_BYTES
from naiad.protocol.grpc.transport.native import compression, responses
from naiad.protocol.grpc.transport.native.call_head import CallMetadata
from naiad.protocol.grpc.transport.native.messages import (
    PREFIX_BYTES,
    READ_PREFIX,
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
from naiad.protocol.grpc.transport.native.unread_response import UnreadResponse
from naiad.protocol.transport.http2.events import Data
from naiad.protocol.transport.http2.open_streams import OpenStreams
from naiad.protocol.transport.http2.streams import Stream

_INTERNAL = 13
NO_MESSAGE = RpcStatus(
    _INTERNAL, "the call ended without a whole request message: send exactly one"
)

ONE_PIECE = 65_536
"""Up to here a response is joined with its headers, above it is sent from where it is."""


class UnaryCall(msgspec.Struct, eq=False):
    """One call; a `NativeCall` for its method. A struct, as `Stream` is.

    Attributes:
        due: see `Brief`; -1 before it is set.
        done: it has ended.
    """

    _connection: CallTransport
    _service: GrpcService
    _begun: BegunCall
    due: int = -1
    compressed: bool = False
    extras: Extras | None = None
    _reader: MessageReader | None = None
    _work: Cancellable | None = None
    _taken: bool = False
    """The message is whole."""
    done: bool = False

    # For the method

    def invocation_metadata(self) -> Metadata:
        """See `RpcCall`."""
        return CallMetadata(self._begun.headers)

    def peer(self) -> str:
        """See `RpcCall`."""
        return self._connection.peer

    # For the connection

    def data(self, event: Data) -> None:
        """Data of the request; what follows a whole message is ignored, as grpc does."""
        if self._taken or self.done:
            return
        begun, reader = self._begun, self._reader
        if reader is None:
            buffer, start, end = event.buffer, event.start, event.end
            if end - start >= PREFIX_BYTES:
                flag, length = READ_PREFIX(buffer, start)
                if not flag and length == end - start - PREFIX_BYTES:
                    self._begin(buffer[start + PREFIX_BYTES : end])
                    return
            reader = self._reader = MessageReader(lend=self._service.lender(begun.entry))
        stream = begun.stream
        try:
            for message in reader.take(event):
                stream.filling = None
                self._message(message)
                return
        except MessageError as error:
            self._respond(error.status)
            return
        stream.filling = reader.filling
        if event.ended:
            self.ended()
        else:
            # nothing is wanted behind the message
            more = credit(stream.receive_window, reader.missing, 0)
            self._connection.h2.streams.grant(stream, more)

    def ended(self) -> None:
        """The client has finished sending."""
        if not self._taken:
            self._respond(NO_MESSAGE)

    def drained(self) -> None:
        """The response is sent."""

    def reset(self) -> None:
        """The client has gone, or has cancelled the call (row 10.24)."""
        if not self.done:
            self._finish()
            self._cancel()

    def expire(self) -> None:
        """The deadline has passed (row 10.24)."""
        self._end(DEADLINE)

    def give_up(self, status: RpcStatus) -> None:
        """The server exits, or the connection is too old."""
        self._end(status)

    # Inside

    def _end(self, status: RpcStatus) -> None:
        work = self._work
        self._respond(status)
        if work is not None:
            work.cancel()

    def _message(self, message: Message) -> None:
        if not message.compressed and message.parts is None:
            self._begin(message.body if message.view is None else message.view)
            return
        self._taken = True
        self.compressed = message.compressed
        service = self._service
        compression.take_whole(
            service.loop, message, self._begun.head.encoding, service.settings.max_decompressed_bytes, self._whole
        )  # fmt: skip

    def _whole(self, body: Response) -> None:
        if isinstance(body, RpcStatus):
            self._respond(body)
        elif not self.done:
            self._begin(in_one_piece(body))

    def _begin(self, body: bytes | memoryview) -> None:
        self._taken = True
        self._reader = None
        if len(body) > LARGE_MESSAGE_BYTES:
            self._service.memory.used()
        unary = self._begun.entry.unary
        assert unary is not None
        work = unary(body, self, self._respond)
        if not self.done:
            self._work = work

    def _finish(self) -> None:
        self.done = True
        if self._reader is not None:
            self._reader = self._begun.stream.filling = None
        if self.due >= 0:
            self._service.deadlines.remove(self, self.due)

    def _cancel(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work.cancel()

    def _respond(self, response: Response) -> None:
        """The method's callback."""
        if self.done:
            return
        if self._reader is not None or self.due >= 0:
            self._finish()
        self.done = True
        self._work = None
        connection, begun = self._connection, self._begun
        stream = begun.stream
        stream.call = None
        h2 = connection.h2
        if self.extras is not None:
            self._respond_with(response, self.extras)
        elif isinstance(response, RpcStatus):
            h2.streams.send_headers(stream, responses.trailers_only(response), end_stream=True)
        elif begun.entry.compresses:
            self._respond_compressed(response)
        elif type(response) is bytes and len(response) <= ONE_PIECE:
            h2.streams.respond(
                stream, responses.OK, responses.prefix(False, len(response)), response
            )
        else:
            if len(response) > LARGE_MESSAGE_BYTES:
                self._service.memory.used()
            h2.streams.send_headers(stream, responses.HEADERS)
            h2.streams.send_pieces(stream, responses.in_pieces(response))
            h2.streams.send_trailers(stream, responses.OK_TRAILERS)
        if stream.unsent:
            self._await_client()
        connection.flush_soon()

    def _await_client(self) -> None:
        """The response waits for the client's window: until the deadline of the call."""
        timeout = self._begun.timeout
        if timeout is not None:
            service, stream = self._service, self._begun.stream
            seconds = timeout if self.due < 0 else service.deadlines.left(self.due)
            stream.call = UnreadResponse(self._connection, service, stream, seconds)

    def _respond_with(self, response: Response, extras: Extras) -> None:
        """A response with metadata, or whose compression the method chose; messages of any length are compressed here."""
        encodings = self._service.encodings if extras.compress else ()
        encoding = compression.chosen(encodings, self._begun.head.accepts)
        streams, stream = self._connection.h2.streams, self._begun.stream
        streams.send_headers(stream, responses.initial(encoding, extras.initial))
        refused = response if isinstance(response, RpcStatus) else None
        if not isinstance(response, RpcStatus):
            send_framed(streams, stream, compression.framed(response, encoding))
        streams.send_trailers(stream, responses.trailers_with(refused, extras.trailing))

    def _respond_compressed(self, response: bytes | LongMessage) -> None:
        encoding = compression.chosen(self._service.encodings, self._begun.head.accepts)
        if len(response) <= compression.COMPRESSED_HERE:
            self._send_compressed(encoding, compression.framed(response, encoding))
        else:
            then = functools.partial(self._send_compressed, encoding)
            compression.frame_later(self._service.loop, response, encoding, then)

    def _send_compressed(self, encoding: bytes, data: Response) -> None:
        streams, stream = self._connection.h2.streams, self._begun.stream
        if isinstance(data, RpcStatus):
            streams.send_headers(stream, responses.trailers_only(data), end_stream=True)
        else:
            streams.send_headers(stream, responses.HEADERS_ENCODED.get(encoding, responses.HEADERS))
            send_framed(streams, stream, data)
            streams.send_trailers(stream, responses.OK_TRAILERS)
        if self._begun.stream.unsent:
            self._await_client()
        self._connection.flush_soon()


def send_framed(streams: OpenStreams, stream: Stream, data: bytes | LongMessage) -> None:
    """Send a message that has its prefix."""
    if isinstance(data, LongMessage):
        streams.send_pieces(stream, data.pieces)
    else:
        streams.send_data(stream, data)
