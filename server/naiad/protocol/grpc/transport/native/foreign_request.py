"""A request that is not a gRPC call, of a browser or a probe: answered in plain HTTP once it has ended."""

from naiad.protocol.grpc.transport.native import responses
from naiad.protocol.grpc.transport.native.service import CallTransport
from naiad.protocol.transport.http2.events import DataReceived
from naiad.protocol.transport.http2.streams import Stream


class ForeignRequest:
    """One of them. Its data are dropped, and no more than the first window of them comes."""

    __slots__ = ("_connection", "_status", "_stream")

    def __init__(self, connection: CallTransport, stream: Stream, status: int) -> None:
        self._connection = connection
        self._stream = stream
        self._status = status

    def data(self, event: DataReceived) -> None:
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

    def give_up(self) -> None:
        """The server exits."""
        self.ended()
