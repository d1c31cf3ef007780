"""Reads long messages with one copy less: the protocol of a connection's transport from the first of them on, whose data go to memory that waits for them. A short message ends that.

There is one buffer for all connections: what was read is taken out of it before the loop reads anything else.
"""

import typing

from typing_extensions import override

from naiad.protocol.transport.buffer_reader import BufferReader, SocketEvents

BUFFER_BYTES = 1 << 18
"""Bytes that are read at once: they stay in the processor's cache until they are copied."""


BETWEEN_BYTES = 1 << 15
"""Bytes that are read at once between two messages: headers and the beginning of a message, which says how long it is."""


class Reads(SocketEvents, typing.Protocol):
    """The connection, as its reader uses it."""

    def direct_room(self) -> int:
        """How many bytes may be read next."""

    def direct_received(self, buffer: bytearray, count: int) -> None:
        """So many bytes came into the buffer."""


class DirectReader(BufferReader[Reads]):
    """The protocol from the first long message on."""

    __slots__ = ("_buffer",)

    def __init__(self, connection: Reads, buffer: bytearray) -> None:
        super().__init__(connection)
        self._buffer = buffer

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        # A view: asyncio's TLS slices what it gets, and a slice of a bytearray is a copy, so that the octets of another connection would stay here.
        assert self._connection is not None
        return memoryview(self._buffer)[: self._connection.direct_room()]

    @override
    def buffer_updated(self, nbytes: int) -> None:
        if self._connection is not None:
            self._connection.direct_received(self._buffer, nbytes)
