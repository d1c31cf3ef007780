"""The bridge to the ASGI application: its scope, both streams, and what becomes of applications that misbehave."""

import asyncio
import json

import pytest

from naiad.protocol.http.message import Message, Receive, Scope, Send
from naiad.protocol.http.transport.service import HttpSettings
from tests.server.protocol.http.scripted import Client, post, request, settle


async def test_the_scope_says_what_was_asked_by_whom() -> None:
    scopes: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await _answer(send)

    client = Client(app=app)
    client.send(request("HEAD", "/a%20b?c=%20d", "X-One: 1", "X-One: 2"))
    await settle()
    assert scopes == [
        {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "/a b",
            "raw_path": b"/a%20b",
            "query_string": b"c=%20d",
            "root_path": "",
            "headers": [(b"host", b"test"), (b"x-one", b"1, 2")],
            "client": ("10.0.0.9", 4711),
            "server": ("10.0.0.1", 8000),
        }
    ]


async def test_a_body_is_streamed_and_reading_stops_while_the_handler_does_not_take_it() -> None:
    got: list[Message] = []
    go = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while not got or got[-1]["more_body"]:
            await go.wait()
            go.clear()
            got.append(await receive())
        await _answer(send)

    client = Client(app=app, settings=HttpSettings(body_high_bytes=10))
    client.send(request("POST", "/app", "Content-Length: 30") + b"a" * 10)
    assert client.is_reading()
    client.send(b"b" * 10)
    assert not client.is_reading()
    go.set()
    await settle()
    assert got == [{"type": "http.request", "body": b"a" * 10 + b"b" * 10, "more_body": True}]
    assert client.is_reading()
    client.send(b"c" * 10)
    go.set()
    await settle()
    assert got[1:] == [{"type": "http.request", "body": b"c" * 10, "more_body": False}]
    assert client.reply().body == b"ok"


async def test_a_streamed_reply_is_chunked_and_waits_for_a_slow_client() -> None:
    sent: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(3):
            await send({"type": "http.response.body", "body": b"part", "more_body": True})
            sent.append(number)
        await send({"type": "http.response.body", "body": b""})

    client = Client(app=app)
    client.send(request("GET", "/app"))
    client.connection.pause_writing()
    await settle()
    assert sent == []
    client.connection.resume_writing()
    await settle()
    reply = client.reply()
    assert sent == [0, 1, 2]
    assert (reply.headers["transfer-encoding"], reply.body) == ("chunked", b"partpartpart")
    assert not client.has_ended()


async def test_a_streamed_reply_to_http_1_0_ends_with_the_connection() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
        await send({"type": "http.response.body", "body": b"part"})

    client = Client(app=app)
    client.send(b"GET /app HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    await settle()
    reply = client.reply()
    assert (reply.headers["connection"], reply.body) == ("close", b"partpart")
    assert "transfer-encoding" not in reply.headers
    assert client.is_closed()


async def test_a_reply_with_a_length_of_its_own_is_left_as_it_is() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"6"), (b"transfer-encoding", b"unknown")]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        await send({"type": "http.response.body", "body": b"defTOO MUCH"})

    client = Client(app=app)
    client.send(request("GET", "/app"))
    await settle()
    reply = client.reply()
    assert (reply.status, reply.headers, reply.body) == (201, {"content-length": "6"}, b"abcdef")
    assert not client.has_ended()


async def test_a_reply_shorter_than_it_says_ends_the_connection() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"6")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"abc"})

    client = Client(app=app)
    client.send(request("GET", "/app"))
    await settle()
    assert client.is_closed()


@pytest.mark.parametrize("status", [204, 304])
async def test_statuses_without_a_body_get_neither_body_nor_length(status: int) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    client = Client(app=app)
    client.send(request("GET", "/app") + post("/echo", b"x"))
    await settle()
    first, second = client.replies()
    assert (first.status, first.headers, second.body) == (status, {}, b"x")


async def test_an_application_may_ask_to_close() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await _answer(send, (b"connection", b"close"))

    client = Client(app=app)
    client.send(request("GET", "/app"))
    await settle()
    assert client.reply().headers["connection"] == "close"
    assert client.is_closed()


