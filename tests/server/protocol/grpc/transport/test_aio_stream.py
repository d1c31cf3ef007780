"""The real clients against the gRPC port, over loopback: streams."""

import asyncio
import typing

import grpc
import grpc.aio
import numpy as np
import pytest
from typing_extensions import override

from naiad.core.datatypes import FP32
from naiad.core.inference import Inference
from naiad.core.messages import service_pb2
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.protocol.grpc.methods import STREAM_INFER
from naiad.protocol.grpc.transport.aio_stream import HIGH_BYTES, BidiStream
from naiad.protocol.grpc.transport.message_memory import MessageMemory
from tests.server.protocol.grpc.scripted_engine import (
    DECOUPLED,
    ScriptedEngine,
    small_request,
    tensor,
)
from tests.server.protocol.grpc.serving import cancelled, channel_to, held, serving

LARGE = np.zeros(16_384, np.float32)
GIVE_UP_S = 60


def part(inference: Inference, *, final: bool = False) -> InferResponse:
    request = inference.request
    outputs = NO_OUTPUTS if final else [tensor("OUT", LARGE, FP32)]
    return InferResponse("m", 1, request.id, outputs, NO_PARAMETERS, None, final, final)


def begun(channel: typing.Any) -> typing.Any:
    return channel.stream_stream(
        STREAM_INFER, None, service_pb2.ModelStreamInferResponse.FromString
    )()


async def replies(call: typing.Any) -> list[typing.Any]:
    got: list[typing.Any] = []
    while (reply := await call.read()) is not grpc.aio.EOF:
        got.append(reply)
    return got


async def test_many_requests_on_one_stream_are_answered_in_order() -> None:
    async with serving(ScriptedEngine()) as server, channel_to(server) as channel:
        call = begun(channel)
        for number in range(200):
            await call.write(small_request(request_id=str(number)))
        await call.done_writing()
        got = await replies(call)
        assert [each.infer_response.id for each in got] == [str(number) for number in range(200)]
        assert await call.code() is grpc.StatusCode.OK


@pytest.mark.slow
async def test_a_client_that_cancels_or_lets_its_deadline_pass_cancels_what_is_in_flight() -> None:
    for deadline in (None, 2):
        engine = ScriptedEngine(traits=DECOUPLED)
        async with serving(engine) as server, channel_to(server) as channel:
            arrived = held(engine)
            multi = channel.stream_stream(STREAM_INFER)
            call = multi(timeout=deadline)
            await call.write(small_request())
            gone = cancelled(await arrived)
            if deadline is None:
                call.cancel()
            await asyncio.wait_for(gone, GIVE_UP_S)


async def test_a_client_that_does_not_read_holds_the_model_and_memory_stays_bounded() -> None:
    engine = ScriptedEngine(traits=DECOUPLED)
    async with serving(engine) as server, channel_to(server) as channel:
        arrived = held(engine)
        call = begun(channel)
        await call.write(small_request())
        inference = await arrived
        flow = inference.flow
        assert flow is not None
        sent = 0
        async with asyncio.timeout(GIVE_UP_S):
            while not flow.is_full():
                inference.on_response(part(inference))
                sent += 1
                await asyncio.sleep(0)
        # What grpc and the kernel hold comes before our own bound.
        assert sent * LARGE.nbytes >= HIGH_BYTES
        for _ in range(sent):
            assert await call.read() is not grpc.aio.EOF
        assert not flow.is_full()
        inference.on_response(part(inference, final=True))
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK


async def test_reading_goes_on_when_requests_end_without_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("naiad.protocol.grpc.stream.MAX_IN_FLIGHT", 2)
    engine = ScriptedEngine(traits=DECOUPLED)
    arrived = asyncio.Queue[Inference]()
    engine.answer = None
    engine.on_held = arrived.put_nowait
    async with (
        serving(engine) as server,
        channel_to(server) as channel,
        asyncio.timeout(GIVE_UP_S),
    ):
        call = begun(channel)
        for number in range(6):
            await call.write(small_request(request_id=str(number)))
        await call.done_writing()
        for _ in range(6):
            inference = await arrived.get()
            inference.on_response(part(inference, final=True))
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK


