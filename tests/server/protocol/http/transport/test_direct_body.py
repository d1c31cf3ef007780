"""Large bodies with tensors: received straight into shared memory, which goes back however the request ends."""

import asyncio
import collections.abc
import typing
import unittest.mock

import numpy as np
import pytest

from naiad.protocol.http.transport.body import DirectBody
from naiad.protocol.http.transport.direct_reader import DirectReader, Reads
from naiad.protocol.http.transport.head import NO_HEAD
from naiad.protocol.http.transport.service import HttpSettings
from tests.server.protocol.http.scripted import Client, ScriptedRoutes, post, request, settle

SIZE = 700_000
TENSORS_FROM = 13
BODY = bytes(range(256)) * (SIZE // 256 + 1)
BODY = BODY[:SIZE]
LENGTH = f"Inference-Header-Content-Length: {TENSORS_FROM}"
SETTINGS = HttpSettings(tick=1)


def large_client(*, settings: HttpSettings = SETTINGS) -> Client:
    routes = ScriptedRoutes()
    routes.limit = 1 << 24
    return Client(routes=routes, settings=settings)


def reads_directly(client: Client) -> bool:
    return isinstance(client.transport.protocol, asyncio.BufferedProtocol)


def chunks(body: bytes, *, size: int = 50_000) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize("first", [0, 1, 50_000, SIZE - 1])
async def test_a_body_is_read_into_memory_whose_tensors_are_aligned(first: int) -> None:
    client = large_client()
    data = post("/hold", BODY, LENGTH)
    head = len(data) - SIZE
    client.send(data[: head + first])
    assert reads_directly(client)
    client.send(data[head + first :])
    (held,) = client.routes.held
    assert held.request.body == b""
    assert held.request.shared is not None
    assert held.request.shared == BODY
    assert held.request.shared.readonly
    tensor = np.frombuffer(held.request.shared[TENSORS_FROM:], np.uint8)
    assert tensor.ctypes.data % 64 == 0
    del tensor
    assert client.registry.memory.lent == 1
    held.answer(b"1")
    client.routes.held.clear()
    client.routes.requests.clear()
    del held
    assert client.reply().body == b"1"
    assert client.registry.memory.lent == 0
    client.send(post("/echo", b"next"))
    assert client.reply().body == b"next"
    assert not reads_directly(client)


async def test_of_a_large_body_behind_another_little_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[int] = []
    feed = DirectBody.feed

    def counted(self: DirectBody, piece: bytes) -> None:
        copied.append(len(piece))
        feed(self, piece)

    monkeypatch.setattr(DirectBody, "feed", counted)
    client = large_client()
    for turn in range(3):
        body = BODY[turn:] + BODY[:turn]
        data = post("/hold", body, LENGTH)
        first = 50_000 if turn == 0 else len(data)
        client.send(data[:first])
        client.send(data[first:])
        held = client.routes.held.pop()
        assert held.request.shared is not None
        assert held.request.shared.tobytes() == body
        assert reads_directly(client)
        held.answer(b"1")
        assert client.reply().body == b"1"
    large, *others = copied
    assert 49_000 < large < 50_000
    assert len(others) == 2
    assert max(others) < 1 << 12


async def test_small_requests_and_whole_ones_are_read_as_usual_again() -> None:
    client = large_client()
    data = post("/echo", BODY, LENGTH)
    client.send(data[:50_000])
    client.send(data[50_000:])
    assert client.reply().status == 200
    assert reads_directly(client)
    small = post("/echo", b"a") + post("/echo", b"b" * 5_000)
    client.send(small)
    assert [each.body for each in client.replies()] == [b"a", b"b" * 5_000]
    assert not reads_directly(client)


async def test_a_body_that_came_whole_with_its_head_and_a_request_behind_it() -> None:
    client = large_client()
    client.send(post("/echo", BODY, LENGTH) + post("/echo", b"next"))
    assert [reply.body for reply in client.replies()] == [BODY, b"next"]
    assert client.routes.requests[0].shared is not None


async def test_what_follows_a_body_is_the_next_request() -> None:
    client = large_client()
    data = post("/echo", BODY, LENGTH)
    client.send(data[:-9])
    client.send(data[-9:] + post("/echo", b"next"))
    assert [reply.body for reply in client.replies()] == [BODY, b"next"]


@pytest.mark.parametrize(
    ("lines", "size"),
    [((LENGTH,), 1000), ((), SIZE)],
    ids=["small", "without tensors"],
)
async def test_other_bodies_come_as_bytes(lines: tuple[str, ...], size: int) -> None:
    client = large_client()
    data = post("/hold", BODY[:size], *lines)
    client.send(data[:-1])
    assert not reads_directly(client)
    client.send(data[-1:])
    assert client.routes.held[0].request.body == BODY[:size]
    assert client.registry.memory.lent == 0


async def test_without_shared_memory_a_body_comes_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    client = large_client()
    monkeypatch.setattr(client.registry.memory, "take", lambda size, path: None)
    client.send(post("/hold", BODY, LENGTH))
    assert client.routes.held[0].request.body == BODY


@pytest.mark.parametrize("size", [1000, 3_000_000])
async def test_a_chunked_body_moves_to_shared_memory_once_it_is_large(size: int) -> None:
    client = large_client(settings=HttpSettings(iteration_seconds=10))
    body = (BODY * 5)[:size]
    client.send(request("POST", "/hold", "Transfer-Encoding: chunked", LENGTH))
    client.send(chunks(body))
    asked = client.routes.held[0].request
    assert (asked.shared is not None) == (size > 1000)
    assert bytes(asked.body if asked.shared is None else asked.shared) == body


async def test_a_client_that_waits_to_send_a_body_gets_100_continue() -> None:
    client = large_client()
    data = post("/echo", BODY, LENGTH, "Expect: 100-continue")
    client.send(data[:-SIZE])
    assert client.reply().status == 100
    client.send(data[-SIZE:])
    assert client.reply().body == BODY


def _disconnect(client: Client) -> None:
    client.hang_up()


def _end_of_stream(client: Client) -> None:
    assert client.transport.protocol is not None
    assert isinstance(client.transport.protocol, asyncio.BufferedProtocol)
    client.transport.protocol.eof_received()


def _stop(client: Client) -> None:
    client.registry.now += 1000
    client.connection.check(client.registry.now)
    assert client.reply().status == 408


def _give_up(client: Client) -> None:
    client.connection.drain(close_idle=True)
    client.connection.give_up()
    assert client.reply().status == 503


def _cut(client: Client) -> None:
    client.connection.cut()


@pytest.mark.parametrize("end", [_disconnect, _end_of_stream, _stop, _give_up, _cut])
async def test_the_memory_of_an_unfinished_body_goes_back(
    end: collections.abc.Callable[[Client], None],
) -> None:
    client = large_client()
    data = post("/echo", BODY, LENGTH)
    client.send(data[:-1000])
    assert client.registry.memory.lent == 1
    end(client)
    await settle()
    assert client.registry.memory.lent == 0
    client.send(data[-1000:])  # nothing takes it
    assert client.routes.requests == []


async def test_a_drain_lets_a_body_come_to_its_end() -> None:
    client = large_client()
    data = post("/echo", BODY, LENGTH)
    client.send(data[:-1000])
    client.connection.drain(close_idle=True)
    client.send(data[-1000:])
    reply = client.reply()
    assert (reply.body, reply.headers["connection"]) == (BODY, "close")


async def test_the_memory_of_a_cancelled_request_goes_back() -> None:
    client = large_client()
    client.send(post("/hold", BODY, LENGTH))
    client.hang_up()
    assert client.routes.held[0].handle.cancelled == 1
    client.routes.held.clear()
    client.routes.requests.clear()
    assert client.registry.memory.lent == 0


async def test_a_body_above_the_limit_takes_no_memory() -> None:
    client = large_client()
    client.routes.limit = SIZE - 1
    client.send(post("/echo", BODY, LENGTH)[:1000])
    assert client.reply().status == 400
    assert client.registry.memory.lent == 0


def test_a_read_that_brings_nothing_does_not_take_the_place_of_the_next_one() -> None:
    connection = unittest.mock.create_autospec(Reads, instance=True)
    body = body_of(8)
    connection.direct_body.side_effect = [None, body]
    reader = reader_of(connection, Receiving(body))
    reader.get_buffer(-1)  # as TLS does for a part of a record
    reader.get_buffer(-1)[:3] = b"abc"
    reader.buffer_updated(3)
    reader.get_buffer(-1)[:5] = b"defgh"
    reader.buffer_updated(5)
    assert body.memory.tobytes() == b"abcdefgh"
    assert body.done()
    connection.direct_ended.assert_called_once_with()
    connection.data_received.assert_not_called()


def test_what_is_read_in_parts_between_large_bodies_arrives_whole() -> None:
    connection = unittest.mock.create_autospec(Reads, instance=True)
    connection.direct_body.return_value = None
    reader = reader_of(connection, Receiving(None))
    room = reader.get_buffer(-1)
    for at, part in enumerate((b"GET", b" / ", b"HTT")):
        room[3 * at :][:3] = part  # as asyncio's TLS does with several records
    reader.buffer_updated(9)
    connection.data_received.assert_called_once_with(b"GET / HTT")


def test_a_body_that_was_ended_early_is_read_no_further() -> None:
    connection = unittest.mock.create_autospec(Reads, instance=True)
    body = body_of(8)
    connection.direct_body.side_effect = [body, None]
    receiving = Receiving(body)
    reader = reader_of(connection, receiving)
    reader.get_buffer(-1)
    reader.buffer_updated(3)
    receiving.sink = None
    reader.get_buffer(-1)[:2] = b"xy"
    reader.buffer_updated(2)
    connection.data_received.assert_called_once_with(b"xy")
    assert body.left() == 5


def body_of(size: int) -> DirectBody:
    """A body of so many bytes, of which none has come."""
    memory = memoryview(bytearray(size))
    return DirectBody(NO_HEAD, unittest.mock.Mock(), 0, unittest.mock.Mock(), memory=memory, at=0)


def reader_of(connection: Reads, receiving: typing.Any) -> DirectReader:
    """A reader of this connection."""
    return DirectReader(connection, receiving, unittest.mock.Mock(), unittest.mock.Mock())


class Receiving:
    """What has the body that is being received."""

    def __init__(self, sink: object) -> None:
        self.sink = sink
