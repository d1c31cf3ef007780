"""The native port over loopback: what only it can show, and clients that break the rules."""

import asyncio
import logging
import ssl
import struct
import typing

import grpc
import grpc.aio
import pytest

from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.protocol.grpc.methods import INFER, STREAM_INFER, Methods
from naiad.protocol.grpc.settings import GrpcSettings, TlsSettings
from naiad.protocol.grpc.transport.native import (
    connection as native_connection,
    refused as native_refused,
)
from naiad.protocol.grpc.transport.native.connection import GrpcConnection
from naiad.protocol.grpc.transport.native.listener import NativeGrpcServer
from naiad.protocol.transport.http2 import connection as http2_connection, floods, frames
from naiad.protocol.transport.http2.errors import ErrorCode
from naiad.protocol.transport.http2.frames import head
from tests.engines.interop import messages, service as interop
from tests.server.protocol.grpc import certificates
from tests.server.protocol.grpc.scripted_engine import ScriptedEngine, echo, small_request
from tests.server.protocol.grpc.serving import cancelled, held
from tests.server.protocol.transport.http2.peer import Kind, block, data, goaway_of, headers, split
from tests.support.waiting import until

FIELDS = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", INFER),
    (":authority", "x"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
)


def started(engine: ScriptedEngine, **settings: typing.Any) -> NativeGrpcServer:
    chosen = GrpcSettings(**{"address": "127.0.0.1", "port": 0, **settings})
    return NativeGrpcServer(chosen, Methods(engine, chosen))


@pytest.fixture
async def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
async def server(engine: ScriptedEngine) -> typing.AsyncIterator[NativeGrpcServer]:
    server = started(engine)
    await server.start()
    yield server
    await server.close(0)


def call(stream: int, *extra: tuple[str, str], path: str = INFER) -> bytes:
    """A whole infer call."""
    fields = [(name, path if name == ":path" else value) for name, value in FIELDS]
    message = small_request()
    body = struct.pack(">BI", 0, len(message)) + message
    return headers(stream, block(*fields, *extra)) + data(stream, body, ended=True)


async def exchanged(server: NativeGrpcServer, *sent: bytes) -> list[typing.Any]:
    """What comes back until the server closes the connection."""
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(b"".join(sent))
    got = split(await reader.read())
    writer.close()
    return got


BEGIN = frames.PREFACE + frames.settings({})