async def test_an_application_that_raises_is_a_500_in_json(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("a bug in the application")

    client = Client(app=app)
    client.send(request("GET", "/app") + post("/echo", b"x"))
    await settle()
    failed, fine = client.replies()
    assert failed.status == 500
    assert list(json.loads(failed.body)) == ["error"]
    assert fine.body == b"x"
    assert "a bug in the application" in caplog.text


async def test_an_application_that_ends_without_a_reply_is_a_500() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        pass

    client = Client(app=app)
    client.send(request("GET", "/app"))
    await settle()
    assert client.reply().status == 500


async def test_a_reply_that_breaks_off_cuts_the_connection_so_that_the_client_sees_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
        raise RuntimeError("a bug in the application")

    client = Client(app=app)
    client.send(request("GET", "/app"))
    await settle()
    assert client.is_cut()
    assert not client.transport.sent.endswith(b"0\r\n\r\n")
    assert "a bug in the application" in caplog.text


async def test_a_message_out_of_order_is_the_application_s_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.body", "body": b"x"})

    client = Client(app=app)
    client.send(request("GET", "/app"))
    await settle()
    assert client.reply().status == 500
    assert "http.response.start" in caplog.text


async def test_the_application_is_notified_of_a_lost_client_and_what_it_sends_is_dropped() -> None:
    got: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while not got or got[-1] != "http.disconnect":
            got.append((await receive())["type"])
        await _answer(send)

    client = Client(app=app)
    client.send(request("GET", "/app"))
    await settle()
    assert got == ["http.request"]
    client.hang_up()
    await settle()
    assert got == ["http.request", "http.disconnect"]
    assert client.replies() == []


async def test_a_sender_that_waits_for_a_lost_client_is_released() -> None:
    ended: list[bool] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
        ended.append(True)

    client = Client(app=app)
    client.send(request("GET", "/app"))
    client.connection.pause_writing()
    await settle()
    assert ended == []
    client.hang_up()
    await settle()
    assert ended == [True]


async def test_receive_after_the_reply_says_disconnect() -> None:
    got: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await _answer(send)
        got.append((await receive())["type"])

    client = Client(app=app)
    client.send(request("GET", "/app"))
    await settle()
    assert got == ["http.disconnect"]


async def test_a_small_rest_of_an_unread_body_is_read_past_and_the_connection_kept() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await _answer(send)

    client = Client(app=app)
    client.send(request("POST", "/app", "Content-Length: 100") + b"x" * 10)
    await settle()
    assert "connection" not in client.reply().headers
    client.send(b"x" * 90 + post("/echo", b"next"))
    assert client.reply().body == b"next"


@pytest.mark.parametrize("framing", ["Content-Length: 900", "Transfer-Encoding: chunked"])
async def test_a_large_or_unknown_rest_of_an_unread_body_ends_the_connection(framing: str) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await _answer(send)

    client = Client(app=app, settings=HttpSettings(discard_bytes=100))
    client.send(request("POST", "/app", framing))
    await settle()
    assert client.reply().headers["connection"] == "close"
    assert client.transport.eof_written


async def test_a_body_never_asked_for_with_100_continue_ends_the_connection() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await _answer(send)

    client = Client(app=app)
    client.send(request("POST", "/app", "Content-Length: 5", "Expect: 100-continue"))
    await settle()
    reply = client.reply()
    assert (reply.status, reply.headers["connection"]) == (200, "close")


@pytest.mark.looptime
async def test_a_rest_that_stops_coming_ends_the_connection_without_a_second_reply() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await _answer(send)

    client = Client(app=app, settings=HttpSettings(body_idle_timeout=20))
    client.send(request("POST", "/app", "Content-Length: 5"))
    await settle()
    assert client.reply().status == 200
    await asyncio.sleep(30)
    assert client.replies() == []
    assert client.has_ended()


async def test_a_malformed_chunk_ends_the_application_s_call() -> None:
    ended: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            while True:
                await receive()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    client = Client(app=app)
    client.send(request("POST", "/app", "Transfer-Encoding: chunked"))
    await settle()
    client.send(b"xyz\r\n")
    await settle()
    assert client.reply().status == 400
    assert ended == ["cancelled"]


async def test_a_malformed_chunk_after_the_reply_has_begun_cuts_the_connection() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
        while True:
            await receive()

    client = Client(app=app)
    client.send(request("POST", "/app", "Transfer-Encoding: chunked"))
    await settle()
    client.send(b"xyz\r\n")
    await settle()
    assert client.is_cut()
    assert b"error" not in client.transport.sent


async def _answer(send: Send, *headers: tuple[bytes, bytes]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": list(headers)})
    await send({"type": "http.response.body", "body": b"ok"})
