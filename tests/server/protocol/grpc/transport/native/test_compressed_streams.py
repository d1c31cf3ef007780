"""Messages of a stream that are compressed: long ones beside the event loop, all in their order, and how such a stream ends."""

import asyncio
import contextlib
import threading
import typing

import grpc
import grpc.aio
import pytest

from naiad.protocol.grpc.call import Sent
from naiad.protocol.grpc.transport.native import compression
from naiad.protocol.grpc.transport.native.connection import GrpcConnection
from naiad.protocol.grpc.transport.native.listener import NativeGrpcServer
from tests.engines.interop import messages, service as interop

SIZES = (10, 300_000, 20, 30, 400_000, 500_000, 40, 100, 0)


@pytest.fixture
async def server() -> typing.AsyncIterator[NativeGrpcServer]:
    server = interop.server()
    await server.start()
    yield server
    await server.close(0)


class Compressor:
    """In place of `framed`: notes its threads, and waits where a test wants it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, waits: bool = False) -> None:
        self._framed = compression.framed
        self._loop = asyncio.get_running_loop()
        self.begun = asyncio.Event()
        self.may_end = threading.Event()
        self.on_loop: dict[int, bool] = {}
        if not waits:
            self.may_end.set()
        monkeypatch.setattr(compression, "framed", self)

    def __call__(self, message: Sent, encoding: bytes) -> Sent:
        on_loop = threading.current_thread() is threading.main_thread()
        self.on_loop[len(message)] = on_loop
        if not on_loop:
            self._loop.call_soon_threadsafe(self.begun.set)
            self.may_end.wait(60)
        return self._framed(message, encoding)


def called(channel: grpc.aio.Channel, *sizes: int, **options: typing.Any) -> typing.Any:
    request = messages.StreamingOutputCallRequest(
        response_parameters=[{"size": size, "compressed": {"value": size != 30}} for size in sizes]
    )
    method = channel.unary_stream(
        interop.SERVICE + "StreamingOutputCall",
        response_deserializer=messages.StreamingOutputCallResponse.FromString,
    )
    return method(request.SerializeToString(), **options)


async def status_of(call: typing.Any) -> grpc.StatusCode:
    """The status behind the messages: a client sees it only once it has read them."""
    with contextlib.suppress(grpc.RpcError):
        async for _ in call:
            pass
    return typing.cast("grpc.StatusCode", await call.code())


def channel_to(server: NativeGrpcServer) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel("{}:{}".format(*server.address))


async def test_long_messages_are_compressed_beside_the_loop_and_come_in_their_order(
    server: NativeGrpcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    compressor = Compressor(monkeypatch)
    async with channel_to(server) as channel:
        call = called(channel, *SIZES)
        assert [len(response.payload.body) async for response in call] == list(SIZES)
        assert await call.code() is grpc.StatusCode.OK
    assert {on_loop for size, on_loop in compressor.on_loop.items() if size > 200_000} == {False}
    assert {on_loop for size, on_loop in compressor.on_loop.items() if size < 200} == {True}


async def test_a_stream_whose_messages_wait_ends_when_the_server_exits(
    server: NativeGrpcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    compressor = Compressor(monkeypatch, waits=True)
    async with channel_to(server) as channel:
        call = called(channel, *SIZES)
        await compressor.begun.wait()
        await server.close(0)
        assert await status_of(call) is grpc.StatusCode.UNAVAILABLE
        compressor.may_end.set()


async def test_a_stream_whose_messages_wait_ends_with_its_deadline_or_its_client(
    server: NativeGrpcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    compressor = Compressor(monkeypatch, waits=True)
    async with channel_to(server) as channel:
        late, gone = called(channel, *SIZES, timeout=0.05), called(channel, *SIZES)
        await compressor.begun.wait()
        gone.cancel()
        assert await status_of(late) is grpc.StatusCode.DEADLINE_EXCEEDED
        compressor.may_end.set()
        call = called(channel, *SIZES)
        assert [len(response.payload.body) async for response in call] == list(SIZES)
        assert server._service is not None
        (connection,) = server._service.registry.connections()
        while len(typing.cast("GrpcConnection", connection).h2.streams):  # noqa: ASYNC110 - nothing says so
            await asyncio.sleep(0.01)


async def test_a_message_that_cannot_be_compressed_ends_its_stream_with_an_error(
    server: NativeGrpcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def framed(message: bytes, encoding: bytes) -> bytes:
        raise MemoryError

    async with channel_to(server) as channel:
        monkeypatch.setattr(compression, "framed", framed)
        call = called(channel, 300_000, 20)
        assert await status_of(call) is grpc.StatusCode.INTERNAL
