"""What idle connections and idle streams cost in Python objects: thousands of them, without sockets."""

import asyncio
import collections.abc
import functools
import gc
import struct
import tracemalloc
import typing

import hpack
import pytest
from typing_extensions import override

from naiad.protocol.grpc.methods import INFER, STREAM_INFER, Methods
from naiad.protocol.grpc.settings import GrpcSettings
from naiad.protocol.grpc.transport.native.connection import GrpcConnection
from naiad.protocol.grpc.transport.native.service import GrpcService
from naiad.protocol.transport.connection_registry import ConnectionRegistry
from naiad.protocol.transport.http2 import frames
from naiad.protocol.transport.http2.errors import ErrorCode
from naiad.protocol.transport.sockets import TransportSettings
from tests.server.protocol.grpc.scripted_engine import ScriptedEngine, small_request
from tests.server.protocol.transport.http2.peer import block, data, headers

CONNECTION_BYTES = 12 * 1024
STREAM_BYTES = 4 * 1024

TABLE_OF_0 = b"\x20"
"""How a header block begins that gives up the dynamic table (RFC 7541, section 6.3)."""


class NoSocket(asyncio.Transport):
    """A transport to a client that reads everything at once."""

    @override
    def get_extra_info(self, name: str, default: typing.Any = None) -> typing.Any:
        return ("127.0.0.1", 50_000) if name == "peername" else default

    @override
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    @override
    def get_write_buffer_size(self) -> int:
        return 0

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    @override
    def writelines(self, list_of_data: typing.Any) -> None: ...

    @override
    def is_closing(self) -> bool:
        return False

    @override
    def close(self) -> None: ...


@pytest.fixture
async def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
async def service(engine: ScriptedEngine) -> collections.abc.AsyncIterator[GrpcService]:
    settings = GrpcSettings()
    registry = ConnectionRegistry(asyncio.get_running_loop(), tick=1.0)
    service = GrpcService(Methods(engine, settings), settings, registry, TransportSettings())
    yield service
    for connection in registry.connections():
        assert isinstance(connection, GrpcConnection)
        connection.connection_lost(None)
    service.close()


def connected(service: GrpcService) -> GrpcConnection:
    """A client's connection once the settings of both sides are exchanged."""
    connection = GrpcConnection(service)
    connection.connection_made(NoSocket())
    connection.data_received(frames.PREFACE + frames.settings({}))
    connection.data_received(frames.SETTINGS_ACK)
    return connection


def head(path: str, number: int) -> tuple[tuple[str, str], ...]:
    """The headers of a client with a deadline and an identifier of its own in each call."""
    return (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "x"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("user-agent", "grpc-python/1.85.1"),
        ("grpc-timeout", f"{3_600_000 + number}m"),
        ("traceparent", f"00-{number:032x}-{number:016x}-01"),
    )


def grown(make: collections.abc.Callable[[], object]) -> int:
    """How many bytes of Python's memory `make` leaves in use."""
    gc.collect()
    tracemalloc.start(1)
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = make()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del kept
    return after - before


async def test_idle_connections_are_small(service: GrpcService) -> None:
    connected(service)  # what all share is there

    used = grown(lambda: [connected(service) for _ in range(1_000)])

    assert used <= 1_000 * CONNECTION_BYTES


@pytest.mark.parametrize("keeps_table", [False, True], ids=["gives_up_table", "keeps_table"])
async def test_connections_are_small_after_their_calls(
    service: GrpcService, *, keeps_table: bool
) -> None:
    """`keeps_table`: a client that ignores our SETTINGS_HEADER_TABLE_SIZE, and fills a dynamic table of 4 KiB."""
    encoder = hpack.Encoder()
    encoded = [
        encoder.encode([*head(INFER, n), (f"k{n}", "v" * 1_900)], huffman=False) for n in range(3)
    ]
    if not keeps_table:
        later = block(*head(INFER, 1))
        encoded[1:] = TABLE_OF_0 + later, later

    def after_calls() -> GrpcConnection:
        connection = connected(service)
        for index, each in enumerate(encoded):
            stream = 2 * index + 1
            connection.data_received(headers(stream, each) + frames.SETTINGS_ACK)
            assert connection.h2.streams
            connection.data_received(frames.reset(stream, ErrorCode.CANCEL))
        service.deadlines._end_step()  # 20 ms later: nothing is kept of calls that have ended
        return connection

    after_calls()
    used = grown(lambda: [after_calls() for _ in range(50)])

    assert used <= 50 * CONNECTION_BYTES


@pytest.mark.parametrize("path", [INFER, STREAM_INFER])
@pytest.mark.parametrize("keeps_table", [False, True], ids=["gives_up_table", "keeps_table"])
async def test_idle_streams_are_small(
    service: GrpcService, path: str, *, keeps_table: bool
) -> None:
    count = 300 if keeps_table else 1_000
    blocks = [block(*head(path, number)) for number in range(count)]
    client = connected(service)
    client.data_received(headers(1, blocks[0]))
    if not keeps_table:
        client.data_received(frames.SETTINGS_ACK + headers(3, TABLE_OF_0 + blocks[0]))

    def open_all() -> None:
        for number, encoded in enumerate(blocks, 2):
            client.data_received(headers(2 * number + 1, encoded))

    used = grown(open_all)

    assert len(client.h2.streams) > count
    assert used <= count * STREAM_BYTES


async def test_streams_are_small_after_their_requests(
    service: GrpcService, engine: ScriptedEngine
) -> None:
    count = 300
    encoded = block(*head(STREAM_INFER, 1))
    message = small_request()
    request = struct.pack(">BI", 0, len(message)) + message
    client = connected(service)

    def exchange(streams: range) -> None:
        for stream in streams:
            client.data_received(headers(stream, encoded) + data(stream, request))
            engine.requests.clear()

    exchange(range(1, 3, 2))
    used = grown(functools.partial(exchange, range(3, 2 * count + 3, 2)))

    assert len(client.h2.streams) == count + 1
    assert used <= count * STREAM_BYTES
