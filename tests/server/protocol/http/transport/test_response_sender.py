"""The sending side of a connection, seen by its client: which reply comes when, in how many buffers, and what it says of the connection."""

import pytest

from naiad.protocol.http.message import HttpReply
from naiad.protocol.http.transport.service import HttpSettings
from tests.server.protocol.http.scripted import TEXT, Client, broken, post, request, settle


async def test_a_small_request_is_answered_within_the_call_by_a_single_write() -> None:
    client = Client()
    client.send(post("/echo", b"hello"))
    assert client.transport.writes == [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
    ]


async def test_pipelined_replies_keep_the_order_of_the_requests() -> None:
    client = Client()
    client.send(post("/hold", b"1") + post("/hold", b"2") + post("/echo", b"3"))
    first, second = client.routes.held
    second.answer(b"two")
    assert client.replies() == []
    first.answer(b"one")
    assert [reply.body for reply in client.replies()] == [b"one", b"two", b"3"]


async def test_a_second_reply_to_a_request_is_dropped() -> None:
    client = Client()
    client.send(post("/hold"))
    client.routes.held[0].answer(b"one")
    client.routes.held[0].answer(b"again")
    assert client.reply().body == b"one"


async def test_large_replies_are_written_in_parts_without_joining() -> None:
    client = Client(settings=HttpSettings(join_bytes=8))
    client.send(post("/hold"))
    client.routes.held[0].on_reply(HttpReply(200, TEXT, (b"12345", memoryview(b"67890"))))
    assert client.transport.writes[1:] == [b"12345", b"67890"]
    assert client.reply().body == b"1234567890"


async def test_the_length_of_a_view_is_counted_in_bytes() -> None:
    client = Client()
    client.send(post("/hold"))
    view = memoryview(b"\0" * 16).cast("I")
    client.routes.held[0].on_reply(HttpReply(200, TEXT, (view,)))
    assert client.reply().body == b"\0" * 16


async def test_head_gets_the_headers_of_get_without_the_body() -> None:
    client = Client()
    client.send(request("HEAD", "/hold") + request("HEAD", "/app") + post("/echo", b"x"))
    assert client.routes.requests[0].method == b"GET"
    client.routes.held[0].answer(b"12345")
    await settle()
    first, second, third = client.replies(heads=(0, 1))
    assert first.headers["content-length"] == "5"
    assert second.headers["content-length"] == str(len(b"GET /app "))
    assert third.body == b"x"


@pytest.mark.parametrize("lane", ["/echo", "/app"])
async def test_http_1_0_closes_unless_it_asks_to_stay(lane: str) -> None:
    client = Client()
    client.send(f"GET {lane} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".encode())
    await settle()
    assert client.reply().headers["connection"] == "keep-alive"
    client.send(f"GET {lane} HTTP/1.0\r\n\r\n".encode())
    await settle()
    assert client.reply().headers["connection"] == "close"
    assert client.is_closed()


@pytest.mark.parametrize("lane", ["/echo", "/app"])
async def test_connection_close_is_obeyed_and_what_follows_is_ignored(lane: str) -> None:
    client = Client()
    client.send(post(lane, b"", "Connection: keep-alive, Close") + post("/echo", b"no"))
    await settle()
    assert client.reply().headers["connection"] == "close"
    assert client.has_ended()


async def test_a_refusal_waits_for_the_replies_before_it() -> None:
    client = Client()
    client.send(post("/hold") + b"garbage\r\n\r\n")
    assert client.replies() == []
    assert not client.has_ended()
    client.routes.held[0].answer(b"one")
    first, second = client.replies()
    assert (first.status, "connection" in first.headers, second.status) == (200, False, 400)
    assert client.has_ended()


async def test_a_line_break_in_a_reply_header_never_reaches_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = Client()
    client.send(post("/bad"))
    reply = client.reply()
    assert reply.status == 500
    assert "injected" not in reply.headers
    assert "line break" in caplog.text


async def test_a_lost_connection_cancels_every_request_in_progress() -> None:
    client = Client()
    client.send(post("/hold") * 3)
    client.routes.held[1].answer(b"done already")
    client.hang_up()
    assert [held.handle.cancelled for held in client.routes.held] == [1, 0, 1]
    client.routes.held[0].answer(b"too late")
    assert client.replies() == []
    assert len(client.registry) == 0


async def test_a_cancel_that_raises_does_not_keep_the_others_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = Client()
    client.send(post("/hold") * 2)
    client.routes.held[0].handle.cancel = broken  # type: ignore[method-assign]  # a broken handle
    client.hang_up()
    assert client.routes.held[1].handle.cancelled == 1
    assert "cancelling /hold failed" in caplog.text
