"""Reads from the socket straight into the memory of a large body: the protocol of a connection's transport while one comes.

asyncio gives such a protocol no bytes object, but asks it for the buffer to read into (`BufferedProtocol`). Everything else is the connection's.
"""

import asyncio
import typing

from typing_extensions import override


class Reads(typing.Protocol):
    """The connection, as its reader uses it."""

    def direct_room(self) -> memoryview | bytearray:
        """Where the next bytes go."""

    def direct_received(self, count: int) -> None:
        """So many bytes came."""

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

    __slots__ = ("_connection",)

    def __init__(self, connection: Reads) -> None:
        self._connection: Reads | None = connection

    @override
    def get_buffer(self, sizehint: int) -> memoryview | bytearray:
        assert self._connection is not None
        return self._connection.direct_room()

    @override
    def buffer_updated(self, nbytes: int) -> None:
        assert self._connection is not None
        self._connection.direct_received(nbytes)

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
