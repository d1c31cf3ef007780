"""A TCP proxy that counts what passes: how large an answer really was on the wire."""

import asyncio
import contextlib
import typing


class CountingProxy:
    """Forwards to one address.

    Attributes:
        up: bytes from clients.
        down: bytes to clients.
        address: where it listens, once entered.
    """

    def __init__(self, to: tuple[str, int]) -> None:
        self._to = to
        self._server: asyncio.Server | None = None
        self._copies: set[asyncio.Task[None]] = set()
        self.up = self.down = 0
        self.address = ("", 0)

    async def __aenter__(self) -> typing.Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = self._server.sockets[0].getsockname()[:2]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for copy in self._copies:
            copy.cancel()
        await asyncio.gather(*self._copies, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._copies.add(task)
        back_reader, back_writer = await asyncio.open_connection(*self._to)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._copy(reader, back_writer, up=True))
                group.create_task(self._copy(back_reader, writer, up=False))
        finally:
            for side in (writer, back_writer):
                side.close()
                with contextlib.suppress(OSError):
                    await side.wait_closed()

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, up: bool
    ) -> None:
        while data := await reader.read(65536):
            if up:
                self.up += len(data)
            else:
                self.down += len(data)
            writer.write(data)
            await writer.drain()
        writer.close()
