"""The routes of KServe's v1: what they ask the engine, and the reply to each way a request can go."""

import gzip
import json

import msgspec
import pytest
from typing_extensions import override

from naiad.core.clock import ManualClock
from naiad.core.datatypes import FP32
from naiad.core.inference import RequestContext
from naiad.core.request import LATEST
from naiad.engine.api import ModelTraits
from naiad.errors import InferenceError, internal, invalid, not_found, unavailable
from naiad.protocol.header_pattern import compiled
from naiad.protocol.http.codec.cloud_events import Mode, event_of
from naiad.protocol.http.inference import InferenceLimits
from naiad.protocol.http.message import HttpReply, HttpRequest
from naiad.protocol.http.predict import PredictRoute
from naiad.protocol.http.routes import HttpOptions, Routes
from naiad.protocol.restricted import Category, Restriction
from tests.server.protocol.http.scripted_engine import (
    PLAIN,
    Replies,
    ScriptedEngine,
    body_of,
    error_of,
    failure,
    header_of,
    json_of,
    response,
    tensor,
)

BODY = b'{"instances": [[1, 2, 3, 4]]}'
DECOUPLED = ModelTraits(decoupled=True, max_batch_size=8, inputs=PLAIN.inputs)


class Explained(ScriptedEngine):
    """A model with an explainer; both have the same inputs."""

    def __init__(self, explainer: str = "why") -> None:
        super().__init__(msgspec.structs.replace(PLAIN, explainer=explainer))
        self.asked_for: list[str] = []

    @override
    def find(self, name: str, version: int) -> None:
        self.asked_for.append(name)
        if name != "why":
            super().find(name, version)


class Client:
    """Sends requests to one route."""

    def __init__(
        self,
        engine: ScriptedEngine,
        *,
        model: str = "m",
        explains: bool = False,
        limit: int = 1000,
        forwards: str = "",
    ) -> None:
        self.engine = engine
        pattern = compiled(forwards, option="--http-header-forward-pattern")
        limits = InferenceLimits(max_input_size=limit, forwarded=pattern)
        self.route = PredictRoute(engine, limits, model=model, version=LATEST, explains=explains)
        self.replies = Replies()

    def send(self, body: bytes = BODY, **headers: bytes) -> object:
        named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
        return self.route(HttpRequest(b"POST", "/", named, body), self.replies)


def test_a_prediction_is_the_reply() -> None:
    engine = ScriptedEngine()
    client = Client(engine)
    client.send(x_request_id=b"abc")
    request = engine.request
    assert (request.model_name, request.model_version, request.id) == ("m", LATEST, "abc")
    assert request.inputs[0].shape == (1, 4)
    engine.callbacks[0](response(tensor("OUT", FP32, [5]), request_id="abc"))
    reply = client.replies.only
    assert (reply.status, reply.request_id, json_of(reply)) == (200, "abc", {"predictions": [5]})
    assert header_of(reply, b"Content-Type") == b"application/json"


@pytest.mark.parametrize(
    ("error", "status"),
    [(invalid("no"), 400), (not_found("no"), 404), (internal("no"), 500), (unavailable("no"), 503)],
)
def test_a_failure_has_the_status_of_its_code(error: InferenceError, status: int) -> None:
    engine = ScriptedEngine()
    client = Client(engine)
    client.send()
    engine.callbacks[0](failure(error))
    assert (client.replies.only.status, error_of(client.replies.only)) == (status, "no")


def test_a_body_that_cannot_be_read_is_400_and_asks_nothing() -> None:
    engine = ScriptedEngine()
    client = Client(engine)
    client.send(b"hello")
    assert client.replies.only.status == 400
    assert engine.requests == []


def test_an_unknown_model_is_404_before_its_body_is_read() -> None:
    client = Client(ScriptedEngine(), model="nope")
    client.send(b"hello")
    assert client.replies.only.status == 404
    refused = client.route.refusal({})
    assert refused is not None
    assert error_of(refused) == error_of(client.replies.only)


def test_a_decoupled_model_is_501_with_the_path_to_use() -> None:
    client = Client(ScriptedEngine(DECOUPLED))
    client.send()
    assert client.replies.only.status == 501
    assert "/v2/models/m/generate_stream" in error_of(client.replies.only)


def test_an_explanation_comes_from_the_model_that_the_config_names() -> None:
    engine = Explained()
    client = Client(engine, explains=True)
    client.send()
    assert engine.asked_for[:2] == ["m", "why"]
    assert engine.request.model_name == "why"
    engine.callbacks[0](response(tensor("OUT", FP32, [5])))
    assert json_of(client.replies.only) == {"explanations": [5]}


def test_a_model_without_an_explainer_is_501() -> None:
    client = Client(Explained(explainer=""), explains=True)
    client.send()
    assert client.replies.only.status == 501
    assert "naiad.explainer" in error_of(client.replies.only)


def test_an_explainer_that_is_not_there_is_named_with_its_model() -> None:
    client = Client(Explained(explainer="gone"), explains=True)
    client.send()
    assert client.replies.only.status == 404
    assert error_of(client.replies.only).startswith("the explainer of model 'm': ")