async def test_what_breaks_a_rule_is_answered_by_goaway_and_logged_once(
    server: NativeGrpcServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            got = await exchanged(server, BEGIN, frames.settings({}) * 200)
            assert goaway_of(got)[1] == ErrorCode.ENHANCE_YOUR_CALM
    assert [record.levelname for record in caplog.records if "closed the gRPC" in record.message] == ["WARNING"]  # fmt: skip


async def test_calls_that_are_reset_at_once_begin_nothing(
    server: NativeGrpcServer, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(floods.PER_SECOND, floods.Cheap.RESET, (100, "resets"))
    flood = b"".join(call(n) + frames.reset(n, ErrorCode.CANCEL) for n in range(1, 801, 2))
    got = await exchanged(server, BEGIN, flood)
    assert goaway_of(got)[1] == ErrorCode.ENHANCE_YOUR_CALM
    assert len(engine.requests) < 50  # those whose reset came with a later read


async def test_a_client_that_sends_much_at_once_is_served_in_turns(
    server: NativeGrpcServer, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two of them the loop does what else there is to do."""
    monkeypatch.setattr(http2_connection, "TURN_UNITS", 32)
    loop = asyncio.get_running_loop()
    begun_before_others: list[int] = []

    def answer(request: InferRequest) -> InferResponse:
        if not begun_before_others:
            begun_before_others.append(0)
            loop.call_soon(lambda: begun_before_others.append(len(engine.requests)))
        return echo(request)

    engine.answer = answer
    reader, writer = await asyncio.open_connection(*server.address)
    numbers = range(1, 401, 2)
    writer.write(BEGIN + b"".join(map(call, numbers)))
    for number in numbers:
        await reader.readuntil(head(0, Kind.HEADERS, frames.END_HEADERS | frames.END_STREAM, number)[3:])  # fmt: skip
    writer.close()
    assert 0 < begun_before_others[1] < 50


async def test_a_refused_call_gets_its_status_once_its_client_has_finished_sending(
    server: NativeGrpcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_refused, "REFUSED_AFTER_S", 3_600)
    reader, writer = await asyncio.open_connection(*server.address)
    fields = [(name, "/a/b" if name == ":path" else value) for name, value in FIELDS]
    writer.write(BEGIN + headers(1, block(*fields)) + data(1, b"some") + frames.ping(b"12345678"))
    await reader.readuntil(b"12345678")  # all of it is read, and nothing is answered
    assert server._service is not None
    (connection,) = server._service.registry.connections()
    assert len(typing.cast("GrpcConnection", connection).h2.streams) == 1
    writer.write(data(1, b"more", ended=True))
    await reader.readuntil(b"Method not found!")
    writer.close()


async def test_a_refused_call_of_a_client_that_goes_on_sending_gets_its_status_all_the_same(
    server: NativeGrpcServer,
) -> None:
    reader, writer = await asyncio.open_connection(*server.address)
    fields = [(name, "/a/b" if name == ":path" else value) for name, value in FIELDS]
    writer.write(BEGIN + headers(1, block(*fields)) + data(1, b"some"))
    await reader.readuntil(b"Method not found!")
    assert await reader.readuntil(frames.reset(1, ErrorCode.NO_ERROR))
    writer.close()


async def test_a_client_that_sends_from_an_iterator_gets_the_status_of_a_refused_stream(
    server: NativeGrpcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_refused, "REFUSED_AFTER_S", 3_600)  # a busy client may take long

    async def requests() -> typing.AsyncIterator[bytes]:
        for _ in range(3):
            yield b"abc"
            await asyncio.sleep(0)

    async with grpc.aio.insecure_channel("{}:{}".format(*server.address)) as channel:
        for _ in range(20):
            refused = channel.stream_stream("/a/b")(requests())
            assert await refused.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_http_1_is_answered_by_goaway(server: NativeGrpcServer) -> None:
    got = await exchanged(server, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert goaway_of(got)[1] == ErrorCode.PROTOCOL_ERROR


async def test_a_client_that_never_sends_its_preface_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native_connection, "_PREFACE_S", 0.05)
    server = started(ScriptedEngine(), keepalive_timeout_ms=500)
    await server.start()
    assert goaway_of(await exchanged(server, frames.PREFACE[:5]))[1] == ErrorCode.SETTINGS_TIMEOUT
    await server.close(0)


async def test_a_client_that_gives_no_window_gets_its_response_when_it_does(
    server: NativeGrpcServer,
) -> None:
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(BEGIN[:24] + frames.settings({4: 0}) + call(1))
    got = b""
    while b"application/grpc" not in got:
        got += await reader.read(65_536)
    assert not [kind for kind, *_ in split(got) if kind is frames.Kind.DATA]
    writer.write(frames.window_update(1, 10_000))
    while b"grpc-status" not in got:
        got += await reader.read(65_536)
    writer.close()


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("path", [INFER, STREAM_INFER])
async def test_a_response_that_the_client_does_not_read_is_given_up_at_the_deadline(
    server: NativeGrpcServer, path: str, *, ended: bool
) -> None:
    """As over grpc: it would be kept for as long as the client stays connected."""
    reader, writer = await asyncio.open_connection(*server.address)
    sent = call(1, ("grpc-timeout", "100m"), path=path)
    if not ended:
        at = sent.rindex(head(0, Kind.DATA, frames.END_STREAM, 1)[3:])
        sent = sent[:at] + head(0, Kind.DATA, 0, 1)[3:] + sent[at + 6 :]
    writer.write(BEGIN[:24] + frames.settings({4: 0}) + sent)
    got = split(await reader.readuntil(b"Deadline Exceeded"))
    assert not [kind for kind, *_ in got if kind is Kind.DATA]
    assert server._service is not None
    (connection,) = server._service.registry.connections()
    await until(lambda: not typing.cast("GrpcConnection", connection).h2.streams)
    writer.close()


async def test_a_deadline_ends_a_call_of_a_client_that_does_not_watch_it(
    server: NativeGrpcServer, engine: ScriptedEngine
) -> None:
    arrived = held(engine)
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(BEGIN + call(1, ("grpc-timeout", "50m")))
    gone = cancelled(await arrived)
    await gone
    got = b""
    while b"Deadline Exceeded" not in got:
        got += await reader.read(65_536)
    writer.close()


@pytest.mark.parametrize(
    ("due", "message"),
    [("soon", b"Error parsing 'grpc-timeout' metadata"), ("0n", b"Deadline Exceeded")],
)
async def test_a_call_whose_deadline_is_over_or_cannot_be_read_is_not_begun(
    server: NativeGrpcServer, engine: ScriptedEngine, due: str, message: bytes
) -> None:
    arrived = held(engine)
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(BEGIN + call(1, ("grpc-timeout", due)))
    got = b""
    while message not in got:
        got += await reader.read(65_536)
    assert not arrived.done()
    writer.close()


async def test_a_reset_cancels_the_inference(
    server: NativeGrpcServer, engine: ScriptedEngine
) -> None:
    arrived = held(engine)
    _, writer = await asyncio.open_connection(*server.address)
    writer.write(BEGIN + call(1))
    gone = cancelled(await arrived)
    writer.write(frames.reset(1, ErrorCode.CANCEL))
    await gone
    writer.close()


async def test_a_connection_that_is_lost_cancels_its_calls(
    server: NativeGrpcServer, engine: ScriptedEngine
) -> None:
    arrived = held(engine)
    _, writer = await asyncio.open_connection(*server.address)
    writer.write(BEGIN + call(1))
    gone = cancelled(await arrived)
    writer.close()
    await gone


async def test_close_says_goaway_first_and_serves_what_was_sent_before_the_client_knew(
    server: NativeGrpcServer, engine: ScriptedEngine
) -> None:
    arrived = held(engine)
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(BEGIN + call(1))
    inference = await arrived
    closing = asyncio.create_task(server.close(30))
    got = b""
    while b"draining" not in got:
        got += await reader.read(65_536)
    engine.answer = echo
    writer.write(call(3))  # before the client answers the ping
    while b"grpc-status" not in got:
        got += await reader.read(65_536)
    inference.on_response(echo(engine.requests[0]))
    writer.write(frames.ping(b"draining", ack=True))
    got += await reader.read()
    assert await closing == 0
    found = split(got)
    lasts = [
        struct.unpack_from(">I", payload)[0]
        for kind, _, _, payload in found
        if kind is frames.Kind.GOAWAY
    ]
    assert lasts == [2**31 - 1, 3]
    ended = [
        stream for kind, flags, stream, _ in found if kind is frames.Kind.HEADERS and flags & 1
    ]
    assert sorted(ended) == [1, 3]
    writer.close()


async def test_what_is_not_grpc_gets_a_reason(server: NativeGrpcServer) -> None:
    get = block((":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "x"))
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(BEGIN + headers(1, get, ended=True))
    got = b""
    while b"This port serves gRPC" not in got:
        got += await reader.read(65_536)
    writer.close()


async def test_certificates_are_read_again_when_they_change(tmp_path: typing.Any) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first, second = (certificates.make(tmp_path / name) for name in ("a", "b"))
    tls = TlsSettings(server_cert=str(first.server_cert), server_key=str(first.server_key))
    server = started(ScriptedEngine(), tls=tls)
    await server.start()

    async def works_with(authority: bytes) -> bool:
        credentials = grpc.ssl_channel_credentials(authority)
        async with grpc.aio.secure_channel(
            f"localhost:{server.address[1]}", credentials
        ) as channel:
            try:
                await channel.unary_unary(INFER)(small_request())
            except grpc.aio.AioRpcError:
                return False
            return True

    assert await works_with(first.authority.read_bytes())
    for old, new in (
        (first.server_cert, second.server_cert),
        (first.server_key, second.server_key),
    ):
        old.write_bytes(new.read_bytes())
    assert await works_with(second.authority.read_bytes())
    first.server_key.write_text("damaged")
    assert await works_with(second.authority.read_bytes())  # the old ones stay
    await server.close(0)


async def test_tls_without_http_2_by_alpn_is_closed(tmp_path: typing.Any) -> None:
    files = certificates.make(tmp_path)
    tls = TlsSettings(server_cert=str(files.server_cert), server_key=str(files.server_key))
    server = started(ScriptedEngine(), tls=tls)
    await server.start()
    context = ssl.create_default_context(cafile=str(files.authority))
    reader, writer = await asyncio.open_connection("localhost", server.address[1], ssl=context)
    assert await reader.read() == b""
    writer.close()
    await server.close(0)


@pytest.mark.parametrize("answered", [True, False])
async def test_pings_between_a_streams_messages_are_strikes_only_if_the_server_sends_nothing(
    *, answered: bool
) -> None:
    """grpc-go and grpc-core measure the bandwidth so: a ping behind what they read, on a stream without data of their own."""
    server = interop.server()
    await server.start()
    wanted = [{"size": 1, "interval_us": 1000}] * 20 * answered
    message = messages.StreamingOutputCallRequest(response_parameters=wanted).SerializeToString()
    fields = [(name, interop.SERVICE + "FullDuplexCall" if name == ":path" else value) for name, value in FIELDS]  # fmt: skip
    reader, writer = await asyncio.open_connection(*server.address)
    begun = headers(1, block(*fields)) + data(1, struct.pack(">BI", 0, len(message)) + message)
    writer.write(BEGIN + begun)
    kinds: list[Kind] = []
    for _ in range(20):
        writer.write(frames.ping(b"bandwidt"))
        enough = (Kind.PING, Kind.DATA) if answered else (Kind.PING,)
        while Kind.GOAWAY not in kinds and any(kinds.count(kind) < 1 for kind in enough):
            kinds += [frame[0] for frame in split(await reader.read(65_536))]
        if Kind.GOAWAY in kinds:
            break
        kinds.clear()
    assert (Kind.GOAWAY in kinds) is not answered
    writer.close()
    await server.close(0)


async def test_a_client_without_calls_is_idle_until_its_next_call(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_connection, "IDLE_S", 0.05)
    came: list[int] = []
    quick = started(engine, keepalive_time_ms=500)
    quick.announce(lambda: came.append(len(engine.requests)))
    await quick.start()
    async with grpc.aio.insecure_channel("{}:{}".format(*quick.address)) as channel:
        infer = channel.unary_unary(INFER)
        for number in range(3):
            await infer(small_request(), timeout=30)
            assert quick.was_in_use()
            await until(lambda: not quick.was_in_use())
            assert quick.connections == 1
            assert len(engine.requests) == number + 1
            assert number in came  # before the request is handled
    await quick.close(0)
