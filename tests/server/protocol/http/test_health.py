import logging

import pytest

from naiad.errors import unavailable
from naiad.protocol.http.message import HttpReply, HttpRequest
from naiad.protocol.http.routes import HealthRoutes
from tests.server.protocol.http.scripted_engine import Replies, ScriptedEngine, error_of

REQUEST = HttpRequest(b"GET", "/", {}, b"")


def live(engine: ScriptedEngine) -> HttpReply:
    replies = Replies()
    HealthRoutes(engine).live(REQUEST, replies)
    return replies.only


async def ready(engine: ScriptedEngine) -> HttpReply:
    replies = Replies()
    HealthRoutes(engine).ready(REQUEST, replies)
    return await replies.arrived()


async def model_ready(engine: ScriptedEngine, model: str) -> HttpReply:
    replies = Replies()
    HealthRoutes(engine).model_ready(model, 7, REQUEST, replies)
    return await replies.arrived()


def test_live_is_200_with_an_empty_body() -> None:
    assert (live(ScriptedEngine()).status, live(ScriptedEngine()).body) == (200, ())


def test_live_at_the_end_of_a_shutdown_is_503() -> None:
    engine = ScriptedEngine()
    engine.live = unavailable("Server exiting")
    assert (live(engine).status, error_of(live(engine))) == (503, "Server exiting")


async def test_ready_is_200_or_400_with_an_empty_body() -> None:
    engine = ScriptedEngine()
    assert await ready(engine) == await ready(engine)
    assert ((await ready(engine)).status, (await ready(engine)).body) == (200, ())
    engine.ready = False
    assert ((await ready(engine)).status, (await ready(engine)).body) == (400, ())


async def test_a_model_is_ready_unknown_or_not_well() -> None:
    engine = ScriptedEngine()
    reply = await model_ready(engine, "m")
    assert (reply.status, reply.body) == (200, ())
    assert engine.asked == [("m", 7)]
    reply = await model_ready(engine, "nope")
    assert (reply.status, error_of(reply)) == (
        404,
        "Request for unknown model: 'nope' is not found",
    )
    engine.ready = False
    reply = await model_ready(engine, "m")
    assert reply.status == 400
    assert error_of(reply).startswith("Model version not ready")


async def test_a_probe_is_answered_when_the_question_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = ScriptedEngine()
    engine.ready = RuntimeError("a bug")
    with caplog.at_level(logging.ERROR):
        reply = await ready(engine)
    assert reply.status == 500
    assert "a bug" in caplog.text
