"""Reads from the socket straight into the memory of a large body: the protocol of a connection's transport from the first such body on.

A client that sends large bodies sends more of them: behind one, little is read at a time, so that hardly any of the next body comes with its head and has to be
copied. The first request without such a body ends that.
"""

import typing

from typing_extensions import override

from naiad.protocol.http.transport.body import DirectBody
from naiad.protocol.http.transport.request_receiver import RequestReceiver
from naiad.protocol.transport.buffer_reader import BufferReader, SocketEvents
from naiad.protocol.transport.connection_registry import ConnectionRegistry
from naiad.protocol.transport.peer import Peer

_BETWEEN = 1 << 12
"""Bytes that are read at once between large bodies: a head, the JSON, and little more."""

_READ_BYTES = 1 << 17
"""Bytes of a body that are read at once. The system has the socket meanwhile, so that what the client sends waits. libuv reads up to 32 times before other connections have their turn."""


class Reads(SocketEvents, typing.Protocol):
    """The connection, as its reader uses it."""

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""

    def direct_body(self) -> DirectBody | None:
        """The large body whose next bytes come; None if none of one come."""

    def direct_ended(self) -> None:
        """All of it came."""

    def read_as_usual(self) -> None:
        """Have the connection itself be the protocol again, unless a large body comes."""


class DirectReader(BufferReader[Reads]):
    """The protocol while a body is received directly.

    Args:
        connection: its connection.
        receiver: that of the connection: whatever ends a body early takes it away there.
        peer: gets the time of each read.
        registry: has it.
    """

    __slots__ = ("_between", "_body", "_peer", "_receiver", "_registry")

    def __init__(
        self,
        connection: Reads,
        receiver: RequestReceiver,
        peer: Peer,
        registry: ConnectionRegistry,
    ) -> None:
        super().__init__(connection)
        self._between: bytearray | None = None
        self._body: DirectBody | None = None
        self._receiver = receiver
        self._peer = peer
        self._registry = registry

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        body = self._body
        if body is None or self._receiver.sink is not body:
            assert self._connection is not None
            body = self._body = self._connection.direct_body()
            if body is None:
                self._between = bytearray(_BETWEEN)
                # asyncio's TLS slices it: a slice of a bytearray is a copy, and what is read there is lost.
                return memoryview(self._between)
            self._between = None  # nothing may have come of what was asked for before
        at = body.size - body.rest
        return body.memory[at : at + _READ_BYTES]

    @override
    def buffer_updated(self, nbytes: int) -> None:
        body = self._body
        if body is not None:
            rest = body.rest = body.rest - nbytes
            self._peer.since = self._registry.now
            if rest:
                return
        connection = self._connection
        assert connection is not None
        if body is not None:
            self._body = None
            connection.direct_ended()
            return
        between, self._between = self._between, None
        assert between is not None
        connection.data_received(bytes(between[:nbytes]))
        connection.read_as_usual()
