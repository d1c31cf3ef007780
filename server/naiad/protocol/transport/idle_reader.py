"""The protocol of a connection's transport while no request comes: what comes next wakes the connection.

So a server can tell whether a client that stays connected is idle, and a request costs nothing more for it: only the first one behind a pause comes this way.
"""

import asyncio
import typing

from typing_extensions import override

from naiad.protocol.transport.buffer_reader import BufferReader

IDLE_S = 2.0
"""A connection without a request for so long is idle."""

_FIRST_BYTES = 1 << 16
"""Bytes of the first read; the others come as usual."""


class KeepsAwake(typing.Protocol):
    """The registry, as this module uses it."""

    def woken(self, connection: asyncio.Protocol) -> None:
        """The client of an idle connection sent something; it is handled next."""


class IdleReader(BufferReader[asyncio.Protocol]):
    """Reads the first bytes that come. It takes no memory before that."""

    __slots__ = ("_buffer", "_registry", "_transport")

    def __init__(
        self, connection: asyncio.Protocol, registry: KeepsAwake, transport: asyncio.Transport
    ) -> None:
        super().__init__(connection)
        self._registry = registry
        self._transport = transport
        self._buffer: bytearray | None = None

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        self._buffer = bytearray(_FIRST_BYTES)
        return memoryview(self._buffer)  # asyncio's TLS slices it

    @override
    def buffer_updated(self, nbytes: int) -> None:
        connection, buffer = self._connection, self._buffer
        if connection is None or buffer is None:
            return
        self._connection = self._buffer = None
        self._registry.woken(connection)
        self._transport.set_protocol(connection)
        connection.data_received(bytes(memoryview(buffer)[:nbytes]))
