"""The gRPC port itself: taken and given back, stopped, secured, its connections limited."""

import asyncio
import subprocess
import sys
import typing
import uuid

import grpc
import grpc.aio
import pytest
import uvloop

from naiad.core.messages import service_pb2
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.protocol.grpc.methods import INFER
from naiad.protocol.grpc.settings import CannotServeError, TlsSettings
from naiad.protocol.grpc.transport.aio import GrpcServer
from tests.server.protocol.grpc import certificates
from tests.server.protocol.grpc.scripted_engine import ScriptedEngine, echo, small_request
from tests.server.protocol.grpc.serving import (
    Port,
    cancelled,
    channel_to,
    held,
    made,
    serving,
    where,
)
from tests.server.protocol.grpc.silent_client import SilentClient


async def test_a_connection_that_is_old_enough_is_asked_to_go() -> None:
    async with serving(
        ScriptedEngine(), max_connection_age_ms=50, max_connection_age_grace_ms=50
    ) as server:
        client = SilentClient(server.address)
        await client.connect()
        assert await client.farewell() == b"max connection age"
        await client.close()


async def test_calls_that_outlast_the_grace_of_their_connection_are_unavailable_and_cancelled() -> (
    None
):
    engine = ScriptedEngine()
    settings = {"max_connection_age_ms": 50, "max_connection_age_grace_ms": 50}
    async with serving(engine, **settings) as server, channel_to(server) as channel:
        arrived = held(engine)
        call = channel.unary_unary(INFER)(small_request())
        gone = cancelled(await arrived)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await call
        await gone
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    assert error.value.details() == "max connection age"


async def test_a_client_that_pings_too_often_gets_enhance_your_calm() -> None:
    async with serving(ScriptedEngine(), max_ping_strikes=1) as server:
        client = SilentClient(server.address)
        await client.connect()
        await client.ping(5)
        assert b"too_many_pings" in await client.farewell()
        await client.close()


async def test_stop_lets_calls_in_progress_finish_and_refuses_new_ones() -> None:
    engine = ScriptedEngine()
    async with serving(engine) as server, channel_to(server) as channel:
        arrived = held(engine)
        call = channel.unary_unary(INFER)(small_request(request_id="7"))
        inference = await arrived
        stopping = asyncio.create_task(server.close(30))
        await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)  # it received GOAWAY
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(INFER)(small_request())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert not stopping.done()
        inference.on_response(echo(engine.requests[0]))
        assert service_pb2.ModelInferResponse.FromString(await call).id == "7"
        await stopping
        assert not inference.cancelled


