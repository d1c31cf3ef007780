"""The real clients against the gRPC port, over loopback: calls."""

import asyncio
import queue
import random
import threading
import typing

import grpc
import grpc.aio
import numpy as np
import pytest
import tritonclient.grpc as sync_client
import tritonclient.grpc.aio as async_client

from naiad.core.datatypes import BF16
from naiad.core.messages import service_pb2
from naiad.errors import unavailable
from naiad.protocol.grpc.methods import CHECK, INFER, SERVICE, STREAM_INFER, WATCH
from naiad.protocol.restricted import Category, Restriction
from tests.server.protocol.grpc.counting_proxy import CountingProxy
from tests.server.protocol.grpc.scripted_engine import ScriptedEngine, echo, failed, small_request
from tests.server.protocol.grpc.serving import cancelled, channel_to, held, serving, where
from tests.server.protocol.grpc.silent_client import SilentClient


def infer_inputs(array: "np.ndarray[typing.Any, typing.Any]") -> list[typing.Any]:
    given = async_client.InferInput("A", list(array.shape), "FP32")
    given.set_data_from_numpy(array)
    return [given]


SERVING = b"\x08\x01"
"""HealthCheckResponse with its status."""

ROW = np.array([[1, 2, 3, 4]], np.float32)


async def test_the_asyncio_client_gets_its_values_back() -> None:
    async with (
        serving(ScriptedEngine()) as server,
        async_client.InferenceServerClient(where(server.address)) as client,
    ):
        result = await client.infer("m", infer_inputs(ROW), request_id="7")
        assert (result.as_numpy("A") == ROW).all()
        assert result.get_response().id == "7"
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready("m")
        assert (await client.get_server_metadata()).name == "triton"
        assert (await client.get_model_config("m")).config.name == "m"
        assert not (await client.get_system_shared_memory_status()).regions


async def test_the_blocking_client_gets_its_values_back_also_by_callback() -> None:
    def use(url: str) -> list[float]:
        answers = queue.SimpleQueue[tuple[typing.Any, Exception | None]]()
        client = sync_client.InferenceServerClient(url)
        try:
            assert (client.infer("m", infer_inputs(ROW)).as_numpy("A") == ROW).all()
            for number in range(5):
                client.async_infer(
                    "m",
                    infer_inputs(ROW * number),
                    lambda result, error: answers.put((result, error)),
                )
            got = [answers.get(timeout=120) for _ in range(5)]
        finally:
            client.close()
        assert [error for _, error in got] == [None] * 5
        return [float(result.as_numpy("A")[0][0]) for result, _ in got]

    async with serving(ScriptedEngine()) as server:
        values = await asyncio.to_thread(use, where(server.address))
    assert sorted(values) == [0, 1, 2, 3, 4]


async def test_strings_and_half_floats_survive_the_round_trip() -> None:
    async with (
        serving(ScriptedEngine()) as server,
        async_client.InferenceServerClient(where(server.address)) as client,
    ):
        for datatype, array in (
            ("BYTES", np.array([[b"a\0b", b""], [b"xyz", b"\xff"]], dtype=object)),
            ("FP16", np.arange(6, dtype=np.float16).reshape(2, 3)),
            ("BF16", np.arange(6, dtype=BF16.dtype).reshape(2, 3)),
        ):
            given = async_client.InferInput("A", list(array.shape), datatype)
            given.set_data_from_numpy(array)
            result = await client.infer("m", [given])
            assert result.as_numpy("A").tolist() == array.tolist()