async def test_a_stop_ends_idle_streams_at_once_and_waits_for_those_that_work() -> None:
    engine = ScriptedEngine(traits=DECOUPLED)
    async with serving(engine) as server, channel_to(server) as channel:
        arrived = held(engine)
        idle, busy = begun(channel), begun(channel)
        await busy.write(small_request(request_id="r"))
        await idle.write(b"\x0a\xff")
        assert "Unable to parse" in (await idle.read()).error_message
        inference = await arrived
        stopping = asyncio.ensure_future(server.close(GIVE_UP_S))
        with pytest.raises(grpc.aio.AioRpcError, match="GRPC server is shutting down") as caught:
            await replies(idle)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert not stopping.done()
        inference.on_response(part(inference))
        inference.on_response(part(inference, final=True))
        assert (await busy.read()).infer_response.id == "r"
        with pytest.raises(grpc.aio.AioRpcError, match="GRPC server is shutting down"):
            await replies(busy)
        await asyncio.wait_for(stopping, GIVE_UP_S)


async def test_a_stop_without_grace_refuses_and_cancels_what_streams_still_wait_for() -> None:
    engine = ScriptedEngine(traits=DECOUPLED)
    async with serving(engine) as server, channel_to(server) as channel:
        arrived = held(engine)
        call = begun(channel)
        await call.write(small_request())
        gone = cancelled(await arrived)
        await server.close(0)
        await asyncio.wait_for(gone, GIVE_UP_S)
        with pytest.raises(grpc.aio.AioRpcError, match="Server exiting: ") as caught:
            await replies(call)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_an_error_that_ends_the_stream_comes_after_what_was_sent_before() -> None:
    engine = ScriptedEngine()
    async with serving(engine) as server, channel_to(server) as channel:
        multi = channel.stream_stream(
            STREAM_INFER, None, service_pb2.ModelStreamInferResponse.FromString
        )
        call = multi(metadata=(("triton_grpc_error", "true"),))
        await call.write(small_request(request_id="1"))
        await call.write(b"\x0a\xff")
        assert (await call.read()).infer_response.id == "1"
        with pytest.raises(grpc.aio.AioRpcError, match="Unable to parse request") as caught:
            await replies(call)
        assert caught.value.code() is grpc.StatusCode.INTERNAL


class StuckContext:
    """A call whose client neither sends nor reads."""

    def __init__(self) -> None:
        self.writing = asyncio.Event()

    async def read(self) -> None:
        await asyncio.Event().wait()

    async def write(self, message: bytes) -> None:
        self.writing.set()
        await asyncio.Event().wait()


class StreamHandler:
    """Records pauses and resumes."""

    def __init__(self) -> None:
        self.held = self.cancelled = 0

    def take(self, body: bytes) -> None: ...

    def half_close(self) -> None: ...

    def pause(self) -> None:
        self.held += 1

    def resume(self) -> None: ...

    def cancel(self) -> None:
        self.cancelled += 1

    def may_take(self) -> bool:
        return True

    def has_sequences(self) -> bool:
        return False


async def test_what_was_not_sent_is_dropped_with_the_client() -> None:
    context, handler = StuckContext(), StreamHandler()
    bidi_stream = BidiStream(context, lambda *_: handler, MessageMemory())
    running = asyncio.ensure_future(bidi_stream.run())
    for _ in range(3):
        bidi_stream.send(bytes(HIGH_BYTES))
    assert handler.held == 1
    await context.writing.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert handler.cancelled == 1
    assert (
        not bidi_stream._queue
    )  # grpc keeps the call, and so the bidi_stream, until the garbage collector comes


async def test_a_stream_ends_with_an_error_when_reading_it_fails() -> None:
    class BrokenContext(StuckContext):
        @override
        async def read(self) -> None:
            raise OSError("no more")

    handler = StreamHandler()
    bidi_stream = BidiStream(BrokenContext(), lambda *_: handler, MessageMemory())
    refused = await asyncio.wait_for(bidi_stream.run(), GIVE_UP_S)
    assert refused is not None
    assert refused.status == 13
    assert "reading the stream failed inside the server (OSError)" in refused.message
    assert handler.cancelled == 1
