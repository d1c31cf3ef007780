"""Reads long messages with one copy less: the protocol of a connection's transport from the first of them on, whose data go to memory that waits for them. A short message ends that.

There is one buffer for all connections: what was read is taken out of it before the loop reads anything else.
"""

import typing

from typing_extensions import override

from naiad.protocol.transport.buffer_reader import BufferReader, SocketEvents
from naiad.protocol.transport.http2.connection import Http2Server
from naiad.protocol.transport.http2.events import DataReceived, Event, WholeRequest
from naiad.protocol.transport.low_water import LowWaterMark

BUFFER_BYTES = 1 << 18
"""Bytes that are read at once: they stay in the processor's cache until they are copied."""


BETWEEN_BYTES = 1 << 15
"""Bytes that are read at once between two messages: headers and the beginning of a message, which says how long it is."""


class Reads(SocketEvents, typing.Protocol):
    """The connection, as its reader uses it.

    Attributes:
        h2: its HTTP/2, which knows how much of a message is still to come.
    """

    h2: Http2Server

    def direct_received(self, buffer: bytearray, count: int) -> list[Event]:
        """So many bytes came into the buffer; returns what they say."""

    def direct_ended(self) -> None:
        """A short message came: the reader is not needed until the next long one."""


class DirectReader(BufferReader[Reads]):
    """The protocol from the first long message on.

    Args:
        buffer: what is read into.
        mark: that of the connection's socket.
    """

    __slots__ = ("_buffer", "_mark")

    def __init__(self, connection: Reads, buffer: bytearray, mark: LowWaterMark) -> None:
        super().__init__(connection)
        self._buffer = buffer
        self._mark = mark

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        # A view: asyncio's TLS slices what it gets, and a slice of a bytearray is a copy, so that the octets of another connection would stay here.
        assert self._connection is not None
        room = BUFFER_BYTES if self._connection.h2.fills else BETWEEN_BYTES
        return memoryview(self._buffer)[:room]

    @override
    def buffer_updated(self, nbytes: int) -> None:
        connection = self._connection
        if connection is None:
            return
        h2 = connection.h2
        between = not h2.fills
        events = connection.direct_received(self._buffer, nbytes)
        self._mark.wait_for(h2.awaited)
        # A client that sends long messages sends more of them: until a short one comes, little is read between them, since that is copied once more.
        if between and not h2.fills and any(map(_is_end, events)):
            connection.direct_ended()


def _is_end(event: Event) -> bool:
    """Whether the last byte of a message came with an event."""
    return isinstance(event, WholeRequest | DataReceived) and event.ended
