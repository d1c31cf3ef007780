"""One connection of a client that asks, and sometimes leaves before the answer: the least HTTP/1.1 that this takes.

A client library would hide what is looked at here: whether an answer comes at all, on which connection, and what became of it.
"""

import asyncio
import json
import typing
from dataclasses import dataclass


@dataclass(frozen=True)
class Reply:
    """An HTTP answer: its status and body."""

    status: int
    body: bytes

    def json(self) -> typing.Any:
        """The body, decoded."""
        return json.loads(self.body)

    def error(self) -> str:
        """What it says went wrong, or the start of the body."""
        try:
            return str(self.json()["error"])
        except (ValueError, KeyError, TypeError):
            return self.body[:200].decode(errors="replace")


class Connection:
    """Keep-alive HTTP to 127.0.0.1; opened when it is first used, and again after it was dropped."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(
        self, path: str, body: bytes, *, leave_after_s: float | None = None
    ) -> Reply | None:
        """Sends a request and gives the answer; None for who left before it came.

        Raises:
            OSError, asyncio.IncompleteReadError: the connection broke.
        """
        head = f"POST {path} HTTP/1.1\r\nHost: soak\r\nContent-Length: {len(body)}\r\n\r\n"
        return await self._send(head.encode() + body, leave_after_s)

    async def get(self, path: str) -> Reply:
        """Sends a request without a body and gives the answer."""
        reply = await self._send(f"GET {path} HTTP/1.1\r\nHost: soak\r\n\r\n".encode(), None)
        assert reply is not None, "no client leaves here"
        return reply

    async def _send(self, request: bytes, leave_after_s: float | None) -> Reply | None:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request)
        try:
            async with asyncio.timeout(leave_after_s):
                return await _read(reader)
        except TimeoutError:
            if leave_after_s is None:
                raise
            self.drop()
            return None
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """Closes it with all requests in flight."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def _read(reader: asyncio.StreamReader) -> Reply:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head[9:12])
    length = head.find(b"content-length:")
    if length >= 0:
        size = int(head[length + 15 : head.index(b"\r", length)])
        return Reply(status, await reader.readexactly(size))
    pieces: list[bytes] = []
    while size := int(await reader.readline(), 16):
        pieces.append((await reader.readexactly(size + 2))[:-2])
    await reader.readline()
    return Reply(status, b"".join(pieces))
