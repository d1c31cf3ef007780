"""Reads a long message with one copy less: the protocol of a connection's transport while data of one go to memory that waits for them.

asyncio gives such a protocol no bytes object, but asks it for the buffer to read into (`BufferedProtocol`). There is one buffer for all connections: what was read
is taken out of it before the loop reads anything else.
"""

import asyncio
import typing

from typing_extensions import override

BUFFER_BYTES = 1 << 18
"""Bytes that are read at once: they stay in the processor's cache until they are copied."""


class Reads(typing.Protocol):
    """The connection, as its reader uses it."""

    def direct_received(self, buffer: bytearray, count: int) -> None:
        """So many bytes came into the buffer."""

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""


class DirectReader(asyncio.BufferedProtocol):
    """The protocol while data are received directly. It knows the connection only: the transport may refer to it for longer."""

    __slots__ = ("_buffer", "_connection")

    def __init__(self, connection: Reads, buffer: bytearray) -> None:
        self._connection: Reads | None = connection
        self._buffer = buffer

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        # A view: asyncio's TLS slices what it gets, and a slice of a bytearray is a copy, so that the octets of another connection would stay here.
        return memoryview(self._buffer)

    @override
    def buffer_updated(self, nbytes: int) -> None:
        if self._connection is not None:
            self._connection.direct_received(self._buffer, nbytes)

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
