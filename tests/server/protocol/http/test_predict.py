"""The routes of KServe's v1: what they ask the engine, and the reply to each way a request can go."""

import gzip

import msgspec
import pytest
from typing_extensions import override

from naiad.core.datatypes import FP32
from naiad.core.inference import RequestContext
from naiad.core.request import LATEST
from naiad.engine.api import ModelTraits
from naiad.errors import InferenceError, internal, invalid, not_found, unavailable
from naiad.protocol.header_pattern import compiled
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
