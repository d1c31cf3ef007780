import logging

import pytest
from typing_extensions import override

from naiad.core.request import LATEST
from naiad.errors import ErrorCode, InferenceError, unavailable
from naiad.protocol.http.health import HealthRoutes
from naiad.protocol.http.message import HttpReply, HttpRequest
from naiad.protocol.http.routes import HttpOptions, Routes
from naiad.protocol.restricted import Category, Restriction
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


DETAILS = (
    "Request for unknown model: 'a; b' is not found; models that are ready: secret",
    "Request for unknown model: 'a; b' version 7 is not found; versions that are ready: 1, 2",
    "Request for unknown model: 'a; b' has no available versions: version 1 is UNAVAILABLE (secret)",
    "Request for unknown model: 'a; b' version 7 is not at ready state: it is UNAVAILABLE (secret)",
)


class Unready(ScriptedEngine):
    """No model of it is ready, and it says why."""

    def __init__(self, message: str) -> None:
        super().__init__()
        self._message = message

    @override
    async def model_ready(self, name: str, version: int = LATEST) -> bool:
        raise InferenceError(ErrorCode.NOT_FOUND, self._message)


@pytest.mark.parametrize("message", DETAILS)
async def test_readiness_names_no_models_where_calls_that_list_them_need_more(message: str) -> None:
    engine = Unready(message)
    told = {}
    for names_models in (True, False):
        replies = Replies()
        health = HealthRoutes(engine, names_models=names_models)
        health.model_ready("a; b", 7, REQUEST, replies)
        told[names_models] = error_of(await replies.arrived())
    assert told[True] == message
    assert told[False] in message
    assert told[False].startswith("Request for unknown model: 'a; b' ")
    assert told[False].endswith(("found", "versions", "ready state"))


async def test_a_token_or_any_restriction_keeps_the_names() -> None:
    engine = Unready(DETAILS[0])
    restriction = {Category.MODEL_REPOSITORY: Restriction(header="k", value="v")}
    for options in (HttpOptions(), HttpOptions(restrictions=restriction)):
        handler = Routes(engine, options).find(b"GET", "/v2/models/a; b/ready", {})
        assert handler is not None
        replies = Replies()
        handler(REQUEST, replies)
        assert ("secret" in error_of(await replies.arrived())) is not bool(options.restrictions)
