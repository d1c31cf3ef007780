import pytest

from naiad.core.datatypes import FP32
from naiad.core.inference import RequestContext
from naiad.core.request import LATEST
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.engine.api import ModelTraits, TensorMetadata
from naiad.errors import InferenceError, not_found, unavailable
from naiad.protocol.http.generate import GenerateRoute
from naiad.protocol.http.inference import InferenceLimits
from naiad.protocol.http.message import HttpReply, HttpRequest
from tests.server.protocol.http.scripted_engine import (
    Replies,
    ScriptedEngine,
    error_of,
    failure,
    json_of,
    tensor,
)

BODY = b'{"INPUT0": [1, 2, 3, 4], "id": "r"}'
WRONG_COUNT = "generate expects model to produce exactly 1 response, use generate stream"


class Client:
    """Sends requests to one route."""

    def __init__(
        self, engine: ScriptedEngine, *, streams: bool = False, model: str = "m", limit: int = 1000
    ) -> None:
        self.engine = engine
        limits = InferenceLimits(max_input_size=limit, forwarded=None)
        self.route = GenerateRoute(engine, limits, model=model, version=LATEST, streams=streams)
        self.replies = Replies()

    def send(self, body: bytes = BODY, **headers: bytes) -> object:
        named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
        return self.route(HttpRequest(b"POST", "/", named, body), self.replies)

    def answer(self, *responses: InferResponse) -> HttpReply:
        """The reply to a request that is answered so."""
        self.send()
        for response in responses:
            self.engine.callbacks[-1](response)
        return self.replies.only


@pytest.mark.parametrize("streams", [False, True])
def test_the_engine_adds_the_inference_to_the_context(*, streams: bool) -> None:
    client = Client(ScriptedEngine(), streams=streams)
    context = RequestContext(1)
    client.route(HttpRequest(b"POST", "/", {}, BODY, context), client.replies)
    assert context.inference is client.engine.inferences[0]


def part(
    number: float = 1,
    *,
    final: bool = False,
    empty: bool = False,
    error: InferenceError | None = None,
) -> InferResponse:
    outputs = NO_OUTPUTS if empty or error else [tensor("OUT", FP32, [number])]
    return InferResponse("m", 1, "r", outputs, NO_PARAMETERS, error, final, empty)


END = part(final=True, empty=True)


@pytest.mark.parametrize("answers", [(part(5, final=True),), (part(5), END)], ids=["one", "end"])
def test_one_answer_is_the_reply(answers: tuple[InferResponse, ...]) -> None:
    client = Client(ScriptedEngine())
    reply = client.answer(*answers)
    assert (reply.status, reply.request_id) == (200, "r")
    assert json_of(reply) == {"OUT": 5.0, "id": "r", "model_name": "m", "model_version": "1"}
    request = client.engine.request
    assert (request.id, request.model_version) == ("r", LATEST)
    assert request.inputs[0].shape == (1, 4)


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ((END,), 200),
        ((part(), part(), END), 200),
        ((part(), part(error=not_found("x")), END), 200),
        ((part(error=not_found("x")), part(final=True)), 404),
    ],
    ids=["none", "two", "then an error", "an error first"],
)
def test_none_or_several_are_an_error_with_the_status_of_the_first(
    answers: tuple[InferResponse, ...], status: int
) -> None:
    reply = Client(ScriptedEngine()).answer(*answers)
    assert reply.status == status
    assert WRONG_COUNT in error_of(reply)


def test_a_worker_that_dies_after_an_answer_is_what_the_client_hears() -> None:
    reply = Client(ScriptedEngine()).answer(part(), part(error=unavailable("it died"), final=True))
    assert (reply.status, error_of(reply)) == (503, "it died")


def test_the_only_answer_may_be_an_error_which_keeps_its_status() -> None:
    reply = Client(ScriptedEngine()).answer(part(error=not_found("no"), final=True))
    assert (reply.status, error_of(reply)) == (404, "no")


def test_an_answer_that_cannot_be_written_is_the_error() -> None:
    wrong = InferResponse("m", 1, "r", [object()], NO_PARAMETERS)  # type: ignore[list-item] # a bug
    reply = Client(ScriptedEngine()).answer(wrong)
    assert reply.status == 500


@pytest.mark.parametrize("streams", [False, True])
def test_what_is_refused_before_it_runs_is_json_with_a_status(*, streams: bool) -> None:
    def refused(engine: ScriptedEngine, body: bytes = BODY, **more: bytes) -> HttpReply:
        client = Client(engine, streams=streams)
        assert client.send(body, **more) is None
        return client.replies.only

    engine = ScriptedEngine()
    assert refused(engine, b"").status == 500
    assert refused(engine, b'{"INPUT0": {}, "x": []}').status in (400, 500)
    packed = refused(engine, content_encoding=b"gzip")
    assert packed.status == 400
    assert "Unsupported content-encoding, only 'identity'" in error_of(packed)
    assert engine.requests == []
    engine.answer = failure(not_found("validated"), request_id="r")
    assert error_of(refused(engine)) == "validated"
    client = Client(engine, streams=streams, model="nope")
    client.send()
    assert client.replies.only.status == 404


def test_identity_is_an_encoding_that_is_taken() -> None:
    client = Client(ScriptedEngine())
    client.send(content_encoding=b"identity")
    assert len(client.engine.requests) == 1


def test_a_stream_replies_with_its_first_answer() -> None:
    client = Client(ScriptedEngine(), streams=True)
    handle = client.send()
    assert client.replies.all == []
    client.engine.callbacks[0](part(1))
    assert client.replies.only.stream is handle


def test_the_handle_cancels() -> None:
    for streams in (False, True):
        client = Client(ScriptedEngine(), streams=streams)
        handle = client.send()
        assert handle is not None
        handle.cancel()  # type: ignore[attr-defined] # it is Cancellable
        assert client.engine.inferences[0].cancelled


def test_a_decoupled_model_cannot_outrun_the_server_although_only_one_answer_is_kept() -> None:
    for decoupled in (True, False):
        client = Client(
            ScriptedEngine(ModelTraits(decoupled=decoupled, max_batch_size=0, inputs=()))
        )
        client.send(b"{}")
        assert (client.engine.inferences[0].flow is not None) is decoupled


def test_a_model_that_was_loaded_again_is_read_by_its_new_traits() -> None:
    engine = ScriptedEngine()
    client = Client(engine)
    client.send()
    inputs = (TensorMetadata(name="OTHER", datatype=FP32, shape=(2,)),)
    engine.traits = ModelTraits(decoupled=True, max_batch_size=0, inputs=inputs)
    client.send(b'{"OTHER": [1, 2]}')
    assert engine.requests[-1].inputs[0].shape == (2,)


def test_a_bug_is_a_500_and_affects_no_other_request(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine()
    monkeypatch.setattr(engine, "infer", lambda *_: 1 / 0)
    client = Client(engine)
    client.send()
    assert client.replies.only.status == 500