async def test_stop_refuses_and_cancels_what_does_not_finish_in_time() -> None:
    engine = ScriptedEngine()
    async with serving(engine) as server, channel_to(server) as channel:
        arrived = held(engine)
        call = channel.unary_unary(INFER)(small_request())
        gone = cancelled(await arrived)
        assert await server.close(0.05) == 1
        await gone
        with pytest.raises(grpc.aio.AioRpcError, match="Server exiting: ") as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def called_until_refused(server: Port, answered: list[str]) -> grpc.StatusCode:
    """The status of the last call of a client that sends one call after the other, on one connection; the ids of the others that have their response."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(where(server.address), options) as channel:
        infer = channel.unary_unary(INFER)
        while True:
            request_id = str(uuid.uuid4())
            try:
                await infer(small_request(request_id=request_id))
            except grpc.aio.AioRpcError as error:
                return error.code()
            answered.append(request_id)


@pytest.mark.parametrize("trial", range(5))
async def test_a_stop_beside_busy_clients_loses_no_response(trial: int, grpc_engine: str) -> None:
    """Each call that reaches the engine has its response.

    A call that crosses GOAWAY never does with grpcio: grpc resets it, CANCELLED, before the server sees it. Responses are held back so that few calls
    can, and a client that does not run for longer than that may still send one.
    """
    engine, busy = ScriptedEngine(), asyncio.Event()
    answered: list[str] = []

    def answer(request: InferRequest) -> InferResponse:
        if len(engine.requests) == 100 + trial:
            busy.set()
        return echo(request)

    engine.answer = answer
    refusals = {grpc.StatusCode.UNAVAILABLE}
    if grpc_engine == "grpcio":
        refusals.add(grpc.StatusCode.CANCELLED)
    async with serving(engine) as server:
        clients = [asyncio.create_task(called_until_refused(server, answered)) for _ in range(8)]
        await busy.wait()
        await server.close(30)
        assert {await client for client in clients} <= refusals
    assert sorted(answered) == sorted(request.id for request in engine.requests)


@pytest.mark.parametrize("grpc_engine", ["grpcio"], indirect=True)  # the other holds nothing back
async def test_a_stop_that_is_cancelled_sends_what_it_held_back() -> None:
    engine = ScriptedEngine()
    async with serving(engine) as server, channel_to(server) as channel:
        arrived = held(engine)
        call = channel.unary_unary(INFER)(small_request(request_id="7"))
        inference = await arrived
        stopping = asyncio.create_task(server.close(30))
        await asyncio.sleep(0)
        assert isinstance(server, GrpcServer)
        assert server._calls.is_held
        inference.on_response(echo(engine.requests[0]))
        stopping.cancel()
        assert service_pb2.ModelInferResponse.FromString(await call).id == "7"


async def test_calls_that_come_before_stop_closes_the_connection_get_the_reason() -> None:
    async with serving(ScriptedEngine()) as server, channel_to(server) as channel:
        await channel.unary_unary(INFER)(small_request())
        server._methods.shut()
        with pytest.raises(
            grpc.aio.AioRpcError,
            match="GRPC server is shutting down and has stopped accepting new requests",
        ) as caught:
            await channel.unary_unary(INFER)(small_request())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_reserved_port_is_taken_and_answers_once_started() -> None:
    server = made()
    await server.reserve()
    with pytest.raises(CannotServeError):
        await made(port=server.address[1]).start()
    async with channel_to(server) as channel:
        call = channel.unary_unary(INFER)(small_request(), wait_for_ready=True)
        await server.start()
        assert await call
    await server.close(0)


async def test_a_reserved_port_is_given_back_by_stop() -> None:
    server = made()
    await server.reserve()
    await server.close(0)
    await server.close(0)
    async with serving(ScriptedEngine(), port=server.address[1]):
        pass


async def test_stop_before_start_and_twice_is_nothing() -> None:
    await made().close(1)
    async with serving(ScriptedEngine()) as server:
        await server.close(0)
        await server.close(0)


async def test_a_port_that_is_taken_is_refused_with_the_option() -> None:
    async with serving(ScriptedEngine()) as server:
        port = server.address[1]
        with pytest.raises(CannotServeError, match="--grpc-port") as caught:
            async with serving(ScriptedEngine(), port=port):
                pass
        assert f"127.0.0.1:{port}: Address already in use" in str(caught.value)


async def test_an_address_of_another_machine_is_refused_with_the_option() -> None:
    with pytest.raises(CannotServeError, match="Cannot assign requested address"):
        async with serving(ScriptedEngine(), address="192.0.2.1"):
            pass


async def test_two_servers_may_share_a_port_when_both_allow_it() -> None:
    async with (
        serving(ScriptedEngine(), reuse_port=True) as first,
        serving(ScriptedEngine(), reuse_port=True, port=first.address[1]) as second,
    ):
        assert first.address == second.address


async def test_tls_with_and_without_client_certificates(tmp_path: typing.Any) -> None:
    files = certificates.make(tmp_path)
    authority = files.authority.read_bytes()
    client_key, client_cert = files.client_key.read_bytes(), files.client_cert.read_bytes()
    nobody = grpc.ssl_channel_credentials(authority)
    somebody = grpc.ssl_channel_credentials(authority, client_key, client_cert)
    for mutual, root, credentials, succeeds in (
        (False, "", nobody, True),
        (True, str(files.authority), somebody, True),
        (True, str(files.authority), nobody, False),
    ):
        tls = TlsSettings(
            server_cert=str(files.server_cert),
            server_key=str(files.server_key),
            root_cert=root,
            mutual=mutual,
        )
        async with (
            serving(ScriptedEngine(), tls=tls) as server,
            grpc.aio.secure_channel(f"localhost:{server.address[1]}", credentials) as channel,
        ):
            call = channel.unary_unary(INFER)(small_request())
            if succeeds:
                assert await call
            else:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await call
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_it_runs_on_uvloop() -> None:
    async def infer() -> bytes:
        assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
        async with serving(ScriptedEngine()) as server, channel_to(server) as channel:
            answer: bytes = await channel.unary_unary(INFER)(small_request(request_id="7"))
            return answer

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        answer = runner.run(infer())
    assert service_pb2.ModelInferResponse.FromString(answer).id == "7"


def test_only_the_transport_imports_grpc() -> None:
    program = (
        "import sys\n"
        "from naiad.protocol.grpc import methods, settings\n"
        "assert 'grpc' not in sys.modules\n"
        "from naiad.protocol.grpc.transport import aio\n"
        "assert 'grpc' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
