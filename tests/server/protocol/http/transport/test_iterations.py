"""Pipelined requests: a connection that has had the event loop for its share lets others have it, and goes on in the next turn."""

import asyncio
import itertools

import pytest
from typing_extensions import override

from naiad.core.inference import Cancellable
from naiad.protocol.http.message import FastHandler, Headers, HttpReply, HttpRequest, OnReply
from naiad.protocol.http.transport.service import HttpSettings
from tests.server.protocol.http.scripted import Client, ScriptedRoutes, post, request, settle

PIPELINED = b"".join(request("GET", "/slow", f"N: {number}") for number in range(5))


class SlowRoutes(ScriptedRoutes):
    """/slow moves the clock and leaves reply bytes unsent."""

    def __init__(self, *, seconds: float = 0, unsent: int = 0) -> None:
        super().__init__()
        self.client: Client | None = None
        self._seconds = seconds
        self._unsent = unsent

    @override
    def find(self, method: bytes, path: str, headers: Headers) -> FastHandler | None:
        return self._slow if path == "/slow" else super().find(method, path, headers)

    def _slow(self, request: HttpRequest, on_reply: OnReply) -> Cancellable | None:
        assert self.client is not None
        self.requests.append(request)
        self.client.clock.advance(ns=int(self._seconds * 1e9))
        self.client.transport.unsent += self._unsent
        on_reply(HttpReply(200, (), (b"x",)))
        return None


def client(*, seconds: float = 0, unsent: int = 0) -> Client:
    routes = SlowRoutes(seconds=seconds, unsent=unsent)
    peer = Client(
        routes=routes, settings=HttpSettings(iteration_seconds=0.002, iteration_bytes=1000)
    )
    routes.client = peer
    return peer


async def turn() -> None:
    """One turn of the event loop."""
    await asyncio.sleep(0)


async def test_quick_requests_are_answered_in_one_turn() -> None:
    peer = client(seconds=0.0001)
    peer.send(PIPELINED)
    assert len(peer.replies()) == 5


async def test_slow_requests_take_a_turn_each_and_reading_stops_meanwhile() -> None:
    peer = client(seconds=0.002)
    peer.send(PIPELINED)
    for left in range(5, 0, -1):
        assert len(peer.replies()) == 1
        assert peer.is_reading() is (left == 1)
        await turn()
    assert peer.replies() == []
    peer.send(post("/echo", b"next"))
    assert peer.reply().body == b"next"


async def test_large_replies_take_a_turn_each() -> None:
    peer = client(unsent=1000)
    peer.send(PIPELINED)
    for _ in range(5):
        assert len(peer.replies()) == 1
        peer.transport.unsent = 0
        await turn()
    assert peer.replies() == []


@pytest.mark.parametrize("chunk", [b"1\r\nx\r\n", b"1;a\r\nx\r\n"], ids=["plain", "extension"])
async def test_a_body_of_small_chunks_takes_several_turns_and_reading_stops_meanwhile(
    chunk: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = Client(settings=HttpSettings(iteration_seconds=0.002))
    peer.routes.limit = 10_000
    now_ns = itertools.count(0, 1_000_000)  # a millisecond from each look to the next
    monkeypatch.setattr(peer.clock, "monotonic_ns", lambda: next(now_ns))
    body = chunk * 8000 + b"0\r\n\r\n"
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    peer.send(head + body + post("/echo", b"next"))
    turns = 0
    while not (replies := peer.replies()):
        assert not peer.is_reading()
        turns += 1
        await turn()
    assert turns > 3
    await settle()
    replies += peer.replies()
    assert [each.body for each in replies] == [b"x" * 8000, b"next"]
    assert peer.is_reading()


async def test_a_client_that_leaves_in_the_middle_of_small_chunks_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer = Client(settings=HttpSettings(iteration_seconds=0.002))
    peer.routes.limit = 10_000
    now_ns = itertools.count(0, 1_000_000)
    monkeypatch.setattr(peer.clock, "monotonic_ns", lambda: next(now_ns))
    body = b"1\r\nx\r\n" * 8000
    peer.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
    peer.hang_up()
    await settle()
    assert peer.routes.requests == []


async def test_a_client_that_has_ended_its_side_still_gets_every_reply() -> None:
    peer = client(seconds=0.002)
    peer.send(PIPELINED)
    assert peer.connection.eof_received()
    await settle()
    # An interim reply between them finds out whether the client still listens.
    assert [reply.status for reply in peer.replies() if reply.status != 100] == [200] * 5
    assert peer.is_closed()


async def test_a_connection_that_is_lost_meanwhile_takes_nothing_more() -> None:
    peer = client(seconds=0.002)
    peer.send(PIPELINED)
    peer.hang_up()
    await settle()
    assert len(peer.routes.requests) == 1
