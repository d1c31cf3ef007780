"""The connection, byte by byte: what a client sends and what it gets back."""

import json

import pytest

from naiad.protocol.http.transport.service import HttpSettings
from tests.server.protocol.http.scripted import (
    LIMIT,
    Client,
    ScriptedRoutes,
    broken,
    post,
    request,
    settle,
)


def error_of(body: bytes) -> str:
    """The message of an error body, which holds nothing else (row 1.2)."""
    document = json.loads(body)
    assert list(document) == ["error"]
    return str(document["error"])


async def test_a_known_head_gives_the_same_answer_as_an_unknown_one() -> None:
    client = Client()
    for body in (b"first", b"again", b"third"):
        client.send(post("/echo", body))
    assert [reply.body for reply in client.replies()] == [b"first", b"again", b"third"]
    assert len(client.service.heads) == 1
    assert [asked.headers[b"host"] for asked in client.routes.requests] == [b"test"] * 3
    assert [(asked.method, asked.path) for asked in client.routes.requests] == [
        (b"POST", "/echo")
    ] * 3


async def test_head_and_body_may_come_apart_and_in_drops() -> None:
    client = Client()
    for index in range(len(data := post("/echo", b"hello"))):
        client.send(data[index : index + 1])
    assert client.reply().body == b"hello"


async def test_some_empty_lines_are_skipped_and_a_flood_of_them_is_refused() -> None:
    """RFC 9112, section 2.2."""
    client = Client(settings=HttpSettings(max_line_bytes=1_000))
    client.send(b"\r\n" * 400 + post("/echo", b"x"))
    assert client.reply().status == 200
    client.send(b"\r\n" * 600)
    reply = client.reply()
    assert reply.status == 400
    assert "empty lines" in error_of(reply.body)


async def test_a_path_is_decoded_and_its_query_kept_from_the_handler() -> None:
    client = Client()
    client.send(post("/%65cho?a=b", b"x"))
    assert client.reply().status == 200
    assert client.routes.requests[0].path == "/echo"


async def test_reading_stops_when_too_many_requests_wait_and_goes_on_after_a_reply() -> None:
    client = Client(settings=HttpSettings(max_pipelined=2))
    client.send(post("/hold") * 5)
    assert len(client.routes.held) == 2
    assert not client.is_reading()
    client.routes.held[0].answer(b"1")
    assert len(client.routes.held) == 3
    for number in range(1, 5):
        client.routes.held[number].answer(b"%d" % (number + 1))
    assert [reply.body for reply in client.replies()] == [b"1", b"2", b"3", b"4", b"5"]
    assert client.is_reading()


async def test_a_thousand_pipelined_requests_do_not_nest() -> None:
    client = Client(settings=HttpSettings(max_pipelined=2))
    client.send(post("/hold") + post("/echo", b"x") * 3000)
    client.routes.held[0].answer(b"")
    assert len(client.replies()) == 3001


async def test_requests_of_both_lanes_on_one_connection_are_answered_in_order() -> None:
    client = Client()
    client.send(post("/hold", b"1") + request("GET", "/app") + post("/echo", b"3"))
    await settle()
    assert client.replies() == []
    assert not client.is_reading()
    client.routes.held[0].answer(b"one")
    assert [reply.body for reply in client.replies()] == [b"one"]
    await settle()
    assert [reply.body for reply in client.replies()] == [b"GET /app ", b"3"]


async def test_nothing_behind_a_request_for_the_application_is_begun_before_its_reply() -> None:
    client = Client()
    client.send(request("GET", "/app") + post("/echo", b"x"))
    assert client.routes.requests == []
    assert not client.is_reading()
    await settle()
    assert [reply.body for reply in client.replies()] == [b"GET /app ", b"x"]
    assert client.is_reading()


async def test_a_client_that_does_not_take_replies_gets_no_further_request_taken() -> None:
    client = Client()
    client.connection.pause_writing()
    client.send(post("/echo", b"1"))
    assert client.routes.requests == []
    assert not client.is_reading()
    client.connection.resume_writing()
    assert client.reply().body == b"1"
    assert client.is_reading()


async def test_options_of_the_server_itself_names_the_methods() -> None:
    client = Client()
    client.send(request("OPTIONS", "*"))
    reply = client.reply()
    assert (reply.status, reply.headers) == (204, {"allow": "GET, HEAD, POST, OPTIONS"})


async def test_options_of_a_path_goes_to_who_answers_the_path() -> None:
    client = Client()
    client.send(request("OPTIONS", "/app"))
    await settle()
    assert client.reply().body == b"OPTIONS /app "


async def test_a_client_that_goes_on_sending_after_connection_close_still_gets_its_reply() -> None:
    client = Client()
    client.send(post("/hold", b"", "Connection: close"))
    client.send(b"more")
    client.routes.held[0].answer(b"one")
    assert client.reply().body == b"one"
    assert client.transport.eof_written
    assert not client.is_closed()  # a close now would make the kernel answer `more` with a reset


async def test_chunked_bodies_reach_both_lanes_whole() -> None:
    body = b"3;note=x\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
    client = Client()
    for lane in ("/echo", "/app"):
        client.send(request("POST", lane, "Transfer-Encoding: chunked") + body)
        await settle()
    assert [reply.body for reply in client.replies()] == [b"abcde", b"POST /app abcde"]


