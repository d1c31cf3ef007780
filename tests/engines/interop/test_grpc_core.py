"""grpc-core, as Python has it, against the service: the cases of gRPC's interop descriptions about compression and concurrency, which grpc-go's client lacks."""

import asyncio
import collections.abc
import typing

import grpc
import grpc.aio
import pytest

from tests.engines.interop import messages
from tests.engines.interop.service import SERVICE, server

REQUEST_BYTES, RESPONSE_BYTES = 271_828, 314_159


@pytest.fixture(params=[grpc.Compression.Gzip, grpc.Compression.Deflate])
async def channel(request: pytest.FixtureRequest) -> typing.AsyncIterator[typing.Any]:
    """Its calls compress by `request.param` where a test asks for it."""
    port = server()
    await port.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port.address[1]}") as channel:
        channel.compression = request.param
        yield channel
    await port.close(0)


def unary(channel: typing.Any, method: str = "UnaryCall") -> typing.Any:
    return channel.unary_unary(
        SERVICE + method,
        messages.SimpleRequest.SerializeToString,
        messages.SimpleResponse.FromString,
    )


def large(**fields: typing.Any) -> typing.Any:
    payload = {"body": bytes(REQUEST_BYTES)}
    return messages.SimpleRequest(response_size=RESPONSE_BYTES, payload=payload, **fields)


async def test_client_compressed_unary(channel: typing.Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await unary(channel)(large(expect_compressed={"value": True}))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    compressed = await unary(channel)(
        large(expect_compressed={"value": True}), compression=channel.compression
    )
    plain = await unary(channel)(large(expect_compressed={"value": False}))
    assert compressed == plain
    assert compressed.payload.body == bytes(RESPONSE_BYTES)


@pytest.mark.parametrize("compress", [True, False])
async def test_server_compressed_unary(channel: typing.Any, *, compress: bool) -> None:
    call = unary(channel)(large(response_compressed={"value": compress}))
    assert (await call).payload.body == bytes(RESPONSE_BYTES)


async def test_client_compressed_streaming(channel: typing.Any) -> None:
    method = channel.stream_unary(
        SERVICE + "StreamingInputCall",
        messages.StreamingInputCallRequest.SerializeToString,
        messages.StreamingInputCallResponse.FromString,
    )

    def message(size: int, *, compressed: bool) -> typing.Any:
        expected = {"value": compressed}
        return messages.StreamingInputCallRequest(
            payload={"body": bytes(size)}, expect_compressed=expected
        )

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await method(iter([message(27_182, compressed=True)]))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    call = method(compression=channel.compression)
    await call.write(message(27_182, compressed=True))
    await call.write(message(45_904, compressed=True))
    await call.done_writing()
    assert (await call).aggregated_payload_size == 27_182 + 45_904


async def test_server_compressed_streaming(channel: typing.Any) -> None:
    method = channel.unary_stream(
        SERVICE + "StreamingOutputCall",
        messages.StreamingOutputCallRequest.SerializeToString,
        messages.StreamingOutputCallResponse.FromString,
    )
    wanted = [
        {"compressed": {"value": True}, "size": 31_415},
        {"compressed": {"value": False}, "size": 92_653},
        {"compressed": {"value": True}, "size": 92_653},
    ]
    request = messages.StreamingOutputCallRequest(response_parameters=wanted)
    sizes = [len(response.payload.body) async for response in method(request)]
    assert sizes == [31_415, 92_653, 92_653]


async def test_cacheable_unary(channel: typing.Any) -> None:
    first, second = [
        await unary(channel, "CacheableUnaryCall")(messages.SimpleRequest(response_size=10))
        for _ in range(2)
    ]
    assert first == second


async def test_concurrent_large_unary(channel: typing.Any) -> None:
    calls = [unary(channel)(large()) for _ in range(100)]
    for response in await asyncio.gather(*calls):
        assert response.payload.body == bytes(RESPONSE_BYTES)


async def test_half_duplex(channel: typing.Any) -> None:
    method = channel.stream_stream(
        SERVICE + "HalfDuplexCall",
        messages.StreamingOutputCallRequest.SerializeToString,
        messages.StreamingOutputCallResponse.FromString,
    )

    async def requests() -> collections.abc.AsyncIterator[typing.Any]:
        for size in (31_415, 9, 2_653, 58_979):
            wanted = [{"size": size, "interval_us": 1000}]
            yield messages.StreamingOutputCallRequest(response_parameters=wanted)

    sizes = [len(response.payload.body) async for response in method(requests())]
    assert sizes == [31_415, 9, 2_653, 58_979]


async def test_metadata_and_statuses(channel: typing.Any) -> None:
    sent = (("x-grpc-test-echo-initial", "test_initial_metadata_value"), ("x-grpc-test-echo-trailing-bin", b"\x0a\x0b\x0a\x0b\x0a\x0b"))  # fmt: skip
    call = unary(channel)(messages.SimpleRequest(response_size=3), metadata=sent)
    await call
    assert sent[0] in tuple(await call.initial_metadata())
    assert sent[1] in tuple(await call.trailing_metadata())
    call = unary(channel)(messages.SimpleRequest(response_status={"code": 5, "message": "\t\n%Ü☺ "}), metadata=sent)  # fmt: skip
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "\t\n%Ü☺ ")
    assert sent[1] in tuple(caught.value.trailing_metadata())
