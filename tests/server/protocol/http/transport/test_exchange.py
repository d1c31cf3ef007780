"""An exchange ends with its reply, by reference counts alone: the garbage collector must find nothing to do on the hot path."""

import asyncio
import gc
import typing
import weakref

import pytest
from typing_extensions import override

from naiad.core.inference import Inference, RequestContext
from naiad.protocol.http.message import HttpReply, OnReply
from naiad.protocol.http.transport.connection import Connection
from naiad.protocol.http.transport.exchange import Exchange, FollowedExchange
from naiad.protocol.http.transport.head import NO_HEAD
from tests.server.protocol.http.scripted import Client, FakeTransport, post, request, settle


class Work:
    """As an inference does: it holds the response callback, and the exchange holds it to cancel it."""

    def __init__(self, on_reply: OnReply) -> None:
        self.on_reply = on_reply
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Pipeline:
    def __init__(self) -> None:
        self.sent: list[HttpReply | None] = []

    def responded(self, exchange: Exchange) -> None:
        self.sent.append(exchange.response)

    def followed(self, exchange: Exchange, context: RequestContext) -> None:
        assert exchange.context is context
        self.sent.append(exchange.response)


REPLY = HttpReply(200, (), (b"",))


def make(pipeline: Pipeline, context: RequestContext | None = None) -> tuple[Exchange, Work]:
    kind = Exchange if context is None else FollowedExchange
    exchange = kind(pipeline, NO_HEAD, context)
    work = Work(exchange.reply)
    exchange.handle = work
    return exchange, work


def test_an_answered_exchange_leaves_no_garbage() -> None:
    gc.collect()
    gc.disable()
    try:
        exchange, work = make(Pipeline())
        work.on_reply(REPLY)
        del exchange, work
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_client_that_leaves_leaves_no_garbage_of_a_logged_request() -> None:
    gc.collect()
    gc.disable()
    try:
        context = RequestContext(1)
        exchange = Exchange(Pipeline(), NO_HEAD, context)
        exchange.handle = work = Work(exchange.reply)
        context.inference = typing.cast("Inference", work)
        exchange.abandon()
        del exchange, context, work
        assert gc.collect() == 0
    finally:
        gc.enable()


class Traced(RequestContext, kw_only=True):
    """A context that counts how often it ends."""

    finished: int = 0

    @override
    def finish(self) -> None:
        self.finished += 1


@pytest.mark.parametrize("answered", [False, True])
def test_the_context_of_a_client_that_leaves_is_finished_once(answered: bool) -> None:  # noqa: FBT001
    """What a trace has collected is written, and its setting counts it as open no longer."""
    context = Traced(1)
    exchange = FollowedExchange(Pipeline(), NO_HEAD, context)
    exchange.handle = Work(exchange.reply)
    if answered:
        exchange.reply(REPLY)
    exchange.abandon()
    exchange.abandon()
    assert context.finished == 1


@pytest.mark.parametrize("context", [None, RequestContext(1)], ids=["plain", "followed"])
def test_a_second_reply_is_dropped(context: RequestContext | None) -> None:
    pipeline = Pipeline()
    _, work = make(pipeline, context)
    work.on_reply(REPLY)
    work.on_reply(REPLY)
    assert pipeline.sent == [REPLY]


@pytest.mark.parametrize("context", [None, RequestContext(1)], ids=["plain", "followed"])
def test_a_reply_to_a_client_that_has_gone_is_dropped(context: RequestContext | None) -> None:
    pipeline = Pipeline()
    exchange, work = make(pipeline, context)
    exchange.abandon()
    work.on_reply(REPLY)
    assert not pipeline.sent


def test_a_client_that_leaves_cancels_what_is_not_answered() -> None:
    exchange, work = make(Pipeline())
    exchange.abandon()
    assert work.cancelled


def test_a_client_that_leaves_after_its_reply_cancels_nothing() -> None:
    exchange, work = make(Pipeline())
    work.on_reply(REPLY)
    exchange.abandon()
    assert not work.cancelled


@pytest.mark.parametrize("last", [("Connection: close",), ()], ids=["one request", "several"])
async def test_a_closed_connection_leaves_no_garbage(last: tuple[str, ...]) -> None:
    first = Client()
    first.send(post("/echo", b"1", *last))  # from now on the head is known
    first.hang_up()
    gc.collect()
    gc.disable()
    try:
        connection = Connection(first.service)
        transport = FakeTransport(asyncio.get_running_loop())
        transport.protocol = connection
        connection.connection_made(transport)
        connection.data_received(post("/echo", b"2", *last))
        assert b"2" in transport.sent
        await settle()
        if not last:
            connection.connection_lost(None)
        transport.protocol = None
        left = weakref.ref(connection)
        del connection, transport
        assert left() is None
    finally:
        gc.enable()


CHUNKED = request("POST", "/hold", "Transfer-Encoding: chunked") + b"1\r\nx\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [b"", post("/echo", b"x"), post("/hold", b"x"), post("/hold") * 9, CHUNKED, CHUNKED[:-5], post("/app", b"x")],
    ids=["nothing", "answered", "waiting", "pipelined", "chunked", "incomplete", "application"],
)  # fmt: skip
async def test_a_connection_that_has_ended_is_freed_by_reference_counts(sent: bytes) -> None:
    gc.disable()
    try:
        client = Client()
        if sent:
            client.send(sent)
        await settle()
        client.hang_up()
        await settle()
        left = weakref.ref(client.connection)
        client.transport.protocol = None  # as a transport that is closed
        client.routes.held.clear()
        del client
        assert left() is None
    finally:
        gc.enable()
