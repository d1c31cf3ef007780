"""How the native port ends: each order of events in which a call could stay without its response."""

import asyncio
import dataclasses
import pathlib
import socket
import ssl
import struct
import typing

import numpy as np
import pytest

from naiad.core.datatypes import FP32
from naiad.core.messages import service_pb2
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.protocol.grpc.methods import INFER, STREAM_INFER, Methods
from naiad.protocol.grpc.settings import GrpcSettings, TlsSettings
from naiad.protocol.grpc.transport.native import connection, departure, listener, responses
from naiad.protocol.grpc.transport.native.listener import NativeGrpcServer
from naiad.protocol.transport.http2 import frames, settings as h2_settings
from naiad.protocol.transport.http2.errors import ErrorCode
from tests.server.protocol.grpc import certificates
from tests.server.protocol.grpc.scripted_engine import ScriptedEngine, echo, small_request
from tests.server.protocol.grpc.serving import held
from tests.server.protocol.transport.http2.peer import Kind, block, data, headers, split
from tests.support.waiting import until

BEGIN = frames.PREFACE + frames.settings({}) + frames.SETTINGS_ACK
KNOWS = frames.ping(b"draining", ack=True)
"""What a client sends once it has read the first GOAWAY."""

ALL = 2**31 - 1
"""What that GOAWAY says is the last stream."""

LAST_IS_1 = frames.goaway(1, ErrorCode.NO_ERROR)
"""The second one, behind which no call is served."""


def head(stream: int, path: str = INFER) -> bytes:
    """What opens a call."""
    fields = (
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"), ("content-type", "application/grpc"), ("te", "trailers"),
    )  # fmt: skip
    return headers(stream, block(*fields))


def message(stream: int, *, ended: bool = True) -> bytes:
    """The request message of a call."""
    request = small_request()
    return data(stream, struct.pack(">BI", 0, len(request)) + request, ended=ended)


@dataclasses.dataclass
class Client:
    """A connection, and all that came on it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    got: bytes = b""

    async def until(self, text: bytes) -> None:
        """Read until this has come."""
        while text not in self.got:
            more = await self.reader.read(65_536)
            assert more, f"the server closed the connection, and {text!r} did not come"
            self.got += more

    async def rest(self) -> None:
        """Read until the server has no more to say, and close."""
        self.got += await self.reader.read()
        self.writer.close()

    def lasts(self) -> list[int]:
        """The last stream that each GOAWAY names."""
        return [struct.unpack_from(">I", payload)[0] for kind, _, _, payload in split(self.got) if kind is Kind.GOAWAY]  # fmt: skip

    def answered(self) -> list[int]:
        """The streams that ended with OK."""
        return sorted(stream for kind, flags, stream, payload in split(self.got) if kind is Kind.HEADERS and flags & 1 and payload == responses.OK_TRAILERS)  # fmt: skip


@pytest.fixture
async def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
async def server(engine: ScriptedEngine) -> typing.AsyncIterator[NativeGrpcServer]:
    chosen = GrpcSettings(address="127.0.0.1", port=0)
    server = NativeGrpcServer(chosen, Methods(engine, chosen))
    await server.start()
    yield server
    await server.close(0)


async def connected(server: NativeGrpcServer, *sent: bytes) -> Client:
    client = Client(*await asyncio.open_connection(*server.address))
    client.writer.write(b"".join((BEGIN, *sent)))
    return client


async def test_while_the_server_is_not_ready_any_more_no_client_is_asked_to_go(
    server: NativeGrpcServer,
) -> None:
    """A proxy that is asked connects again, to the same server, as long as it is among those that the proxy knows."""
    client = await connected(server, head(1), message(1))
    await client.until(b"grpc-status")
    server.begin_drain()
    later = await connected(server, head(1), message(1))
    await later.until(b"grpc-status")
    client.writer.write(head(3) + message(3) + frames.ping(b"12345678"))
    await client.until(b"12345678")
    assert (client.lasts(), client.answered()) == ([], [1, 3])
    assert (later.lasts(), later.answered()) == ([], [1])
    client.writer.close()
    later.writer.close()


async def test_a_client_that_has_connected_and_waits_to_be_accepted_is_served(
    server: NativeGrpcServer,
) -> None:
    with socket.create_connection(server.address) as sock:  # nothing else runs meanwhile
        sock.sendall(BEGIN + head(1) + message(1))
        closing = asyncio.create_task(server.close(30))
        await asyncio.sleep(0)
        sock.setblocking(False)
        client = Client(*await asyncio.open_connection(sock=sock))
        await client.until(b"draining")
        client.writer.write(KNOWS)
        await client.rest()
    assert await closing == 0
    assert (client.lasts(), client.answered()) == ([ALL, 1], [1])


@pytest.mark.parametrize("begun", [False, True])
async def test_a_client_that_still_secures_its_connection_is_served(
    engine: ScriptedEngine, tmp_path: pathlib.Path, *, begun: bool
) -> None:
    files = certificates.make(tmp_path)
    tls = TlsSettings(server_cert=str(files.server_cert), server_key=str(files.server_key))
    chosen = GrpcSettings(address="127.0.0.1", port=0, tls=tls)
    server = NativeGrpcServer(chosen, Methods(engine, chosen))
    await server.start()
    context = ssl.create_default_context(cafile=str(files.authority))
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(server.address) as sock:  # nothing else runs meanwhile
        if begun:
            for _ in range(10):
                await asyncio.sleep(0)
        closing = asyncio.create_task(server.close(30))
        for _ in range(20):
            await asyncio.sleep(0)
        sock.setblocking(False)
        client = Client(*await asyncio.open_connection(sock=sock, ssl=context, server_hostname="localhost"))  # fmt: skip
        client.writer.write(BEGIN + head(1) + message(1))
        await client.until(b"draining")
        client.writer.write(KNOWS)
        await client.rest()
        await client.writer.wait_closed()
    assert await closing == 0
    assert client.answered() == [1]


async def test_a_client_that_never_secures_its_connection_does_not_delay_the_end(
    engine: ScriptedEngine, tmp_path: pathlib.Path
) -> None:
    files = certificates.make(tmp_path)
    tls = TlsSettings(server_cert=str(files.server_cert), server_key=str(files.server_key))
    chosen = GrpcSettings(address="127.0.0.1", port=0, tls=tls)
    server = NativeGrpcServer(chosen, Methods(engine, chosen))
    await server.start()
    with socket.create_connection(server.address):
        assert await asyncio.wait_for(server.close(3_600), 50) == 0
    for _ in range(20):  # its end of the connection closes too
        await asyncio.sleep(0)


async def test_a_call_that_is_written_behind_the_answer_to_goaway_is_served(
    server: NativeGrpcServer,
) -> None:
    """Go's client has given a call its number, sees GOAWAY, answers, and only then gets to write the call."""
    client = await connected(server, head(1), message(1))
    await client.until(b"grpc-status")
    closing = asyncio.create_task(server.close(30))
    await client.until(b"draining")
    client.writer.write(KNOWS)
    client.writer.write(frames.ping(b"12345678"))
    await client.until(b"12345678")  # the server has read that the client knows
    client.writer.write(head(3) + message(3))
    await client.rest()
    assert await closing == 0
    assert (client.lasts(), client.answered()) == ([ALL, 3], [1, 3])


