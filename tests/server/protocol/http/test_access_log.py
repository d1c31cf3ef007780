"""The access log over HTTP: what of a request is in its entry, refused ones included."""

import asyncio
import logging

import pytest

from naiad.core.clock import ManualClock
from naiad.protocol.access_log import AccessObserver
from naiad.protocol.http.message import HttpReply
from naiad.protocol.http.transport.head import parse_head
from naiad.protocol.http.transport.service import HttpSettings, ended
from naiad.protocol.observer import Ended
from tests.server.protocol.http.scripted import (
    LIMIT,
    TEXT,
    Client,
    ScriptedRoutes,
    broken,
    entries,
    post,
    request,
    settle,
)


def test_the_observer_measures_from_the_time_that_it_is_given() -> None:
    found: list[Ended] = []
    clock = ManualClock(now_ns=5)
    observer = AccessObserver(found.append, clock=clock)
    head = parse_head(b"HEAD /a HTTP/1.1\r\n\r\n")
    context = observer.begin(head.headers.get, observer.now_ns(), 0)
    clock.advance(ns=2_000_000)
    observer.end(ended(head, None, HttpReply(404, (), (), "x"), context))
    (got,) = found
    assert (got.peer, got.method, got.target, got.status) == ("", "HEAD", "/a", 404)
    assert (got.seconds, got.context.request_id) == (0.002, "x")


async def test_the_access_log_gets_one_entry_a_reply_and_may_fail() -> None:
    found, log = entries()
    client = Client(access_log=log)
    client.send(post("/hold", b"abc"))
    client.clock.advance(ns=1_500_000)
    client.routes.held[0].on_reply(HttpReply(200, TEXT, (b"12", b"345"), "my-id"))
    client.send(request("HEAD", "/app?x=%0a"))
    await settle()
    client.send(b"garbage\r\n")
    assert [
        (
            e.peer,
            e.method,
            e.target,
            e.status,
            e.context.request_bytes,
            e.context.response_bytes,
            e.seconds,
            e.context.request_id,
        )
        for e in found[:2]
    ] == [
        ("10.0.0.9:4711", "POST", "/hold", 200, 3, 5, 0.0015, "my-id"),
        ("10.0.0.9:4711", "HEAD", "/app?x=%0a", 200, 0, 0, 0.0, ""),
    ]
    assert (found[2].method, found[2].target, found[2].status) == ("-", "-", 400)


async def test_an_access_log_that_raises_harms_no_reply(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(access_log=broken)
    client.send(post("/echo", b"x") * 2)
    assert [reply.body for reply in client.replies()] == [b"x", b"x"]
    assert caplog.records[0].levelno == logging.ERROR


@pytest.mark.parametrize(
    ("data", "method", "target", "status"),
    [
        (request("POST", "/v2/models/m/infer?x=1", f"Content-Length: {LIMIT + 1}"), "POST", "/v2/models/m/infer?x=1", 400),
        (request("POST", "/echo", "Content-Length: x"), "POST", "/echo", 400),
        (request("GET", "/echo", "Host: again"), "GET", "/echo", 400),
        (request("POST", "/echo", "Expect: tea"), "POST", "/echo", 417),
        (request("POST", "/app", "Transfer-Encoding: gzip, chunked"), "POST", "/app", 501),
        (request("POST", "/echo", "Transfer-Encoding: chunked") + b"zz\r\n", "POST", "/echo", 400),
        (request("POST", "/app", "Transfer-Encoding: chunked") + b"zz\r\n", "POST", "/app", 400),
        (request("HEAD", "/echo", "A: " + "x" * 65536), "HEAD", "/echo", 431),
        (b"GET /echo HTTP/2.0\r\n\r\n", "GET", "/echo", 505),
        (b"GET /" + b"x" * 20_000, "GET", "/" + "x" * 1023 + "...", 414),
        (b"\r\nGET / HTTP/1.1\n\n", "GET", "/", 400),
        (b"\x16\x03\x01\x02\x00", "-", "-", 400),
        (b"hello\r\n", "-", "-", 400),
    ],
)  # fmt: skip
async def test_a_request_refused_unread_is_logged_with_what_is_known_of_it(
    data: bytes, method: str, target: str, status: int
) -> None:
    found, log = entries()
    client = Client(access_log=log)
    client.send(data)
    assert [(e.method, e.target, e.status) for e in found] == [(method, target, status)]


async def test_a_refused_request_behind_others_is_logged_as_itself() -> None:
    found, log = entries()
    client = Client(access_log=log)
    client.send(post("/echo", b"one") + request("PUT", "/mine", "Content-Length: many"))
    assert [(e.method, e.target, e.status) for e in found] == [
        ("POST", "/echo", 200),
        ("PUT", "/mine", 400),
    ]


async def test_a_bug_in_the_routes_is_logged_with_the_request_that_met_it() -> None:
    routes = ScriptedRoutes()
    routes.find = broken  # type: ignore[method-assign,assignment]  # a broken routing table
    found, log = entries()
    client = Client(routes=routes, access_log=log)
    client.send(post("/echo"))
    assert [(e.method, e.target, e.status) for e in found] == [("POST", "/echo", 500)]


@pytest.mark.looptime
@pytest.mark.parametrize("lane", ["/echo", "/app"])
async def test_a_body_that_stops_coming_is_logged_with_the_time_it_was_waited_for(
    lane: str,
) -> None:
    found, log = entries()
    client = Client(access_log=log, settings=HttpSettings(body_idle_timeout=20))
    client.send(request("POST", lane, "Content-Length: 5"))
    await settle()
    client.clock.advance(ns=21_000_000_000)
    await asyncio.sleep(25)
    assert [(e.method, e.target, e.status, e.seconds) for e in found] == [("POST", lane, 408, 21.0)]


@pytest.mark.looptime
async def test_a_head_that_stops_coming_is_logged_as_far_as_it_came() -> None:
    found, log = entries()
    client = Client(access_log=log, settings=HttpSettings(head_timeout=20))
    client.send(b"GET /v2/mod")
    await asyncio.sleep(25)
    assert [(e.method, e.target, e.status) for e in found] == [("GET", "/v2/mod...", 408)]
