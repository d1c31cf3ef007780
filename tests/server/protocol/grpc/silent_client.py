"""A gRPC client that sends what it is told and then nothing more: no cancel, no reset, no look at its own deadline.

Enough HTTP/2 for one call and some pings, written out by hand, because every real client cancels by itself when its deadline
passes, and pings no more often than is good.
"""

import asyncio
import contextlib
import struct

_DATA, _HEADERS, _SETTINGS, _PING, _GOAWAY = 0, 1, 4, 6, 7
_END_STREAM, _END_HEADERS = 1, 4
_FRAME_HEAD = 9


class SilentClient:
    """One connection with one call on it.

    Args:
        address: host and port.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def connect(self) -> None:
        """Open the connection; not needed before `call`."""
        self._reader, self._writer = await asyncio.open_connection(*self._address)
        self._writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b""))

    async def call(self, path: str, message: bytes, *headers: tuple[str, str]) -> None:
        """Send a whole request."""
        if self._writer is None:
            await self.connect()
        assert self._writer is not None
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
            _frame(_HEADERS, _END_HEADERS, 1, block) + _frame(_DATA, _END_STREAM, 1, framed)
        )
        await self._writer.drain()

    async def ping(self, times: int) -> None:
        """Send so many pings at once."""
        assert self._writer is not None
        self._writer.write(_frame(_PING, 0, 0, bytes(8)) * times)
        await self._writer.drain()

    async def farewell(self) -> bytes:
        """What the server says when it closes the connection: the debug text of its last GOAWAY frame."""
        assert self._reader is not None
        said = b""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionResetError):
            while True:
                head = await self._reader.readexactly(_FRAME_HEAD)
                payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                if head[3] == _GOAWAY:
                    said = payload[8:]
        return said

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
