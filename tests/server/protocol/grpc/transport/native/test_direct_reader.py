"""From its first long message on, a connection reads into the buffer for all connections, until a short message comes; between messages it reads little at once."""

import typing
import unittest.mock

import grpc
import grpc.aio
import pytest

from naiad.protocol.grpc.methods import INFER, Methods
from naiad.protocol.grpc.settings import GrpcSettings
from naiad.protocol.grpc.transport.native import connection as native_connection
from naiad.protocol.grpc.transport.native.direct_reader import BETWEEN_BYTES, DirectReader, Reads
from naiad.protocol.grpc.transport.native.listener import NativeGrpcServer
from naiad.protocol.transport.low_water import LowWaterMark
from tests.server.protocol.grpc.scripted_engine import ScriptedEngine, small_request
from tests.server.protocol.grpc.transport.native.test_long_messages import message


def test_much_is_read_of_a_message_and_little_between_two() -> None:
    connection = unittest.mock.create_autospec(Reads, instance=True)
    connection.h2 = unittest.mock.Mock(fills=False)
    buffer = bytearray(100_000)
    reader = DirectReader(connection, buffer, unittest.mock.create_autospec(LowWaterMark))
    assert len(reader.get_buffer(-1)) == BETWEEN_BYTES
    connection.h2.fills = True
    room = reader.get_buffer(-1)
    assert len(room) == len(buffer)
    room[:4] = b"came"
    assert buffer.startswith(b"came")


async def test_long_messages_share_a_reader_until_a_short_one_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[DirectReader] = []

    def counted(*arguments: typing.Any) -> DirectReader:
        made.append(DirectReader(*arguments))
        return made[-1]

    monkeypatch.setattr(native_connection, "DirectReader", counted)
    settings = GrpcSettings(address="127.0.0.1", port=0)
    server = NativeGrpcServer(settings, Methods(ScriptedEngine(), settings))
    await server.start()
    options = [("grpc.max_receive_message_length", -1)]
    try:
        where = f"127.0.0.1:{server.address[1]}"
        async with grpc.aio.insecure_channel(where, options) as channel:
            call = channel.unary_unary(INFER)
            found = []
            for sent in (message(1), message(2), small_request(), message(3)):
                await call(sent)
                found.append(len(made))
    finally:
        await server.close(0)
    assert found == [1, 1, 1, 2]
