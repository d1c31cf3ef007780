"""Reads from the socket straight into the memory of a large body: the protocol of a connection's transport from the first such body on.

A client that sends large bodies sends more of them: behind one, little is read at a time, so that hardly any of the next body comes with its head and has to be
copied. The first request without such a body ends that.
"""

import typing

from typing_extensions import override

from naiad.protocol.transport.buffer_reader import BufferReader, SocketEvents

_BETWEEN = 1 << 12
"""Bytes that are read at once between large bodies: a head, the JSON, and little more."""


class Reads(SocketEvents, typing.Protocol):
    """The connection, as its reader uses it."""

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""

    def direct_room(self) -> memoryview | None:
        """Where the next bytes of a large body go; None if none of one come."""

    def direct_received(self, count: int) -> None:
        """So many bytes came there."""

    def read_as_usual(self) -> None:
        """Have the connection itself be the protocol again, unless a large body comes."""


class DirectReader(BufferReader[Reads]):
    """The protocol while a body is received directly."""

    __slots__ = ("_between",)

    def __init__(self, connection: Reads) -> None:
        super().__init__(connection)
        self._between: bytearray | None = None

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        assert self._connection is not None
        room = self._connection.direct_room()
        if room is not None:
            self._between = None  # nothing may have come of what was asked for before
            return room
        self._between = bytearray(_BETWEEN)
        # asyncio's TLS slices it: a slice of a bytearray is a copy, and what is read there is lost.
        return memoryview(self._between)

    @override
    def buffer_updated(self, nbytes: int) -> None:
        connection, between = self._connection, self._between
        assert connection is not None
        if between is None:
            connection.direct_received(nbytes)
            return
        self._between = None
        connection.data_received(bytes(between[:nbytes]))
        connection.read_as_usual()
