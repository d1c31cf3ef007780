"""The application behind an ASGI server, in virtual time: bodies, disconnects, streams, the drain, the access log."""

import asyncio
import json
import logging
import typing

import pytest

from naiad.core.clock import ManualClock
from naiad.core.datatypes import FP32
from naiad.core.inference import RequestContext
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.protocol.access_log import AccessObserver
from naiad.protocol.http.admin.control_plane import ControlPlane
from naiad.protocol.http.asgi.middleware import (
    CHUNKS,
    ChunkCount,
    RequestMiddleware,
    RequestSettings,
)
from naiad.protocol.http.message import Message, Scope
from naiad.protocol.http.routes import HttpOptions, Routes
from naiad.protocol.observer import Ended
from tests.server.protocol.http.scripted_engine import ScriptedEngine, response, tensor

pytestmark = pytest.mark.looptime

INFER = "/v2/models/m/infer"
BODY = b'{"id":"r","inputs":[{"name":"INPUT0","shape":[4],"datatype":"FP32","data":[1,2,3,4]}]}'
FLAT = b'{"INPUT0":[1,2,3,4]}'
DISCONNECT: Message = {"type": "http.disconnect"}
CLOSE = (b"connection", b"close")


def piece(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def part(*, final: bool = False) -> InferResponse:
    outputs = NO_OUTPUTS if final else [tensor("OUTPUT0", FP32, [1.0])]
    return InferResponse("m", 1, "", outputs, NO_PARAMETERS, final=final, empty=final)


def came_in(chunks: int) -> dict[str, typing.Any]:
    """What a server that counts them adds to a scope."""
    return {CHUNKS: ChunkCount(chunks)}


class Call:
    """One request, as a server would run it."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: list[Message] = []
        self.room = asyncio.Event()
        self.room.set()
        self.read = 0
        self.task: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        message = await self.messages.get()
        self.read += 1
        return message

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        await self.room.wait()

    def feed(self, *messages: Message) -> None:
        for message in messages:
            self.messages.put_nowait(message)

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        headers: list[tuple[bytes, bytes]] = self.sent[0]["headers"]
        return headers

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def error(self) -> str:
        error: str = json.loads(self.body)["error"]
        return error

    def is_complete(self) -> bool:
        return len(self.sent) > 1 and not self.sent[-1].get("more_body", False)

    async def ended(self) -> typing.Self:
        assert self.task is not None
        await self.task
        return self


class Server:
    """The application with a scripted engine."""

    def __init__(self, *, limit: int = 1000, log: bool = False) -> None:
        self.engine = ScriptedEngine()
        self.entries: list[Ended] = []
        self.clock = ManualClock(now_ns=1)
        routes = Routes(self.engine, HttpOptions(max_input_size=limit))
        observer = AccessObserver(self.entries.append, clock=self.clock) if log else None
        plane = ControlPlane(self.engine, routes, {})
        self.app = RequestMiddleware(
            plane, lambda: routes, RequestSettings(discard_bytes=100, max_chunks=3), observer
        )

    def call(
        self,
        method: str,
        path: str,
        *messages: Message,
        length: int | None = None,
        **more: typing.Any,
    ) -> Call:
        headers = [(b"transfer-encoding", b"chunked")]
        if length is not None:
            headers = [(b"content-length", b"%d" % length)]
        scope = {
            "type": "http", "method": method, "path": path, "query_string": b"", "headers": headers, "client": ("::ffff:10.0.0.1", 5),
            **more,
        }  # fmt: skip
        call = Call(scope)
        call.feed(*(messages or ([piece(b"")] if length == 0 else [])))
        run = self.app(scope, call.receive, call.send)
        call.task = asyncio.get_running_loop().create_task(run)
        return call

    def infer(self) -> Call:
        return self.call("POST", INFER, piece(BODY), length=len(BODY))

    async def asked(self) -> typing.Any:
        """The inference in progress."""
        while not self.engine.inferences:  # noqa: ASYNC110 - the time is virtual
            await asyncio.sleep(1)
        return self.engine.inferences[-1]


async def test_a_request_is_answered_by_the_engine_and_may_come_in_pieces() -> None:
    server = Server()
    server.engine.answer = response(tensor("OUTPUT0", FP32, [2.0]))
    call = await server.call("POST", INFER, piece(BODY[:9], more=True), piece(BODY[9:])).ended()
    assert (call.status, call.is_complete()) == (200, True)
    assert json.loads(call.body)["outputs"][0]["data"] == [2.0]
    assert (b"content-length", b"%d" % len(call.body)) in call.headers
    assert CLOSE not in call.headers


async def test_a_body_above_the_limit_is_refused_unread_and_its_response_is_whole_before_the_rest_is_dropped() -> (
    None
):
    server = Server()
    for path in (INFER, "/v2/repository/index", "/v2/health/live", "/v2"):
        call = server.call("POST", path, length=1001)
        await asyncio.sleep(1)
        assert (call.status, call.read) == (400, 0)
        assert "exceeds the maximum allowed" in call.error
        assert CLOSE in call.headers
        assert not call.is_complete()
        call.feed(piece(b"x" * 500, more=True))
        await asyncio.sleep(1)
        assert not call.is_complete()
        await call.ended()  # the client has sent nothing for a while
        assert call.is_complete()
    assert server.engine.requests == []


async def test_a_body_in_chunks_is_refused_once_it_is_too_long_or_in_too_many_chunks() -> None:
    server = Server(limit=100)
    call = server.call(
        "POST", INFER, piece(b"x" * 60, more=True), piece(b"x" * 60, more=True), DISCONNECT
    )
    assert (await call.ended()).status == 400
    assert "maximum allowed input size of 100 bytes" in call.error
    for path in (INFER, "/v2/repository/index"):
        call = server.call("POST", path, piece(b"xx"), **came_in(5))
        assert (await call.ended()).status == 400
        assert (
            call.error
            == "The request body has more than 3 chunks. Send larger chunks, or a Content-Length."
        )
    server.engine.answer = response(tensor("OUTPUT0", FP32, [2.0]))
    server = Server()
    server.engine.answer = response(tensor("OUTPUT0", FP32, [2.0]))
    call = server.call("POST", INFER, piece(BODY), **came_in(4))
    assert (await call.ended()).status == 200


async def test_a_body_that_stands_still_is_given_up_after_its_time() -> None:
    server = Server()
    for path in (INFER, "/v2/repository/index"):
        call = server.call("POST", path, piece(b"{", more=True), length=20)
        await asyncio.sleep(59)
        assert call.sent == []
        await asyncio.sleep(2)
        assert call.status == 408
        assert call.error == "The request body stopped coming for 60 s. Send the request again."
        call.feed(DISCONNECT)
        await call.ended()


async def test_what_the_head_decides_is_answered_before_the_body() -> None:
    server = Server()
    call = server.call("POST", "/v2/models/unknown/infer", length=50)
    assert (await call.ended()).status == 404
    assert (call.read, CLOSE in call.headers) == (0, False)
    call = server.call("POST", "/v2/models/unknown/infer", DISCONNECT, length=500)
    assert (await call.ended()).status == 404
    assert CLOSE in call.headers


async def test_the_context_of_a_client_that_goes_is_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a trace has collected is written, and its setting counts it as open no longer."""
    finished: list[RequestContext] = []

    def finish(context: RequestContext) -> None:
        finished.append(context)

    monkeypatch.setattr(RequestContext, "finish", finish)
    server = Server(log=True)
    call = server.infer()
    await server.asked()
    call.feed(DISCONNECT)
    await call.ended()
    assert (len(finished), server.entries) == (1, [])


async def test_a_client_that_goes_cancels_its_request() -> None:
    server = Server()
    call = server.infer()
    inference = await server.asked()
    assert not inference.cancelled
    call.feed(DISCONNECT)
    await call.ended()
    assert inference.cancelled
    assert call.sent == []


async def test_so_does_a_server_that_cancels_the_call() -> None:
    server = Server()
    call = server.infer()
    inference = await server.asked()
    assert call.task is not None
    call.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call.task
    assert inference.cancelled


@pytest.mark.parametrize("path", [INFER, "/v2/repository/index"])
async def test_a_client_that_goes_in_the_body_is_not_logged(
    caplog: pytest.LogCaptureFixture, path: str
) -> None:
    server = Server()
    call = server.call("POST", path, piece(b"{", more=True), DISCONNECT, length=20)
    await call.ended()
    assert call.sent == []
    assert server.engine.requests == []
    assert caplog.records == []


async def test_a_stream_is_sent_as_it_comes_and_holds_its_model_while_the_server_takes_nothing() -> (
    None
):
    server = Server()
    path = "/v2/models/m/generate_stream"
    call = server.call("POST", path, piece(FLAT), length=len(FLAT))
    inference = await server.asked()
    inference.on_response(part())
    await asyncio.sleep(1)
    assert (call.status, call.body.count(b"data: ")) == (200, 1)
    assert not call.is_complete()
    call.room.clear()
    inference.on_response(part())
    await asyncio.sleep(1)  # the server has taken this one, and no other
    sent = len(call.sent)
    pauses: list[bool] = []
    inference.flow.watch(pauses.append)
    while True not in pauses:
        inference.on_response(part())
    await asyncio.sleep(1)
    assert len(call.sent) == sent
    call.room.set()
    await asyncio.sleep(1)
    assert pauses[-1] is False
    inference.on_response(part(final=True))
    await call.ended()
    assert call.is_complete()
    assert not inference.cancelled


@pytest.mark.parametrize("reads", [True, False])
async def test_a_client_that_goes_ends_its_stream(*, reads: bool) -> None:
    server = Server()
    path = "/v2/models/m/generate_stream"
    call = server.call("POST", path, piece(FLAT), length=len(FLAT))
    inference = await server.asked()
    inference.on_response(part())
    await asyncio.sleep(1)
    if not reads:
        call.room.clear()
        inference.on_response(part())
        await asyncio.sleep(1)
    call.feed(DISCONNECT)
    await asyncio.sleep(1)
    call.room.set()
    await call.ended()
    assert inference.cancelled
    assert not call.is_complete()


async def test_responses_close_their_connections_in_a_drain_and_what_has_none_at_its_end_is_unavailable() -> (
    None
):
    server = Server()
    before = server.infer()
    await server.asked()
    stream = server.call("POST", "/v2/models/m/generate_stream", piece(FLAT), length=len(FLAT))
    await asyncio.sleep(1)
    server.engine.inferences[1].on_response(part())
    server.app.begin_drain()
    assert CLOSE in (await server.call("GET", "/v2/health/live", length=0).ended()).headers
    assert server.app.give_up() == 2
    await before.ended()
    assert before.status == 503
    assert before.error.startswith("Server exiting: its exit timeout")
    assert CLOSE in before.headers
    await stream.ended()
    assert (stream.status, stream.is_complete()) == (200, False)
    assert all(inference.cancelled for inference in server.engine.inferences)


async def test_each_response_has_an_entry_in_the_access_log() -> None:
    server = Server(log=True)
    server.engine.answer = response(tensor("OUTPUT0", FP32, [2.0]), request_id="r")
    whole = await server.infer().ended()
    await server.call("GET", "/v2", length=0, query_string=b"a=%20").ended()
    await server.call("HEAD", "/v2/health/live", length=0, raw_path=b"/v2/health/%6cive").ended()
    entries = server.entries
    assert [(e.method, e.target, e.status) for e in entries] == [
        ("POST", INFER, 200),
        ("GET", "/v2?a=%20", 200),
        ("HEAD", "/v2/health/%6cive", 200),
    ]
    first = entries[0].context
    assert (first.request_bytes, first.response_bytes) == (len(BODY), len(whole.body))
    assert first.request_id == "r"
    assert server.engine.contexts == [first]
    assert entries[0].peer == "10.0.0.1:5"
    gone = server.call("POST", INFER, piece(b"{", more=True), DISCONNECT, length=20)
    await gone.ended()
    assert len(entries) == 3


async def test_a_bug_is_a_response_and_a_log_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()

    def broken(*_: typing.Any) -> typing.NoReturn:
        raise ZeroDivisionError

    for path, method in (("/v2", "server_metadata"), ("/v2/health/live", "server_live")):
        with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
            patched.setattr(server.engine, method, broken)
            call = await server.call("GET", path, length=0).ended()
        assert (call.status, call.is_complete()) == (500, True)
        assert "not the request's fault" in call.error
        assert "ZeroDivisionError" in caplog.text
        caplog.clear()


async def test_control_characters_and_options_of_the_server_are_answered_as_by_the_native_engine() -> (
    None
):
    server = Server()
    call = await server.call("GET", "/v2/models/m\n", length=0).ended()
    assert (call.status, "control character" in call.error) == (400, True)
    call = await server.call("OPTIONS", "*", length=0).ended()
    assert (call.status, call.body) == (204, b"")
    assert (b"allow", b"GET, HEAD, POST, OPTIONS") in call.headers


async def test_other_protocols_of_asgi_pass() -> None:
    passed: list[str] = []

    async def app(scope: Scope, receive: typing.Any, send: typing.Any) -> None:
        passed.append(scope["type"])

    server = Server()
    middleware = RequestMiddleware(app, typing.cast("typing.Any", None), RequestSettings())
    call = Call({})
    for kind in ("lifespan", "websocket"):
        await middleware({"type": kind}, call.receive, call.send)
    assert passed == ["lifespan", "websocket"]
    assert server.app.begun == 0
