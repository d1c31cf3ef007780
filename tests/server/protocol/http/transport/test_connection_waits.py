"""The connection and time: timeouts, half-closed and vanished clients, draining. Virtual time throughout."""

import asyncio
import json

import pytest

from naiad.protocol.http.message import Receive, Scope, Send
from naiad.protocol.http.transport.service import HttpSettings
from tests.server.protocol.http.scripted import Client, post, request, settle

pytestmark = pytest.mark.looptime

SETTINGS = HttpSettings(
    keep_alive_timeout=70,
    head_timeout=30,
    body_idle_timeout=20,
    write_stall_timeout=40,
    linger_timeout=5,
    tick=1,
)


async def test_an_idle_connection_is_closed_after_the_keep_alive_timeout_and_not_before() -> None:
    client = Client(settings=SETTINGS)
    await asyncio.sleep(0.5)
    client.send(post("/echo", b"x"))
    await asyncio.sleep(69.9)
    assert not client.has_ended()
    await asyncio.sleep(1.2)
    assert client.is_closed()
    assert client.reply().body == b"x"
    assert len(client.registry) == 0


async def test_the_keep_alive_time_starts_again_with_each_reply() -> None:
    client = Client(settings=SETTINGS)
    for _ in range(5):
        await asyncio.sleep(60)
        client.send(post("/echo", b"x"))
    assert not client.has_ended()


async def test_the_keep_alive_time_starts_with_a_late_reply() -> None:
    client = Client(settings=SETTINGS)
    client.send(post("/hold"))
    await asyncio.sleep(100)
    client.routes.held[0].answer(b"")
    await asyncio.sleep(69)
    assert not client.has_ended()


async def test_a_request_in_progress_has_no_timeout_here() -> None:
    client = Client(settings=SETTINGS)
    client.send(post("/hold"))
    await asyncio.sleep(3600)
    client.routes.held[0].answer(b"at last")
    assert client.reply().body == b"at last"


async def test_a_head_in_drops_is_408_after_the_head_timeout_in_all() -> None:
    client = Client(settings=SETTINGS)
    started = asyncio.get_running_loop().time()
    for byte in request("GET", "/echo", "A: " + "x" * 100):
        if client.has_ended():
            break
        client.send(bytes([byte]))
        await asyncio.sleep(1)
    assert 30 <= asyncio.get_running_loop().time() - started <= 32
    reply = client.reply()
    assert reply.status == 408
    assert "30 s" in json.loads(reply.body)["error"]


@pytest.mark.parametrize("lane", ["/echo", "/app"])
async def test_a_body_that_stops_coming_is_408_after_the_idle_time(lane: str) -> None:
    client = Client(settings=SETTINGS)
    client.send(request("POST", lane, "Content-Length: 100"))
    for _ in range(10):
        await asyncio.sleep(15)
        client.send(b"x")
    await asyncio.sleep(19.9)
    assert client.replies() == []
    await asyncio.sleep(1.2)
    reply = client.reply()
    assert reply.status == 408
    assert "20 s" in json.loads(reply.body)["error"]
    assert reply.headers["connection"] == "close"
    assert client.has_ended()


async def test_a_body_that_is_not_taken_does_not_count_as_idle() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(100)
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    client = Client(settings=HttpSettings(body_high_bytes=10, body_idle_timeout=20), app=slow)
    client.send(request("POST", "/app", "Content-Length: 100") + b"x" * 50)
    assert not client.is_reading()
    await asyncio.sleep(101)
    assert client.reply().body == b"done"


async def test_a_client_that_takes_nothing_is_cut_after_the_stall_time() -> None:
    client = Client(settings=SETTINGS)
    client.send(post("/hold"))
    client.transport.unsent = 5000
    client.connection.pause_writing()
    for _ in range(5):
        await asyncio.sleep(35)
        client.transport.unsent -= 1
    assert not client.is_cut()
    await asyncio.sleep(43)
    assert client.is_cut()
    assert client.routes.held[0].handle.cancelled == 1


async def test_a_closing_connection_with_unsent_bytes_is_cut_after_the_stall_time() -> None:
    client = Client(settings=SETTINGS)
    client.transport.unsent = 10
    client.send(post("/echo", b"x", "Connection: close"))
    assert client.is_closed()
    await asyncio.sleep(38)
    assert not client.is_cut()
    await asyncio.sleep(5)
    assert client.is_cut()
    assert len(client.registry) == 0


async def test_a_refused_client_is_listened_to_until_it_stops() -> None:
    client = Client(settings=SETTINGS)
    client.send(request("POST", "/echo", "Content-Length: 100000"))
    assert client.reply().status == 400
    client.send(b"x" * 50000)
    assert client.transport.eof_written
    assert not client.is_closed()
    assert not client.connection.eof_received()  # the transport closes itself then


async def test_a_refused_client_that_does_not_stop_is_cut() -> None:
    client = Client(settings=SETTINGS)
    client.send(request("POST", "/echo", "Content-Length: 100000"))
    for _ in range(20):
        await asyncio.sleep(0.5)
        client.send(b"x")
    assert client.is_cut()


async def test_a_half_closed_client_gets_the_replies_to_what_came_whole() -> None:
    client = Client(settings=SETTINGS)
    client.send(post("/hold", b"1") + post("/hold", b"2") + b"POST /echo HT")
    assert client.connection.eof_received()
    await asyncio.sleep(10)
    assert not client.has_ended()
    for held in client.routes.held:
        held.answer(b"late")
    replies = client.replies()
    assert [reply.status for reply in replies] == [100, 200, 200]
    assert client.is_closed()