async def test_a_stream_whose_first_message_comes_late_gets_its_response(
    server: NativeGrpcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that all that can follow GOAWAY has followed once it has come.
    monkeypatch.setattr(listener, "_POLL_S", 0)
    client = await connected(server, head(1, STREAM_INFER))
    closing = asyncio.create_task(server.close(30))
    await client.until(b"draining")
    client.writer.write(KNOWS)
    await client.until(LAST_IS_1)
    client.writer.write(message(1))
    await client.rest()
    assert await closing == 0
    assert client.answered() == [1]


async def test_a_response_is_not_lost_with_what_the_client_sends_as_the_connection_closes(
    server: NativeGrpcServer, engine: ScriptedEngine
) -> None:
    arrived = held(engine)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    sock.connect(server.address)
    sock.setblocking(False)
    client = Client(*await asyncio.open_connection(sock=sock))
    wide = frames.settings({h2_settings.INITIAL_WINDOW_SIZE: ALL}) + frames.window_update(0, 2**30)
    client.writer.write(BEGIN + wide + head(1) + message(1))
    inference = await arrived
    closing = asyncio.create_task(server.close(60))
    await client.until(b"draining")
    client.writer.write(KNOWS)
    await client.until(LAST_IS_1)
    large = Tensor("OUT", FP32, (1, 1_000_000), np.zeros((1, 1_000_000), np.float32))
    request = engine.requests[0]
    inference.on_response(InferResponse(request.model_name, 1, "", [large], request.parameters))
    for _ in range(20):
        client.writer.write(frames.ping(b"12345678"))
        await asyncio.sleep(0)
    await client.rest()
    assert await closing == 0
    assert client.answered() == [1]
    body = b"".join(payload for kind, _, _, payload in split(client.got) if kind is Kind.DATA)
    assert len(service_pb2.ModelInferResponse.FromString(body[5:]).raw_output_contents[0]) == 4_000_000  # fmt: skip


async def test_a_client_that_never_closes_its_side_does_not_delay_the_end(
    server: NativeGrpcServer,
) -> None:
    client = await connected(server, head(1), message(1))
    closing = asyncio.create_task(server.close(3_600))
    await client.until(b"draining")
    client.writer.write(KNOWS)
    assert await asyncio.wait_for(closing, 60) == 0
    client.writer.close()


async def test_a_client_that_does_not_answer_does_not_take_all_the_time(
    server: NativeGrpcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(departure, "FINISH_S", 3_600)
    monkeypatch.setattr(listener, "_TOLD_S", 0)
    client = await connected(server, head(1), message(1))
    await client.until(b"grpc-status")
    assert await asyncio.wait_for(server.close(3_600), 60) == 0
    await client.rest()
    assert client.lasts() == [ALL, 1]


async def test_a_call_behind_the_last_one_that_is_served_is_refused(
    server: NativeGrpcServer, engine: ScriptedEngine
) -> None:
    arrived = held(engine)
    client = await connected(server, head(1), message(1))
    inference = await arrived
    closing = asyncio.create_task(server.close(30))
    await client.until(b"draining")
    client.writer.write(KNOWS)
    await client.until(LAST_IS_1)
    client.writer.write(head(3) + message(3))
    await client.until(frames.reset(3, ErrorCode.REFUSED_STREAM))
    inference.on_response(echo(engine.requests[0]))
    await client.rest()
    assert await closing == 0
    assert client.answered() == [1]


async def test_a_client_that_answers_nothing_leaves_half_of_the_time_and_is_not_waited_for(
    server: NativeGrpcServer,
) -> None:
    """One that hangs, or whose machine is gone: the server would exit as one that has lost calls."""
    client = await connected(server, head(1), message(1))
    await client.until(b"grpc-status")
    assert await server.close(4) == 0
    client.writer.close()


async def test_what_only_holds_a_connection_open_is_given_a_second(
    server: NativeGrpcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe of a load balancer, say: without a preface there is no call."""
    monkeypatch.setattr(departure, "FINISH_S", 3_600)
    monkeypatch.setattr(listener, "_TOLD_S", 3_600)
    reader, writer = await asyncio.open_connection(*server.address)
    assert await asyncio.wait_for(server.close(7_200), 60) == 0
    assert b"draining" in await reader.read()
    writer.close()


async def test_a_client_that_begins_while_the_server_closes_is_served(
    server: NativeGrpcServer,
) -> None:
    client = Client(*await asyncio.open_connection(*server.address))
    closing = asyncio.create_task(server.close(30))
    await client.until(b"draining")
    client.writer.write(BEGIN + head(1) + message(1))
    await client.until(b"grpc-status")
    client.writer.write(KNOWS)
    await client.rest()
    assert await closing == 0
    assert (client.lasts(), client.answered()) == ([ALL, 1], [1])


async def test_a_slow_client_that_answers_nothing_while_it_reads_gets_all_of_its_response(
    server: NativeGrpcServer, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_TOLD_S", 2.5)
    engine.answer = lambda request: InferResponse(
        request.model_name,
        1,
        "",
        [Tensor("OUT", FP32, (1, 150_000), np.zeros((1, 150_000), np.float32))],
        request.parameters,
    )
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    sock.connect(server.address)
    sock.setblocking(False)
    wide = frames.settings({h2_settings.INITIAL_WINDOW_SIZE: ALL}) + frames.window_update(0, 2**30)
    sock.send(BEGIN + wide + head(1) + message(1))
    service = server._service
    assert service is not None
    await until(lambda: any(each.h2.streams.last_id and not each.h2.streams for each in service.registry.connections() if isinstance(each, connection.GrpcConnection)))  # fmt: skip
    closing = asyncio.create_task(server.close(60))
    await until(lambda: closing.done() or all(each.is_settled for each in service.registry.connections() if isinstance(each, connection.GrpcConnection)))  # fmt: skip
    sock.send(frames.ping(b"12345678"))
    client = Client(*await asyncio.open_connection(sock=sock))
    await client.rest()
    assert await closing == 0
    assert client.answered() == [1]


async def test_a_port_that_is_closed_again_while_it_closes_ends_its_calls_at_once(
    server: NativeGrpcServer, engine: ScriptedEngine
) -> None:
    arrived = held(engine)
    client = await connected(server, head(1), message(1))
    await arrived
    server.begin_drain()
    server.begin_drain(close_idle=True)
    closing = asyncio.create_task(server.close(3_600))
    await client.until(b"draining")
    client.writer.write(KNOWS)
    await client.until(LAST_IS_1)
    assert await asyncio.wait_for(server.close(0), 60) == 1
    await client.rest()
    assert b"Server exiting" in client.got
    await asyncio.wait_for(closing, 60)
