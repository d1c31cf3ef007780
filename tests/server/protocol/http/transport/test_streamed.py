"""Replies whose body is made while it is sent, through the whole connection."""

import asyncio
import dataclasses

import pytest
from typing_extensions import override

from naiad.core.inference import Cancellable
from naiad.protocol.http.message import (
    BodyWriter,
    FastHandler,
    Headers,
    HttpReply,
    HttpRequest,
    OnReply,
)
from naiad.protocol.http.transport.service import HttpSettings
from tests.server.protocol.http.scripted import (
    TEXT,
    Client,
    ScriptedRoutes,
    entries,
    post,
    request,
    settle,
)

SETTINGS = HttpSettings()


@dataclasses.dataclass
class Stream:
    """A body that the test makes."""

    on_reply: OnReply
    writer: BodyWriter | None = None
    paused: int = 0
    resumed: int = 0
    cancelled: int = 0
    probed: int = 0

    def reply(self, status: int = 200) -> "Stream":
        self.on_reply(HttpReply(status, TEXT, (), "r", self))
        return self

    def begin(self, writer: BodyWriter) -> None:
        self.writer = writer

    def pause(self) -> None:
        self.paused += 1

    def resume(self) -> None:
        self.resumed += 1

    def probe(self) -> None:
        self.probed += 1

    def cancel(self) -> None:
        self.cancelled += 1

    def write(self, data: bytes | memoryview) -> None:
        assert self.writer is not None
        self.writer.write(data)

    def end(self) -> None:
        assert self.writer is not None
        self.writer.end()


class StreamingRoutes(ScriptedRoutes):
    """Also /stream, whose replies are streams."""

    def __init__(self) -> None:
        super().__init__()
        self.streams: list[Stream] = []
        self.whole_at_once = False

    @override
    def find(self, method: bytes, path: str, headers: Headers) -> FastHandler | None:
        return self._stream if path == "/stream" else super().find(method, path, headers)

    def _stream(self, request: HttpRequest, on_reply: OnReply) -> Cancellable | None:
        stream = Stream(on_reply)
        self.streams.append(stream)
        if self.whole_at_once:
            stream.reply()
            if stream.writer is not None:
                stream.write(b"all")
                stream.end()
        return stream


class StreamingClient(Client):
    def __init__(self, settings: HttpSettings | None = None) -> None:
        self.streaming = StreamingRoutes()
        self.logged, log = entries()
        super().__init__(routes=self.streaming, settings=settings, access_log=log)

    def begin(self, *lines: str) -> Stream:
        """A request whose reply begins now."""
        self.send(post("/stream", b"", *lines))
        return self.streaming.streams[-1].reply()

    @property
    def sent(self) -> bytes:
        return bytes(self.transport.sent)


async def test_pieces_leave_as_chunks_when_they_are_made() -> None:
    client = StreamingClient()
    stream = client.begin()
    head = client.sent
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Transfer-Encoding: chunked\r\n" in head
    assert b"Content-Length" not in head
    assert head.endswith(b"\r\n\r\n")
    client.transport.sent.clear()
    stream.write(b"a" * 20)
    assert client.sent == b"14\r\n" + b"a" * 20 + b"\r\n"
    stream.write(b"")
    client.transport.sent.clear()
    stream.end()
    assert client.sent == b"0\r\n\r\n"
    (entry,) = client.logged
    assert (entry.status, entry.context.response_bytes, entry.context.request_id) == (200, 20, "r")


async def test_the_connection_serves_on_after_a_stream() -> None:
    client = StreamingClient()
    stream = client.begin()
    stream.write(b"x")
    stream.end()
    client.send(post("/echo", b"after"))
    assert [reply.body for reply in client.replies()] == [b"x", b"after"]
    assert not client.is_closed()


async def test_what_is_asked_behind_a_stream_is_answered_behind_it() -> None:
    client = StreamingClient()
    client.send(post("/hold") + post("/stream") + post("/echo", b"1") + post("/echo", b"2"))
    assert client.streaming.streams == []
    client.streaming.held[0].answer(b"first")
    (stream,) = client.streaming.streams
    stream.reply()
    stream.write(b"x")
    assert b"1" not in client.sent.partition(b"\r\n\r\n")[2].rpartition(b"x")[2]
    stream.end()
    assert [reply.body for reply in client.replies()] == [b"first", b"x", b"1", b"2"]


async def test_a_stream_that_is_whole_at_once_keeps_the_order_too() -> None:
    client = StreamingClient()
    client.streaming.whole_at_once = True
    client.send(post("/stream") + post("/echo", b"1") + post("/stream"))
    assert [reply.body for reply in client.replies()] == [b"all", b"1", b"all"]


async def test_the_applications_requests_wait_for_the_end_of_a_stream() -> None:
    client = StreamingClient()
    client.send(post("/stream") + request("GET", "/app"))
    stream = client.streaming.streams[0].reply()
    await settle()
    stream.end()
    await settle()
    assert [reply.body for reply in client.replies()] == [b"", b"GET /app "]