async def test_a_half_closed_client_gets_the_application_s_reply() -> None:
    client = Client(settings=SETTINGS)
    client.send(post("/app", b"1"))
    assert client.connection.eof_received()
    await settle()
    assert [reply.status for reply in client.replies()] == [100, 200]
    assert client.is_closed()


async def test_a_half_closed_client_gets_replies_to_requests_that_were_not_begun_yet() -> None:
    client = Client(settings=HttpSettings(max_pipelined=1))
    client.send(post("/hold", b"1") + post("/echo", b"2"))
    assert client.connection.eof_received()
    client.routes.held[0].answer(b"1")
    assert [reply.body for reply in client.replies()][1:] == [b"1", b"2"]
    assert client.is_closed()


async def test_a_client_that_closed_is_found_out_and_its_request_cancelled() -> None:
    client = Client(settings=SETTINGS)
    client.send(post("/hold"))
    client.transport.socket.error = 32  # what the kernel says once the probe was refused
    assert client.connection.eof_received()
    await asyncio.sleep(0.05)
    assert client.is_cut()
    assert client.routes.held[0].handle.cancelled == 1


async def test_a_distant_client_that_closed_is_found_out_at_a_later_tick() -> None:
    client = Client(settings=SETTINGS)
    client.send(post("/hold"))
    assert client.connection.eof_received()
    await asyncio.sleep(0.05)
    client.transport.socket.error = 32
    await asyncio.sleep(1)
    assert client.routes.held[0].handle.cancelled == 1


@pytest.mark.parametrize(
    "data", [b"", b"GET /ec", request("POST", "/echo", "Content-Length: 9") + b"half"]
)
async def test_eof_before_a_whole_request_closes_without_a_reply(data: bytes) -> None:
    client = Client(settings=SETTINGS)
    if data:
        client.send(data)
    assert not client.connection.eof_received()
    assert client.replies() == []
    assert client.routes.requests == []


async def test_http_1_0_clients_get_no_interim_reply_at_eof() -> None:
    client = Client(settings=SETTINGS)
    client.send(b"GET /hold HTTP/1.0\r\n\r\n")
    assert client.connection.eof_received()
    assert client.replies() == []


async def test_draining_closes_idle_connections_at_once_only_when_asked() -> None:
    keeps, goes = Client(settings=SETTINGS), Client(settings=SETTINGS)
    keeps.connection.drain(close_idle=False)
    goes.connection.drain(close_idle=True)
    assert (keeps.has_ended(), goes.has_ended()) == (False, True)
    keeps.send(post("/echo", b"x"))
    assert keeps.reply().headers["connection"] == "close"
    assert keeps.is_closed()


async def test_draining_finishes_what_is_in_progress_and_says_close_with_the_last_reply() -> None:
    client = Client(settings=SETTINGS)
    client.send(post("/hold", b"1") + post("/hold", b"2"))
    client.connection.drain(close_idle=True)
    assert not client.has_ended()
    client.routes.held[0].answer(b"1")
    client.routes.held[1].answer(b"2")
    first, second = client.replies()
    assert "connection" not in first.headers
    assert second.headers["connection"] == "close"
    assert client.is_closed()


async def test_draining_lets_a_body_come_to_its_end() -> None:
    client = Client(settings=SETTINGS)
    client.send(request("POST", "/echo", "Content-Length: 4") + b"ab")
    client.connection.drain(close_idle=True)
    client.send(b"cd")
    reply = client.reply()
    assert (reply.body, reply.headers["connection"]) == (b"abcd", "close")
    assert client.is_closed()


async def test_draining_ends_with_the_application_s_reply_too() -> None:
    client = Client(settings=SETTINGS)
    client.send(request("GET", "/app"))
    client.connection.drain(close_idle=True)
    await settle()
    assert client.reply().headers["connection"] == "close"
    assert client.is_closed()


async def test_a_drain_during_the_application_s_response_closes_the_connection_after_it() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await rest.wait()
        await send({"type": "http.response.body", "body": b"b"})

    rest = asyncio.Event()
    client = Client(app=app, settings=SETTINGS)
    client.send(request("GET", "/app"))
    await settle()
    client.connection.drain(close_idle=True)
    rest.set()
    await settle()
    assert client.reply().body == b"ab"
    assert client.is_closed()


async def test_draining_does_not_wait_for_a_client_that_goes_on_pipelining() -> None:
    client = Client(settings=SETTINGS)
    client.send(post("/hold", b"1"))
    client.connection.drain(close_idle=True)
    client.send(post("/hold", b"2"))
    client.routes.held[0].answer(b"1")
    assert client.reply().headers["connection"] == "close"
    assert len(client.routes.held) == 1
    assert client.has_ended()


async def test_the_first_request_of_a_drained_idle_connection_is_its_last() -> None:
    client = Client(settings=SETTINGS)
    client.connection.drain(close_idle=False)
    client.send(post("/hold", b"1"))
    client.send(post("/hold", b"2"))
    assert len(client.routes.held) == 1
    client.routes.held[0].answer(b"1")
    assert client.reply().headers["connection"] == "close"
    assert client.has_ended()


async def test_connections_made_while_draining_close_after_their_reply() -> None:
    client = Client(settings=SETTINGS)
    client.registry.draining = True
    client.connection.connection_made(client.transport)
    client.send(post("/echo", b"x"))
    assert client.reply().headers["connection"] == "close"
