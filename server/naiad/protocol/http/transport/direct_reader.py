"""Reads from the socket straight into the memory of a large body: the protocol of a connection's transport from the first such body on.

asyncio gives such a protocol no bytes object, but asks it for the buffer to read into (`BufferedProtocol`). Everything else is the connection's.
A client that sends large bodies sends more of them: behind one, little is read at a time, so that hardly any of the next body comes with its head and has to be
copied. The first request without such a body ends that.
"""

import asyncio
import typing

from typing_extensions import override

_BETWEEN = 1 << 12
"""Bytes that are read at once between large bodies: a head, the JSON, and little more."""


class Reads(typing.Protocol):
    """The connection, as its reader uses it."""

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""

    def direct_room(self) -> memoryview | None:
        """Where the next bytes of a large body go; None if none of one come."""

    def direct_received(self, count: int) -> None:
        """So many bytes came there."""

    def read_as_usual(self) -> None:
        """Have the connection itself be the protocol again, unless a large body comes."""

    def eof_received(self) -> bool | None:
        """See `asyncio.Protocol`."""

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""


class DirectReader(asyncio.BufferedProtocol):
    """The protocol while a body is received directly. It knows the connection only: the transport may refer to it for longer."""

    __slots__ = ("_between", "_connection")

    def __init__(self, connection: Reads) -> None:
        self._connection: Reads | None = connection
        self._between: bytearray | None = None

    @override
    def get_buffer(self, sizehint: int) -> memoryview | bytearray:
        assert self._connection is not None
        room = self._connection.direct_room()
        if room is not None:
            self._between = None  # nothing may have come of what was asked for before
            return room
        self._between = bytearray(_BETWEEN)
        return self._between

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

    @override
    def eof_received(self) -> bool | None:
        return None if self._connection is None else self._connection.eof_received()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.pause_writing()

    @override
    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.resume_writing()
