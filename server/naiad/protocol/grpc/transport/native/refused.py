"""Requests that become no calls: those that are not gRPC, of a browser or a probe, and calls that are refused."""

from naiad.protocol.grpc.call import RpcStatus
from naiad.protocol.grpc.transport.native import responses
from naiad.protocol.grpc.transport.native.service import CallTransport, GrpcService
from naiad.protocol.transport.http2.events import Data
from naiad.protocol.transport.http2.streams import Stream

REFUSED_AFTER_S = 0.1


class ForeignRequest:
    """A request that is not gRPC: answered in plain HTTP once it has ended. Its data are dropped, and no more than the first window of them comes."""

    __slots__ = ("_connection", "_status", "_stream")

    def __init__(self, connection: CallTransport, stream: Stream, status: int) -> None:
        self._connection = connection
        self._stream = stream
        self._status = status

    def data(self, event: Data) -> None:
        """Data of the client."""
        if event.ended:
            self.ended()

    def ended(self) -> None:
        """The client has finished sending: answer."""
        streams = self._connection.h2.streams
        streams.send_headers(self._stream, responses.http_refusal(self._status))
        streams.send_last_data(self._stream, responses.NOT_GRPC)
        self._connection.flush_soon()

    def drained(self) -> None:
        """The response is sent."""

    def reset(self) -> None:
        """The client has gone."""

    def give_up(self, status: RpcStatus) -> None:
        """The server exits, or the connection is too old."""
        del status
        self.ended()


class RefusedCall:
    """A call that may not begin: it gets its status once its client has finished sending, or a moment after it began.

    A client of grpc.aio that sends from an iterator reports INTERNAL in place of a status that comes while it writes: one call of eight, over any server
    that answers at once. What the client sends meanwhile is dropped, and is no more than the first window.
    """

    __slots__ = ("_connection", "_due", "_service", "_status", "_stream")

    def __init__(
        self, connection: CallTransport, service: GrpcService, stream: Stream, status: RpcStatus
    ) -> None:
        self._connection = connection
        self._service = service
        self._stream = stream
        self._status = status
        self._due = service.deadlines.add(self, REFUSED_AFTER_S)

    def data(self, event: Data) -> None:
        """Data of the client."""
        if event.ended:
            self.ended()

    def ended(self) -> None:
        """The client has finished sending."""
        self.expire()

    def drained(self) -> None:
        """Nothing waits."""

    def reset(self) -> None:
        """The client has gone."""
        self._service.deadlines.remove(self, self._due)

    def expire(self) -> None:
        """The client had its time."""
        self.reset()
        self._stream.call = None
        self._connection.h2.streams.send_headers(
            self._stream, responses.trailers_only(self._status), end_stream=True
        )
        self._connection.flush_soon()

    def give_up(self, status: RpcStatus) -> None:
        """The server exits, or the connection is too old."""
        del status
        self.expire()