async def test_an_error_keeps_its_status_and_message() -> None:
    error = unavailable("[request id: é] Exceeds maximum queue size")
    async with (
        serving(ScriptedEngine(lambda request: failed(request, error))) as server,
        channel_to(server) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(INFER)(small_request())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert caught.value.details() == "[request id: é] Exceeds maximum queue size"


async def test_a_very_long_error_still_reaches_the_client() -> None:
    error = unavailable("é" * 100_000)
    async with (
        serving(ScriptedEngine(lambda request: failed(request, error))) as server,
        channel_to(server) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(INFER)(small_request())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_bytes_that_are_not_a_message_leave_the_connection_usable() -> None:
    async with serving(ScriptedEngine()) as server, channel_to(server) as channel:
        for body in (b"\x0a\xff", b"\xff" * 1000):
            with pytest.raises(grpc.aio.AioRpcError, match="Unable to parse request"):
                await channel.unary_unary(INFER)(body)
        assert await channel.unary_unary(INFER)(small_request())


async def test_a_client_that_cancels_cancels_its_inference() -> None:
    engine = ScriptedEngine()
    async with serving(engine) as server, channel_to(server) as channel:
        arrived = held(engine)
        call = channel.unary_unary(INFER)(small_request())
        gone = cancelled(await arrived)
        call.cancel()
        await gone
        assert engine.inferences[0].cancelled
        engine.inferences[0].on_response(echo(engine.requests[0]))  # too late, and harmless


async def test_a_client_that_disconnects_cancels_its_inference() -> None:
    engine = ScriptedEngine()
    async with serving(engine) as server:
        arrived = held(engine)
        client = SilentClient(server.address)
        await client.call(INFER, small_request())
        gone = cancelled(await arrived)
        await client.close()
        await gone


@pytest.mark.slow
async def test_a_deadline_that_passes_is_reported_and_cancels_the_inference() -> None:
    engine = ScriptedEngine()
    async with (
        serving(engine) as server,
        async_client.InferenceServerClient(where(server.address)) as client,
    ):
        arrived = held(engine)
        call = asyncio.ensure_future(client.infer("m", infer_inputs(ROW), client_timeout=5))
        gone = cancelled(await arrived)
        with pytest.raises(async_client.InferenceServerException, match="Deadline Exceeded"):
            await call
        await gone


@pytest.mark.slow
async def test_a_deadline_passes_at_the_server_though_the_client_says_nothing() -> None:
    engine = ScriptedEngine()
    async with serving(engine) as server:
        arrived = held(engine)
        client = SilentClient(server.address)
        await client.call(INFER, small_request(), ("grpc-timeout", "5S"))
        await cancelled(await arrived)
        await client.close()


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
async def test_compressed_requests_are_understood(algorithm: str) -> None:
    zeros = np.zeros((1, 250_000), np.float32)
    async with (
        serving(ScriptedEngine()) as server,
        CountingProxy(server.address) as proxy,
        async_client.InferenceServerClient(where(proxy.address)) as client,
    ):
        result = await client.infer("m", infer_inputs(zeros), compression_algorithm=algorithm)
        assert (result.as_numpy("A") == zeros).all()
        assert proxy.up < 50_000
        assert proxy.down > 1_000_000


@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_a_message_that_becomes_too_large_is_refused_also_on_a_stream(
    algorithm: grpc.Compression,
) -> None:
    engine = ScriptedEngine()
    async with (
        serving(engine, max_decompressed_bytes=3_000_000) as server,
        grpc.aio.insecure_channel(where(server.address), compression=algorithm) as channel,
    ):
        for size, taken in ((2_900_000, True), (3_000_000, False)):
            request = service_pb2.ModelInferRequest.FromString(small_request())
            request.inputs[0].shape[:] = [1, size // 4]
            request.raw_input_contents[0] = bytes(size)
            body = request.SerializeToString()
            stream = channel.stream_stream(STREAM_INFER)()
            await stream.write(body)
            unary = channel.unary_unary(INFER)(body)
            if taken:
                assert len(await unary) > size
                assert len(await stream.read()) > size
                stream.cancel()
                continue
            for call in (unary, stream):
                assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                assert "--grpc-max-decompressed-size" in await call.details()
    assert len(engine.requests) == 2


async def test_a_message_that_is_decompressed_while_the_server_gives_up_gets_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def decompress(message: bytes, limit: int) -> bytes:
        loop.call_soon_threadsafe(begun.set)
        may_end.wait(60)
        return message

    for module in ("calls_in_progress", "native.compression"):
        monkeypatch.setattr(f"naiad.protocol.grpc.transport.{module}.decompress", decompress)
    gzip = grpc.Compression.Gzip
    async with (
        serving(ScriptedEngine()) as server,
        grpc.aio.insecure_channel(where(server.address), compression=gzip) as channel,
    ):
        call = channel.unary_unary(INFER)(random.randbytes(6000) + bytes(6000))
        await begun.wait()
        await server.close(0)
        may_end.set()
        assert await call.code() is grpc.StatusCode.UNAVAILABLE
        assert "Server exiting" in await call.details()


@pytest.mark.parametrize("level", ["none", "low", "medium", "high"])
async def test_infer_responses_are_compressed_as_the_option_says(level: str) -> None:
    zeros = np.zeros((1, 250_000), np.float32)
    async with (
        serving(ScriptedEngine(), infer_response_compression_level=level) as server,
        CountingProxy(server.address) as proxy,
        async_client.InferenceServerClient(where(proxy.address)) as client,
    ):
        result = await client.infer("m", infer_inputs(zeros))
        assert (result.as_numpy("A") == zeros).all()
        assert (proxy.down < 50_000) == (level != "none")


async def test_a_client_that_knows_no_compression_gets_plain_responses() -> None:
    large = np.zeros((1, 250_000), np.float32)
    only_identity = [("grpc.compression_enabled_algorithms_bitset", 1)]
    async with (
        serving(ScriptedEngine(), infer_response_compression_level="high") as server,
        CountingProxy(server.address) as proxy,
        grpc.aio.insecure_channel(where(proxy.address), options=only_identity) as channel,
    ):
        request = service_pb2.ModelInferRequest(model_name="m")
        request.inputs.add(name="A", datatype="FP32", shape=large.shape)
        request.raw_input_contents.append(large.tobytes())
        await channel.unary_unary(INFER)(request.SerializeToString())
        assert proxy.down > 1_000_000


async def test_other_responses_are_not_compressed() -> None:
    engine = ScriptedEngine()
    engine.ready = True
    name = "m" * 100_000
    async with (
        serving(engine, infer_response_compression_level="high") as server,
        CountingProxy(server.address) as proxy,
        grpc.aio.insecure_channel(where(proxy.address)) as channel,
    ):
        engine.find = lambda *_: None  # type: ignore[method-assign] # any name will do
        body = service_pb2.ModelConfigRequest(name=name).SerializeToString()
        await channel.unary_unary(SERVICE + "ModelConfig")(body)
        assert proxy.down > 100_000


async def test_sixteen_megabytes_go_both_ways() -> None:
    large = np.arange(4_194_304, dtype=np.float32).reshape(1, -1)
    async with (
        serving(ScriptedEngine()) as server,
        async_client.InferenceServerClient(where(server.address)) as client,
    ):
        result = await client.infer("m", infer_inputs(large))
        assert (result.as_numpy("A") == large).all()


async def test_many_calls_at_once_each_get_their_own_answer() -> None:
    async with serving(ScriptedEngine()) as server, channel_to(server) as channel:
        infer = channel.unary_unary(INFER, None, service_pb2.ModelInferResponse.FromString)
        answers = await asyncio.gather(
            *(infer(small_request(request_id=str(number))) for number in range(300))
        )
        assert [answer.id for answer in answers] == [str(number) for number in range(300)]


async def test_metadata_are_forwarded_and_keys_are_asked_for() -> None:
    engine = ScriptedEngine()
    key = Restriction(header="infer-key", value="secret")
    async with (
        serving(
            engine, header_forward_pattern="^x-", restrictions={Category.INFERENCE: key}
        ) as server,
        async_client.InferenceServerClient(where(server.address)) as client,
    ):
        with pytest.raises(
            async_client.InferenceServerException,
            match="expecting header 'triton-grpc-protocol-infer-key'",
        ):
            await client.infer("m", infer_inputs(ROW))
        headers = {"triton-grpc-protocol-infer-key": "secret", "x-user": "me"}
        await client.infer("m", infer_inputs(ROW), headers=headers)
        assert [request.parameters for request in engine.requests] == [{"x-user": "me"}]
        assert await client.is_server_live()


async def test_health_check_answers_any_client() -> None:
    async with serving(ScriptedEngine()) as server, channel_to(server) as channel:
        assert await channel.unary_unary(CHECK)(b"") == SERVING


async def test_watch_and_unknown_methods_are_unimplemented() -> None:
    async with serving(ScriptedEngine()) as server, channel_to(server) as channel:
        for call, said in (
            (channel.unary_stream(WATCH)(b""), "Watch is not implemented"),
            (channel.unary_stream(SERVICE + "Nothing")(b""), "Method not found"),
            (channel.unary_stream("/other.Service/Method")(b""), "Method not found"),
        ):
            with pytest.raises(grpc.aio.AioRpcError, match=said) as caught:
                async for _ in call:
                    pass
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
