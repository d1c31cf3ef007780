"""A gRPC client that sends the given frames and then nothing more: no cancel, no reset, no check of its own deadline.

Enough HTTP/2 for one call and some pings, written out by hand, because every real client cancels by itself when its deadline
passes, and pings no more often than is good.
"""

import asyncio
import contextlib

from tests.support import http2


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
        self._writer.write(http2.PREFACE)

    async def call(self, path: str, message: bytes, *headers: tuple[str, str]) -> None:
        """Send a whole request."""
        if self._writer is None:
            await self.connect()
        assert self._writer is not None
        data = http2.frame(http2.DATA, http2.END_STREAM, 1, http2.grpc_message(message))
        self._writer.write(http2.grpc_call(1, path, *headers) + data)
        await self._writer.drain()

    async def ping(self, times: int) -> None:
        """Send so many pings at once."""
        assert self._writer is not None
        self._writer.write(http2.frame(http2.PING, 0, 0, bytes(8)) * times)
        await self._writer.drain()

    async def farewell(self) -> bytes:
        """What the server says when it closes the connection: the debug text of its last GOAWAY frame."""
        assert self._reader is not None
        said = b""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionResetError):
            while True:
                head = await self._reader.readexactly(http2.FRAME_HEAD)
                payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                if head[3] == http2.GOAWAY:
                    said = payload[8:]
        return said

    async def close(self) -> None:
        """Leave."""
        if self._writer is not None:
            self._writer.close()
            await self._writer.wait_closed()
