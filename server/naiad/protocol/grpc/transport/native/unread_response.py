"""A whole response that waits for its client's window (RFC 9113, section 5.2): given up when the deadline of its call passes, as grpc does."""

from naiad.protocol.grpc.call import RpcStatus
from naiad.protocol.grpc.transport.native import responses
from naiad.protocol.grpc.transport.native.service import DEADLINE, CallTransport, GrpcService
from naiad.protocol.transport.http2.events import Data
from naiad.protocol.transport.http2.streams import Stream


class UnreadResponse:
    """What a stream has for its call once that is over and has a deadline."""

    __slots__ = ("_connection", "_due", "_service", "_stream")

    def __init__(
        self, connection: CallTransport, service: GrpcService, stream: Stream, seconds: float
    ) -> None:
        self._connection = connection
        self._service = service
        self._stream = stream
        self._due = service.deadlines.add(self, seconds)

    def data(self, event: Data) -> None:
        """Data of the client, which is ignored."""

    def ended(self) -> None:
        """The client has finished sending."""

    def drained(self) -> None:
        """The response is sent."""
        self._service.deadlines.remove(self, self._due)

    def reset(self) -> None:
        """The client has gone."""
        self._service.deadlines.remove(self, self._due)

    def expire(self) -> None:
        """The deadline has passed."""
        streams, stream = self._connection.h2.streams, self._stream
        stream.call = None
        streams.cut_short(stream)
        streams.send_trailers(stream, responses.trailers(DEADLINE))
        self._connection.flush_soon()

    def give_up(self, status: RpcStatus) -> None:
        """The server exits, or the connection is too old: what is sent already may still be read."""
