"""Requests that their head alone decides: answered before the body, which is read past or ends the connection."""

import typing

import pytest

from naiad.protocol.http.metrics_port import MetricsRoutes
from naiad.protocol.http.replies import error_body, refusal
from naiad.protocol.http.transport.service import HttpSettings
from tests.server.protocol.http.scripted import Client, ScriptedRoutes, post, request

NO_TOKEN = refusal(401, "no token", extra=((b"WWW-Authenticate", b"Bearer"),))
NO_MODEL = refusal(404, "no model")


def client(reply: object = NO_TOKEN, *, limit: int = 1_000_000) -> Client:
    routes = ScriptedRoutes()
    routes.limit = limit
    assert reply in (NO_TOKEN, NO_MODEL)
    routes.refusals["/hold"] = NO_TOKEN if reply is NO_TOKEN else NO_MODEL
    return Client(routes=routes, settings=HttpSettings(discard_bytes=100, linger_timeout=5))


async def test_a_refused_body_is_read_past_and_the_connection_stays() -> None:
    peer = client(NO_MODEL)
    peer.send(request("POST", "/hold", "Content-Length: 5000"))
    assert (peer.reply().status, peer.routes.requests) == (404, [])
    for _ in range(5):
        peer.send(b"x" * 1000)
    peer.send(post("/echo", b"next"))
    assert (peer.reply().body, peer.is_closed()) == (b"next", False)


async def test_without_a_token_a_small_body_is_read_past() -> None:
    peer = client()
    peer.send(request("POST", "/hold", "Content-Length: 100"))
    assert peer.reply().headers["www-authenticate"] == "Bearer"
    peer.send(b"x" * 100 + post("/echo", b"next"))
    assert peer.reply().body == b"next"


@pytest.mark.parametrize(
    "line",
    [
        "Content-Length: 101",
        "Content-Length: 999999999999",
        "Transfer-Encoding: chunked",
        "Content-Length: 5\r\nExpect: 100-continue",
    ],
)
async def test_without_a_token_nothing_else_is_read_past(line: str) -> None:
    peer = client()
    peer.send(request("POST", "/hold", line))
    reply = peer.reply()
    assert (reply.status, reply.headers["connection"]) == (401, "close")
    assert reply.headers["www-authenticate"] == "Bearer"
    assert peer.has_ended()
    if not peer.is_closed():
        peer.send(b"x" * 10_000)  # thrown away
    assert peer.replies() == []


async def test_a_length_above_the_limit_is_reported_only_to_admitted_clients() -> None:
    peer = Client(routes=ScriptedRoutes())
    peer.send(request("POST", "/hold", "Content-Length: 1001"))
    assert peer.reply().body == error_body(
        "Request body of 1001 bytes exceeds the maximum allowed value of 1000 bytes"
    )
    peer = client(limit=1000)
    peer.send(request("POST", "/hold", "Content-Length: 1001"))
    assert peer.reply().status == 401


async def test_the_refusal_waits_for_the_replies_before_it() -> None:
    for reply, status in ((NO_MODEL, 404), (NO_TOKEN, 401)):
        peer = client(reply)
        peer.routes.refusals["/refused"] = peer.routes.refusals.pop("/hold")
        peer.send(post("/hold", b"first"))
        peer.routes.refusals["/echo"] = peer.routes.refusals["/refused"]
        peer.send(request("POST", "/echo", "Content-Length: 500"))
        assert peer.replies() == []
        peer.routes.held[0].answer(b"done")
        assert [reply.status for reply in peer.replies()] == [200, status]


async def test_while_the_server_drains_a_refusal_is_the_last_reply() -> None:
    peer = client(NO_MODEL)
    peer.connection.drain(close_idle=False)
    peer.send(request("POST", "/hold", "Content-Length: 500"))
    assert peer.reply().headers["connection"] == "close"
    assert peer.has_ended()


async def test_a_drain_ends_a_connection_whose_body_is_not_wanted() -> None:
    peer = client(NO_MODEL)
    peer.send(request("POST", "/hold", "Content-Length: 500"))
    assert peer.reply().status == 404
    peer.connection.drain(close_idle=True)
    assert peer.has_ended()


async def test_what_the_head_decides_comes_before_the_length_of_the_body() -> None:
    routes = ScriptedRoutes()
    routes.refusals["/hold"] = refusal(405, "Method Not Allowed")
    peer = Client(routes=routes)
    peer.send(post("/hold", b"x" * 1000) + post("/hold", b"x" * 1001))
    first, second = peer.replies()
    assert (first.status, "connection" in first.headers) == (405, False)
    assert (second.status, second.headers["connection"]) == (405, "close")
    assert peer.has_ended()


async def test_a_post_to_the_metrics_port_gets_405_whatever_its_length() -> None:
    routes: typing.Any = MetricsRoutes(collect=tuple, states=tuple, loads=tuple)
    for body in (b"", b"x", b"x" * 100_000):
        peer = Client(routes=routes)
        peer.send(post("/v2/models/m/infer", body))
        reply = peer.reply()
        assert reply.status == 405
        assert b"this is the metrics port, which takes GET" in reply.body
        assert reply.headers["allow"] == "GET"