def test_the_context_knows_the_inference() -> None:
    engine = ScriptedEngine()
    client = Client(engine)
    context = RequestContext(1)
    client.route(HttpRequest(b"POST", "/", {}, BODY, context), client.replies)
    assert context.inference is engine.inferences[0]


def test_a_client_that_goes_cancels_its_inference() -> None:
    engine = ScriptedEngine()
    client = Client(engine)
    assert client.send() is engine.inferences[0]


def test_forwarded_headers_are_parameters() -> None:
    engine = ScriptedEngine()
    Client(engine, forwards="x-.*").send(x_tenant=b"blue")
    assert engine.request.parameters == {"x-tenant": "blue"}


def test_bodies_are_compressed_both_ways() -> None:
    engine = ScriptedEngine()
    engine.answer = response(tensor("OUT", FP32, range(40)))
    client = Client(engine)
    client.send(gzip.compress(BODY), content_encoding=b"gzip", accept_encoding=b"gzip")
    reply = client.replies.only
    assert header_of(reply, b"Content-Encoding") == b"gzip"
    assert gzip.decompress(body_of(reply)).startswith(b'{"predictions":[0.0,1.0,')


def test_a_body_that_grows_beyond_the_limit_is_refused() -> None:
    client = Client(ScriptedEngine(), limit=1000)
    client.send(gzip.compress(BODY + b" " * 1000), content_encoding=b"gzip")
    assert client.replies.only.status == 400
    assert "1000" in error_of(client.replies.only)


def test_another_compression_is_refused_before_the_body() -> None:
    client = Client(ScriptedEngine())
    client.send(content_encoding=b"br")
    refused = client.route.refusal({b"content-encoding": b"br"})
    assert refused is not None
    assert error_of(refused) == error_of(client.replies.only)
    assert client.replies.only.status == 501


def test_outputs_without_rows_are_an_error_that_says_what_to_send() -> None:
    engine = ScriptedEngine()
    engine.answer = response(tensor("A", FP32, [1, 2]), tensor("B", FP32, [1]), request_id="r")
    client = Client(engine)
    client.send()
    assert (client.replies.only.status, client.replies.only.request_id) == (400, "r")
    assert "send the tensors in 'inputs'" in error_of(client.replies.only)


async def asked(
    path: str, engine: ScriptedEngine, *, method: bytes = b"GET", options: HttpOptions | None = None
) -> HttpReply:
    replies = Replies()
    handler = Routes(engine, options or HttpOptions()).find(method, path, {})
    assert handler is not None
    handler(HttpRequest(method, path, {}, b""), replies)
    return await replies.arrived()


async def test_the_models_that_are_ready_are_listed() -> None:
    reply = await asked("/v1/models", ScriptedEngine())
    assert (reply.status, json_of(reply)) == (200, {"models": ["m"]})


@pytest.mark.parametrize("path", ["/v1/models/m", "/v1/models/m/versions/1"])
async def test_a_model_says_that_it_is_ready(path: str) -> None:
    reply = await asked(path, ScriptedEngine())
    assert (reply.status, json_of(reply)) == (200, {"name": "m", "ready": True})


async def test_an_unknown_model_is_404_and_one_that_is_not_ready_503() -> None:
    engine = ScriptedEngine()
    assert (await asked("/v1/models/nope", engine)).status == 404
    engine.ready = False
    assert (await asked("/v1/models/m", engine)).status == 503


async def test_a_verb_is_not_part_of_the_name() -> None:
    reply = await asked("/v1/models/m:predict", ScriptedEngine())
    assert (reply.status, header_of(reply, b"Allow")) == (405, b"OPTIONS, POST")


async def test_the_paths_are_restricted_as_those_of_v2() -> None:
    header = Restriction(header="key", value="hush")
    for category, path in (
        (Category.INFERENCE, "/v1/models/m:predict"),
        (Category.INFERENCE, "/v1/models/m:explain"),
        (Category.MODEL_REPOSITORY, "/v1/models"),
        (Category.HEALTH, "/v1/models/m"),
    ):
        options = HttpOptions(restrictions={category: header})
        method = b"POST" if ":" in path else b"GET"
        reply = await asked(path, ScriptedEngine(), method=method, options=options)
        assert reply.status == 403, path


def test_without_the_option_there_are_no_paths() -> None:
    routes = Routes(ScriptedEngine(), HttpOptions(kserve_v1=False))
    for path in ("/v1/models", "/v1/models/m", "/v1/models/m:predict", "/v1/models/m:explain"):
        assert routes.find(b"GET", path, {}) is None


