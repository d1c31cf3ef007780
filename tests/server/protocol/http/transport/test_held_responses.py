"""What a client that does not read makes the server hold: few responses, bounded by bytes and by count, and given back a piece at a time."""

import asyncio
import collections.abc
import itertools
import typing
import weakref

import numpy as np
import pytest
from typing_extensions import override

from naiad.protocol.http.message import HttpReply
from naiad.protocol.http.transport.service import HttpSettings
from naiad.protocol.transport.disposal import Disposal
from tests.server.protocol.http.scripted import (
    TEXT,
    Client,
    FakeTransport,
    Handle,
    Held,
    post,
    settle,
)

MEGABYTE = 1 << 20


class FullTransport(FakeTransport):
    """The kernel takes nothing: what is written stays, and the connection is paused once it is more than 64 KiB."""

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        before, self.unsent = self.unsent, self.unsent + len(data)
        if before <= 65536 < self.unsent and self.protocol is not None:
            self.protocol.pause_writing()

    def drain(self) -> None:
        """The client reads everything."""
        self.unsent = 0
        assert self.protocol is not None
        self.protocol.resume_writing()


def client_that_does_not_read(settings: HttpSettings | None = None) -> Client:
    client = Client(settings=settings)
    transport = client.transport = FullTransport(asyncio.get_running_loop())
    client.connection = type(client.connection)(client.service)
    transport.protocol = client.connection
    client.connection.connection_made(transport)
    return client


def answer(held: Held, size: int) -> "weakref.ref[typing.Any]":
    """Answer with so many bytes; the reference is dead once they are given back."""
    body: typing.Any = np.zeros(size, np.uint8)
    reference = weakref.ref(body)
    held.on_reply(HttpReply(200, TEXT, (memoryview(body),)))
    return reference


def read(client: Client) -> None:
    assert isinstance(client.transport, FullTransport)
    client.transport.drain()


@pytest.mark.parametrize("size", [MEGABYTE, 40 * MEGABYTE])
async def test_of_64_requests_four_are_begun_while_the_client_does_not_read(size: int) -> None:
    client = client_that_does_not_read()
    client.connection.data_received(post("/hold") * 64)
    assert len(client.routes.held) == 4
    for held in tuple(client.routes.held):
        answer(held, size)
    assert len(client.routes.held) == 4
    assert size <= client.transport.unsent < size + 200, "one is written, the others wait"


async def test_large_responses_are_asked_for_two_at_a_time_once_they_are_known_to_be_large() -> (
    None
):
    client = client_that_does_not_read()
    client.connection.data_received(post("/hold") * 12)
    answered, begun, written = 0, [4], []
    while answered < 12 or client.transport.unsent:
        for held in client.routes.held[answered:]:
            answer(held, 3 * MEGABYTE)
        answered = len(client.routes.held)
        written.append(client.transport.unsent // (3 * MEGABYTE))
        read(client)
        begun.append(len(client.routes.held))
    assert written == [1] * 12
    assert max(after - before for before, after in itertools.pairwise(begun)) == 2
    assert begun[-1] == 12


async def test_small_responses_behind_a_slow_one_are_bounded_by_their_bytes() -> None:
    client = Client(settings=HttpSettings(max_pipelined=64, held_bytes=1000))
    client.send(post("/hold") + post("/echo", b"x" * 100) * 40)
    assert (
        len(client.routes.requests) == 10
    )  # one that is slow, and nine of 100 bytes: a tenth may come
    client.routes.held[0].answer(b"slow")
    assert [len(reply.body) for reply in client.replies()] == [4] + [100] * 40


async def test_empty_responses_behind_a_slow_one_are_bounded_by_their_count() -> None:
    client = Client(settings=HttpSettings(max_pipelined=7))
    client.send(post("/hold") + post("/echo") * 40)
    assert len(client.routes.requests) == 7
    client.routes.held[0].answer(b"slow")
    assert len(client.replies()) == 41


@pytest.mark.parametrize("drained", [True, False])
async def test_responses_leave_in_order_as_the_client_reads(*, drained: bool) -> None:
    client = client_that_does_not_read()
    client.connection.data_received(post("/hold") * 4)
    for number, held in enumerate(client.routes.held):
        held.on_reply(HttpReply(200, TEXT, (b"%d" % number * MEGABYTE,)))
    if drained:
        client.connection.drain(close_idle=True)
    for _ in range(4):
        read(client)
    await settle()
    assert [reply.body[:1] for reply in client.replies()] == [b"0", b"1", b"2", b"3"]
    assert client.is_closed() is drained


async def test_what_a_client_leaves_behind_is_freed_one_response_per_iteration() -> None:
    client = client_that_does_not_read()
    client.connection.data_received(post("/hold") * 4)
    first, *waiting = [answer(held, MEGABYTE) for held in client.routes.held]
    client.routes.held.clear()
    client.transport.writes.clear()
    client.hang_up()
    freed = []
    for _ in range(5):
        freed.append(sum(reference() is None for reference in waiting))
        await asyncio.sleep(0)
    assert freed == [0, 1, 2, 3, 3]
    assert first() is None


async def test_connections_that_end_together_free_one_after_the_other() -> None:
    loop = asyncio.get_running_loop()
    disposal = Disposal(loop)
    kept = [np.zeros(4) for _ in range(6)]
    references = [weakref.ref(array) for array in kept]
    disposal.add(kept[:3])
    disposal.add(kept[3:])
    disposal.add(())
    kept.clear()
    lives: list[int] = []
    while disposal:
        lives.append(sum(reference() is not None for reference in references))
        await asyncio.sleep(0)
    assert lives == [6, 5, 4, 3, 2, 1]


def cancelled(handles: collections.abc.Iterable[Handle]) -> list[int]:
    return [handle.cancelled for handle in handles]


async def test_a_client_that_leaves_cancels_what_has_no_response_alone() -> None:
    client = client_that_does_not_read()
    client.connection.data_received(post("/hold") * 4)
    handles = [held.handle for held in client.routes.held]
    answer(client.routes.held[0], MEGABYTE)
    answer(client.routes.held[2], MEGABYTE)
    client.hang_up()
    assert cancelled(handles) == [0, 1, 0, 1]


async def test_the_end_of_the_server_answers_the_rest_once_the_client_reads() -> None:
    client = client_that_does_not_read()
    client.connection.data_received(post("/hold") * 4)
    answer(client.routes.held[0], MEGABYTE)
    client.connection.drain(close_idle=True)
    client.connection.give_up()
    assert cancelled(held.handle for held in client.routes.held) == [0, 1, 1, 1]
    read(client)
    await settle()
    assert [reply.status for reply in client.replies()] == [200, 503, 503, 503]