async def test_exactly_the_most_chunks_pass_and_one_more_is_refused() -> None:
    head = request("POST", "/echo", "Transfer-Encoding: chunked")
    client = Client(settings=HttpSettings(max_chunks=3))
    client.send(head + b"1\r\na\r\n" * 3 + b"0\r\n\r\n")
    assert client.reply().body == b"aaa"
    client.send(head + b"1\r\na\r\n" * 4)
    reply = client.reply()
    assert reply.status == 400
    assert "more than 3 chunks" in error_of(reply.body)
    assert reply.headers["connection"] == "close"
    assert client.has_ended()


@pytest.mark.parametrize("lane", ["/echo", "/app"])
async def test_a_length_above_the_limit_is_refused_before_the_body_is_read(lane: str) -> None:
    client = Client()
    client.send(request("POST", lane, f"Content-Length: {LIMIT + 1}"))
    await settle()
    reply = client.reply()
    assert reply.status == 400
    text = error_of(reply.body)
    assert f"{LIMIT + 1} bytes exceeds the maximum allowed value of {LIMIT}" in text
    assert client.has_ended()


async def test_a_body_of_exactly_the_limit_passes_known_or_not() -> None:
    client = Client()
    client.send(post("/echo", b"x" * LIMIT))
    client.send(post("/echo", b"x" * LIMIT))
    assert [len(reply.body) for reply in client.replies()] == [LIMIT, LIMIT]


@pytest.mark.parametrize("lane", ["/echo", "/app"])
async def test_a_chunked_body_is_refused_at_the_chunk_that_passes_the_limit(lane: str) -> None:
    client = Client()
    client.send(request("POST", lane, "Transfer-Encoding: chunked") + b"%x\r\n" % LIMIT)
    client.send(b"x" * LIMIT + b"\r\n1\r\n")
    await settle()
    reply = client.reply()
    assert reply.status == 400
    assert "exceeds the maximum allowed" in error_of(reply.body)
    assert client.has_ended()


async def test_100_continue_is_sent_when_the_body_is_wanted() -> None:
    client = Client()
    client.send(request("POST", "/echo", "Content-Length: 2", "Expect: 100-continue"))
    assert client.reply().status == 100
    client.send(b"ab")
    assert client.reply().body == b"ab"


async def test_100_continue_is_sent_to_the_application_only_when_it_reads() -> None:
    client = Client()
    client.send(request("POST", "/app", "Content-Length: 2", "Expect: 100-continue"))
    assert client.replies() == []
    await settle()
    assert client.reply().status == 100
    client.send(b"ab")
    await settle()
    assert client.reply().body == b"POST /app ab"


async def test_100_continue_is_not_sent_for_a_body_that_is_too_large_or_already_there() -> None:
    client = Client()
    client.send(request("POST", "/echo", "Content-Length: 2", "Expect: 100-continue") + b"ab")
    assert client.reply().body == b"ab"
    client.send(request("POST", "/echo", "Content-Length: 2000", "Expect: 100-continue"))
    assert client.reply().status == 400


async def test_100_continue_waits_for_the_replies_before_it() -> None:
    client = Client()
    client.send(
        post("/hold") + request("POST", "/echo", "Content-Length: 1", "Expect: 100-continue")
    )
    assert client.replies() == []
    client.routes.held[0].answer(b"")
    assert [reply.status for reply in client.replies()] == [200, 100]
    client.send(b"x")
    assert client.reply().body == b"x"


async def test_other_expectations_are_refused_with_417() -> None:
    client = Client()
    client.send(post("/echo", b"", "Expect: tea"))
    reply = client.reply()
    assert reply.status == 417
    assert "100-continue" in error_of(reply.body)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /echo HTTP/1.1\r\nA: " + b"x" * 65536, 431),
        (b"GET /echo HTTP/1.1\r\nA: " + b"x" * 65536 + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * 16384, 414),
        (b"\x16\x03\x01\x02\x00", 400),
        (b"hello\r\n", 400),
        (b"GET / HTTP/1.1\n\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nA : b\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    ],
)
async def test_what_cannot_be_served_gets_a_json_error_and_the_connection_ends(
    data: bytes, status: int
) -> None:
    client = Client()
    client.send(data)
    reply = client.reply()
    assert reply.status == status
    assert len(error_of(reply.body)) > 20
    assert reply.headers["connection"] == "close"
    assert client.has_ended()


async def test_a_head_of_64_kib_passes_and_one_byte_more_does_not() -> None:
    bare = len(request("GET", "/echo", "A: "))
    client = Client()
    client.send(request("GET", "/echo", "A: " + "x" * (65536 - bare)))
    assert client.reply().status == 200
    client.send(request("GET", "/echo", "A: " + "x" * (65537 - bare)))
    assert client.reply().status == 431


async def test_upgrade_offers_are_answered_as_ordinary_requests_body_and_all() -> None:
    client = Client()
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    client.send(post("/echo", b"body", *offer) + post("/echo", b"next"))
    websocket = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x")
    client.send(request("GET", "/app", *websocket))
    await settle()
    assert [reply.body for reply in client.replies()] == [b"body", b"next", b"GET /app "]


async def test_a_handler_that_raises_is_a_500_and_the_connection_lives(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = Client()
    client.send(post("/fail") + post("/echo", b"x"))
    failed, fine = client.replies()
    assert failed.status == 500
    assert "log" in error_of(failed.body)
    assert fine.body == b"x"
    assert "/fail failed" in caplog.text


async def test_routes_that_raise_are_a_500_and_the_connection_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    routes = ScriptedRoutes()
    routes.find = broken  # type: ignore[method-assign,assignment]  # a broken routing table
    client = Client(routes=routes)
    client.send(post("/echo"))
    assert client.reply().status == 500
    assert client.has_ended()
    assert "a bug" in caplog.text