def test_bodies_are_limited_as_those_of_infer() -> None:
    routes = Routes(
        ScriptedEngine(), HttpOptions(max_input_size=100_000, base_path="/api/v1/models")
    )
    assert routes.body_limit("/v1/models/m:predict", {}) == 100_000
    assert routes.body_limit("/v1/models/m:predict", {b"content-encoding": b"gzip"}) > 100_000
    assert routes.body_limit("/v1/models/m", {}) == 65_536
    assert routes.body_limit("/api/v1/models/v2/models/m/infer", {}) == 100_000
    assert "request JSON size of 5 bytes" in routes.too_large("/v1/models/m:predict", {}, 5)


EVENT = {b"ce-id": b"1", b"ce-source": b"tests", b"ce-type": b"ask", b"ce-specversion": b"1.0"}
STRUCTURED = (
    b'{"id": "1", "source": "tests", "type": "ask", "specversion": "1.0", "data": %s}' % BODY
)


def answered(
    headers: dict[bytes, bytes], body: bytes = BODY, *, explains: bool = False
) -> HttpReply:
    """The reply to an event, if it is one."""
    engine = Explained()
    limits = InferenceLimits(max_input_size=1000, forwarded=None)
    route = PredictRoute(engine, limits, model="m", explains=explains, clock=ManualClock())
    replies = Replies()
    route(HttpRequest(b"POST", "/", headers, body), replies)
    if engine.callbacks:
        engine.callbacks[0](response(tensor("OUT", FP32, [5])))
    return replies.only


def test_a_binary_event_has_a_binary_event_as_its_response() -> None:
    reply = answered(EVENT)
    assert (reply.status, json_of(reply)) == (200, {"predictions": [5]})
    named = dict(reply.headers)
    assert named.pop(b"ce-id") != named.get(b"ce-id")
    assert named == {
        b"Content-Type": b"application/json",
        b"ce-specversion": b"1.0",
        b"ce-source": b"io.kserve.inference.m",
        b"ce-type": b"io.kserve.inference.response",
        b"ce-time": b"2023-11-14T22:13:20+00:00",
    }
    ids = {dict(answered(EVENT).headers)[b"ce-id"] for _ in range(3)}
    assert len(ids) == 3
    older = answered({**EVENT, b"ce-specversion": b"0.3"})
    assert dict(older.headers)[b"ce-specversion"] == b"1.0"


@pytest.mark.parametrize("left_out", EVENT)
def test_half_a_binary_event_does_not_count_as_in_kserve(left_out: bytes) -> None:
    reply = answered({name: value for name, value in EVENT.items() if name != left_out})
    assert (reply.status, dict(reply.headers)) == (200, {b"Content-Type": b"application/json"})


@pytest.mark.parametrize(
    "kind",
    [b"application/cloudevents+json", b"Application/CloudEvents+JSON ; charset=utf-8"],
)
@pytest.mark.parametrize("body", [STRUCTURED, BODY])
@pytest.mark.parametrize("more", [{}, EVENT])
def test_a_structured_event_has_a_structured_event_as_its_response(
    kind: bytes, body: bytes, more: dict[bytes, bytes]
) -> None:
    reply = answered({**more, b"content-type": kind}, body)
    assert (reply.status, dict(reply.headers)) == (
        200,
        {b"Content-Type": b"application/cloudevents+json"},
    )
    event = json_of(reply)
    assert event.pop("id")
    assert event == {
        "specversion": "1.0",
        "source": "io.kserve.inference.m",
        "type": "io.kserve.inference.response",
        "time": "2023-11-14T22:13:20+00:00",
        "data": {"predictions": [5]},
    }


def test_the_data_of_an_event_that_comes_as_json_is_read_and_its_response_is_plain() -> None:
    for kind in ({}, {b"content-type": b"application/json"}):
        reply = answered(kind, STRUCTURED)
        assert (reply.status, json_of(reply)) == (200, {"predictions": [5]})


def test_an_event_that_cannot_be_read_has_an_ordinary_error() -> None:
    reply = answered({**EVENT, b"ce-specversion": b"2.0"})
    assert reply.status == 400
    assert error_of(reply).startswith("the header ce-specversion is '2.0'")
    for headers in (EVENT, {b"content-type": b"application/cloudevents+json"}):
        reply = answered(headers, b"{")
        assert (reply.status, dict(reply.headers)) == (400, {b"Content-Type": b"application/json"})


def test_the_source_of_an_event_is_what_a_header_can_hold() -> None:
    reply = event_of(HttpReply(200, (), ()), Mode.BINARY, 'a "b" %ä', 0)
    assert dict(reply.headers)[b"ce-source"] == b"io.kserve.inference.a%20%22b%22%20%25%C3%A4"
    reply = answered(EVENT, explains=True)
    assert dict(reply.headers)[b"ce-source"] == b"io.kserve.inference.m"
    assert list(json_of(reply)) == ["explanations"]


def test_a_compressed_event_is_compressed_as_a_whole() -> None:
    headers = {b"content-type": b"application/cloudevents+json", b"accept-encoding": b"gzip"}
    reply = answered(headers)
    assert dict(reply.headers)[b"Content-Encoding"] == b"gzip"
    assert json.loads(gzip.decompress(b"".join(map(bytes, reply.body))))["data"] == {
        "predictions": [5]
    }
