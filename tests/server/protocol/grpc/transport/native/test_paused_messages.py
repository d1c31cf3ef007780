"""A client that pauses inside a long message is heard, although the kernel waits for more of the message before it wakes the loop."""

import asyncio
import struct
import typing

import pytest

from naiad.protocol.grpc.methods import Methods
from naiad.protocol.grpc.settings import GrpcSettings
from naiad.protocol.grpc.transport.native.listener import NativeGrpcServer
from naiad.protocol.transport.http2 import frames, settings
from naiad.protocol.transport.http2.errors import ErrorCode
from naiad.protocol.transport.http2.frames import Kind
from tests.server.protocol.grpc.scripted_engine import ScriptedEngine
from tests.server.protocol.grpc.transport.native.test_long_messages import message
from tests.server.protocol.grpc.transport.native.test_port import FIELDS
from tests.server.protocol.transport.http2.peer import block, data, headers

_GIVE_UP_S = 30
_FRAME = 16_384
_WINDOW = 1 << 24


@pytest.fixture
async def server() -> typing.AsyncIterator[NativeGrpcServer]:
    chosen = GrpcSettings(address="127.0.0.1", port=0)
    server = NativeGrpcServer(chosen, Methods(ScriptedEngine(), chosen))
    await server.start()
    yield server
    await server.close(0)


class HalfSent:
    """A client that has sent the beginning of a long message, of which the server has asked for the rest: it waits for it now."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        whole = message(1)
        self._left = struct.pack(">BI", 0, len(whole)) + whole

    async def begin(self) -> None:
        self.send(
            frames.PREFACE,
            frames.settings({settings.INITIAL_WINDOW_SIZE: _WINDOW}),
            frames.window_update(0, _WINDOW),
        )
        self.send(headers(1, block(*FIELDS)), self.next_frame())
        await self.gets(Kind.WINDOW_UPDATE, 1)

    def next_frame(self) -> bytes:
        """The next of the message's data."""
        piece, self._left = self._left[:_FRAME], self._left[_FRAME:]
        return data(1, piece, ended=not self._left)

    def rest(self) -> bytes:
        """All of the message's data that have not been sent."""
        out = b""
        while self._left:
            out += self.next_frame()
        return out

    def send(self, *sent: bytes) -> None:
        self._writer.write(b"".join(sent))

    async def gets(self, kind: Kind, stream: int, flags: int = 0) -> None:
        """Read up to a frame."""
        async with asyncio.timeout(_GIVE_UP_S):
            while True:
                size_and_kind, found, number = frames.READ_HEAD(
                    await self._reader.readexactly(9), 0
                )
                await self._reader.readexactly(size_and_kind >> 8)
                if (size_and_kind & 0xFF, found & flags, number) == (kind, flags, stream):
                    return

    def close(self) -> None:
        self._writer.close()


@pytest.fixture
async def client(server: NativeGrpcServer) -> typing.AsyncIterator[HalfSent]:
    made = HalfSent(*await asyncio.open_connection(*server.address))
    await made.begin()
    yield made
    made.close()


async def test_a_ping_is_answered_and_the_message_goes_on(client: HalfSent) -> None:
    client.send(frames.ping(b"are you?"))
    await client.gets(Kind.PING, 0, frames.ACK)
    client.send(client.rest())
    await client.gets(Kind.HEADERS, 1, frames.END_STREAM)


async def test_a_call_that_is_cancelled_leaves_the_connection_as_it_was(client: HalfSent) -> None:
    client.send(frames.reset(1, ErrorCode.CANCEL), frames.ping(b"are you?"))
    await client.gets(Kind.PING, 0, frames.ACK)


async def test_another_call_does_not_wait_for_the_message(client: HalfSent) -> None:
    client.send(headers(3, block(*FIELDS)), data(3, b"", ended=True))
    await client.gets(Kind.HEADERS, 3, frames.END_STREAM)