async def test_a_client_that_leaves_cancels_its_stream() -> None:
    client = StreamingClient()
    stream = client.begin()
    client.hang_up()
    assert stream.cancelled == 1
    stream.write(b"too late")
    stream.end()
    assert b"too late" not in client.sent


async def test_a_client_that_leaves_before_the_stream_began_cancels_it() -> None:
    client = StreamingClient()
    client.send(post("/stream"))
    client.hang_up()
    assert client.streaming.streams[0].cancelled == 1


async def test_a_stream_is_not_begun_before_it_is_its_turn() -> None:
    client = StreamingClient()
    client.send(post("/stream") * 3)
    for number in (1, 2, 3):
        assert len(client.streaming.streams) == number
        client.streaming.streams[-1].reply().end()
    assert len(client.replies()) == 3


async def test_the_stream_is_notified_of_a_slow_client() -> None:
    client = StreamingClient()
    stream = client.begin()
    client.connection.pause_writing()
    client.connection.resume_writing()
    assert (stream.paused, stream.resumed) == (1, 1)


async def test_a_stream_that_begins_while_the_client_takes_nothing_is_notified_at_once() -> None:
    client = StreamingClient()
    client.send(post("/stream"))
    client.connection.pause_writing()
    stream = client.streaming.streams[0].reply()
    assert stream.paused == 1


@pytest.mark.looptime
async def test_a_client_that_takes_nothing_for_long_is_cut_and_its_stream_cancelled() -> None:
    client = StreamingClient()
    stream = client.begin()
    client.connection.pause_writing()
    client.transport.unsent = 1000
    await asyncio.sleep(SETTINGS.write_stall_timeout + 3 * SETTINGS.tick)
    assert client.is_cut()
    await settle()
    assert stream.cancelled == 1


@pytest.mark.looptime
async def test_a_stream_may_be_silent_for_as_long_as_it_likes() -> None:
    client = StreamingClient()
    stream = client.begin()
    await asyncio.sleep(10 * SETTINGS.keep_alive_timeout)
    assert not client.is_closed()
    stream.end()
    assert client.reply().status == 200


async def test_the_old_protocol_gets_the_body_up_to_the_end_of_the_connection() -> None:
    client = StreamingClient()
    client.send(b"POST /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    stream = client.streaming.streams[0].reply()
    stream.write(b"plain")
    assert b"Connection: close" in client.sent
    assert b"chunked" not in client.sent
    assert client.sent.endswith(b"\r\n\r\nplain")
    stream.end()
    assert client.is_closed()


async def test_a_client_that_wants_it_gets_the_connection_closed_after_the_stream() -> None:
    client = StreamingClient()
    stream = client.begin("Connection: close")
    assert b"Connection: close" in client.sent
    stream.end()
    assert client.is_closed()


async def test_a_drain_waits_for_the_stream_and_closes_then() -> None:
    client = StreamingClient()
    stream = client.begin()
    client.connection.drain(close_idle=True)
    assert not client.is_closed()
    stream.write(b"rest")
    assert not client.is_closed()
    stream.end()
    assert client.reply().body == b"rest"
    assert client.is_closed()


async def test_a_client_that_half_closes_gets_no_interim_reply_inside_the_stream() -> None:
    client = StreamingClient()
    stream = client.begin()
    client.transport.sent.clear()
    assert client.connection.eof_received()
    stream.write(b"x")
    stream.end()
    assert client.sent == b"1\r\nx\r\n0\r\n\r\n"
    assert client.is_closed()


@pytest.mark.looptime
async def test_a_client_that_closes_while_nothing_is_sent_is_found_out_by_a_probe() -> None:
    client = StreamingClient()
    stream = client.begin()
    client.transport.socket.error = 104
    assert client.connection.eof_received()
    assert stream.probed == 1
    await asyncio.sleep(0.1)
    assert client.is_cut()
    await settle()
    assert stream.cancelled == 1


async def test_a_body_that_cannot_be_completed_is_cut() -> None:
    client = StreamingClient()
    stream = client.begin()
    assert stream.writer is not None
    stream.writer.cut()
    assert client.is_cut()
    await settle()
    assert stream.cancelled == 1
    assert not client.sent.endswith(b"0\r\n\r\n")


async def test_garbage_behind_a_stream_is_refused_behind_it() -> None:
    client = StreamingClient()
    stream = client.begin()
    client.send(b"garbage\r\n\r\n")
    stream.write(b"x")
    stream.end()
    stream_reply, refused = client.replies()
    assert (stream_reply.body, refused.status) == (b"x", 400)


async def test_only_a_stream_that_has_not_begun_is_refused_when_it_is_given_up() -> None:
    client = StreamingClient()
    stream = client.begin()
    before = len(client.sent)
    client.connection.drain(close_idle=True)
    client.connection.give_up()
    assert len(client.sent) == before
    assert not stream.cancelled
    fresh = StreamingClient()
    fresh.send(post("/stream"))
    fresh.connection.drain(close_idle=True)
    fresh.connection.give_up()
    assert fresh.reply().status == 503
    assert fresh.streaming.streams[0].cancelled == 1
    assert fresh.has_ended()
