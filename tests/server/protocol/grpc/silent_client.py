"""A gRPC client that sends one request and then nothing more: no cancel, no reset, no acknowledgement of its own deadline.

Enough HTTP/2 for one call, written out by hand, because every real client cancels by itself when its deadline passes.
"""

import asyncio
import struct

_HEADERS_FRAME, _DATA_FRAME, _SETTINGS_FRAME = 1, 0, 4
_END_STREAM, _END_HEADERS = 1, 4


class SilentClient:
    """One connection with one call on it.

    Args:
        address: host and port.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._writer: asyncio.StreamWriter | None = None

    async def call(self, path: str, message: bytes, *headers: tuple[str, str]) -> None:
        """Send a whole request."""
        _, self._writer = await asyncio.open_connection(*self._address)
        block = b"".join(
            _literal(name, value)
            for name, value in (
                (":method", "POST"),
                (":scheme", "http"),
                (":path", path),
                (":authority", "localhost"),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                *headers,
            )
        )
        framed = b"\0" + struct.pack(">I", len(message)) + message
        self._writer.write(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(_SETTINGS_FRAME, 0, 0, b"")
            + _frame(_HEADERS_FRAME, _END_HEADERS, 1, block)
            + _frame(_DATA_FRAME, _END_STREAM, 1, framed)
        )
        await self._writer.drain()

    async def close(self) -> None:
        """Leave."""
        if self._writer is not None:
            self._writer.close()
            await self._writer.wait_closed()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _literal(name: str, value: str) -> bytes:
    """A header field that goes into no table (RFC 7541, section 6.2.2), uncompressed."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
