import asyncio
import gzip
import logging
import types
import typing
import zlib

import numpy as np
import orjson
import pytest
from typing_extensions import override

from naiad.core.datatypes import BYTES, FP16, FP32
from naiad.core.inference import OnResponse, RequestContext
from naiad.core.request import LATEST, InferRequest
from naiad.engine.api import ModelTraits
from naiad.errors import ErrorCode, FailureReason, InferenceError, unavailable
from naiad.protocol.header_pattern import compiled
from naiad.protocol.http.codec import compression
from naiad.protocol.http.inference import InferenceLimits, InferRoute, header_length_of
from naiad.protocol.http.message import HttpReply, HttpRequest
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

BODY = b'{"id":"r","inputs":[{"name":"INPUT0","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}'
LIMIT = 10_000_000
ANSWER = response(tensor("OUT", FP32, [1, 2]), request_id="r")


class Client:
    """Sends requests to one route of a scripted engine."""

    def __init__(
        self, engine: ScriptedEngine, *, model: str = "m", limit: int = LIMIT, pattern: str = ""
    ) -> None:
        forwarded = compiled(pattern, option="--p")
        limits = InferenceLimits(max_input_size=limit, forwarded=forwarded)
        self.route = InferRoute(engine, limits, model=model, version=LATEST)
        self.replies = Replies()

    def send(self, body: bytes = BODY, **headers: bytes | str) -> HttpReply:
        """Send a request that is answered at once."""
        self.begin(body, **headers)
        return self.replies.only

    def begin(self, body: bytes = BODY, **headers: bytes | str) -> object:
        """Send a request; header names are written with underscores."""
        named = {
            name.replace("_", "-").encode(): value if isinstance(value, bytes) else value.encode()
            for name, value in headers.items()
        }
        path = "/v2/models/m/infer"
        return self.route(HttpRequest(b"POST", path, named, body), self.replies)

    async def answered(self) -> HttpReply:
        """The reply, once it is there."""
        return await self.replies.arrived()


def ready() -> ScriptedEngine:
    engine = ScriptedEngine()
    engine.answer = ANSWER
    return engine


def test_a_request_is_answered_before_the_call_returns_when_the_engine_does() -> None:
    engine = ready()
    reply = Client(engine).send()
    assert reply.status == 200
    assert json_of(reply)["outputs"][0]["data"] == [1.0, 2.0]
    assert reply.request_id == "r"
    assert engine.request.inputs[0].array.tolist() == [[1, 2, 3, 4]]
    assert engine.request.model_version == LATEST


def test_the_handle_of_an_inference_cancels_it() -> None:
    engine = ScriptedEngine()
    client = Client(engine)
    handle = client.begin()
    assert handle is engine.inferences[0]
    assert client.replies.all == []
    engine.callbacks[0](ANSWER)
    assert client.replies.only.status == 200


def test_an_error_of_the_engine_is_answered_with_its_status_and_the_requests_id() -> None:
    engine = ScriptedEngine()
    full = unavailable("Exceeds maximum queue size", reason=FailureReason.REJECTED)
    engine.answer = failure(full, request_id="r")
    reply = Client(engine).send()
    assert (reply.status, error_of(reply)) == (503, "Exceeds maximum queue size")
    assert reply.request_id == "r"


def test_an_unknown_model_is_reported_before_the_body_is_read() -> None:
    reply = Client(ScriptedEngine(), model="nope").send(b"{", content_encoding="br")
    assert reply.status == 404
    assert error_of(reply) == "Request for unknown model: 'nope' is not found"


def test_a_decoupled_model_is_reported_before_the_body_is_read() -> None:
    shape = ModelTraits(decoupled=True, max_batch_size=0, inputs=())
    reply = Client(ScriptedEngine(shape)).send(b"{", content_encoding="br")
    assert reply.status == 501
    assert "HTTP end point doesn't support models with decoupled transaction policy" in error_of(
        reply
    )


DECOUPLED = ModelTraits(decoupled=True, max_batch_size=8, inputs=PLAIN.inputs)


@pytest.mark.parametrize("traits", [PLAIN, DECOUPLED])
def test_the_engine_adds_the_inference_to_the_context(traits: ModelTraits) -> None:
    engine = ScriptedEngine(traits)
    context = RequestContext(1)
    headers = {b"accept": b"text/event-stream"}
    request = HttpRequest(b"POST", "/v2/models/m/infer", headers, BODY, context)
    Client(engine).route(request, Replies())
    assert context.inference is engine.inferences[0]


def test_a_decoupled_model_answers_as_events_when_the_client_takes_them() -> None:
    engine = ScriptedEngine(DECOUPLED)
    client = Client(engine)
    handle = client.begin(accept="text/event-stream")
    engine.callbacks[0](ANSWER)
    reply = client.replies.only
    assert (reply.status, reply.request_id) == (200, "r")
    assert dict(reply.headers)[b"Content-Type"] == b"text/event-stream; charset=utf-8"
    assert reply.stream is handle
    body: list[bytes] = []

    class BodyWriter:
        def write(self, data: bytes | memoryview) -> None:
            body.append(bytes(data))

        def end(self) -> None: ...

        def cut(self) -> None: ...

    assert reply.stream is not None
    reply.stream.begin(BodyWriter())
    event = orjson.loads(b"".join(body).removeprefix(b"data: "))
    assert event["outputs"] == [{"name": "OUT", "datatype": "FP32", "shape": [2], "data": [1, 2]}]


def test_binary_outputs_do_not_fit_into_events() -> None:
    for asked in (
        b'"parameters":{"binary_data_output":true},',
        b'"outputs":[{"name":"OUT","parameters":{"binary_data":true}}],',
    ):
        engine = ScriptedEngine(DECOUPLED)
        body = BODY.replace(b'"inputs"', asked + b'"inputs"')
        reply = Client(engine).send(body, accept="text/event-stream")
        assert reply.status == 400
        assert "events, which carry JSON only" in error_of(reply)
        assert engine.requests == []


def test_an_ordinary_model_answers_as_ever_to_a_client_that_takes_events() -> None:
    assert json_of(Client(ready()).send(accept="text/event-stream"))["outputs"]


def test_malformed_json_is_500_and_a_wrong_value_400() -> None:
    assert Client(ready()).send(b"{").status == 500
    assert Client(ready()).send(b'{"inputs":[{}]}').status == 400


def test_binary_input_and_output() -> None:
    header = (
        b'{"inputs":[{"name":"INPUT0","shape":[1,4],"datatype":"FP32","parameters":{"binary_data_size":16}}],'
        b'"outputs":[{"name":"OUT","parameters":{"binary_data":true}}]}'
    )
    values = np.arange(4, dtype=np.float32).tobytes()
    engine = ready()
    reply = Client(engine).send(header + values, inference_header_content_length=str(len(header)))
    assert engine.request.inputs[0].array.tolist() == [[0, 1, 2, 3]]
    length = int(header_of(reply, b"Inference-Header-Content-Length") or b"")
    assert body_of(reply)[length:] == np.array([1, 2], np.float32).tobytes()
    assert header_of(reply, b"Content-Type") == b"application/octet-stream"


@pytest.mark.parametrize("headers", [{"inference_header_content_length": "0"}, {}])
def test_a_header_length_of_zero_and_an_empty_body_are_raw_mode(headers: dict[str, str]) -> None:
    engine = ready()
    body = bytes(16) if headers else b""
    reply = Client(engine).send(body, **headers)
    (only,) = engine.request.inputs
    assert (only.name, only.shape) == ("INPUT0", (1, 4))
    assert (only.fault is None) is bool(headers)
    assert header_of(reply, b"Content-Type") == b"application/octet-stream"


@pytest.mark.parametrize(
    ("said", "fragment"),
    [
        (b"x", "Unable to parse Inference-Header-Content-Length, got: x"),
        (b"", "Unable to parse Inference-Header-Content-Length, got: "),
        (b"1.5", "Unable to parse"),
        (b"+9", "Unable to parse Inference-Header-Content-Length, got: +9"),
        (b"6_9", "Unable to parse Inference-Header-Content-Length, got: 6_9"),
        (b"9 9", "Unable to parse"),
        (b"\xd9\xa3", "Unable to parse"),
        (b"9" * 5000, "Unable to parse"),
        (b"2147483648", "value is out of range"),
        (b"-1", "inference header size should be in range (0, 10), got: -1"),
        (b"11", "inference header size should be in range (0, 10), got: 11"),
    ],
)
def test_a_header_length_that_makes_no_sense_is_400(said: bytes, fragment: str) -> None:
    with pytest.raises(InferenceError) as caught:
        header_length_of(said, 10)
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert fragment in caught.value.message
    assert Client(ready()).send(bytes(10), inference_header_content_length=said).status == 400


def test_the_length_of_the_whole_body_is_a_header_length_too() -> None:
    assert [header_length_of(said, 10) for said in (b"0", b"7", b"10")] == [0, 7, 10]


@pytest.mark.parametrize("packed", [gzip.compress(BODY), zlib.compress(BODY)], ids=["gzip", "zlib"])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_small_compressed_body_is_read_at_once(packed: bytes, encoding: str) -> None:
    engine = ready()
    assert Client(engine).send(packed, content_encoding=encoding).status == 200
    assert engine.request.id == "r"


def test_identity_means_no_compression() -> None:
    assert Client(ready()).send(content_encoding="identity").status == 200


def test_an_unknown_compression_is_501_and_told_what_is_known() -> None:
    reply = Client(ready()).send(content_encoding="br")
    assert reply.status == 501
    assert "Unsupported compression type" in error_of(reply)
    assert header_of(reply, b"Accept-Encoding") == b"gzip, deflate"


def test_a_small_bomb_is_400() -> None:
    reply = Client(ready(), limit=1000).send(gzip.compress(bytes(100_000)), content_encoding="gzip")
    assert reply.status == 400
    assert "exceeds the maximum allowed value of 1000 bytes" in error_of(reply)


def large_body() -> bytes:
    """Its compressed form is too large to be unpacked on the loop."""
    data = np.random.default_rng(0).random(2000).tolist()
    entry = {"name": "INPUT0", "shape": [2000], "datatype": "FP64", "data": data}
    packed = gzip.compress(orjson.dumps({"inputs": [entry]}))
    assert len(packed) > compression.UNPACKED_HERE
    return packed


async def test_a_large_compressed_body_is_read_without_holding_up_the_loop() -> None:
    engine = ready()
    client = Client(engine)
    client.begin(large_body(), content_encoding="gzip")
    assert client.replies.all == []
    assert (await client.answered()).status == 200
    assert engine.request.inputs[0].shape == (2000,)


async def test_a_large_compressed_body_that_is_not_a_request_is_answered() -> None:
    client = Client(ready())
    client.begin(large_body()[:-9], content_encoding="gzip")
    assert "ends too early" in error_of(await client.answered())
    client = Client(ready())
    noise = np.random.default_rng(0).bytes(9000)
    client.begin(gzip.compress(noise), content_encoding="gzip")
    assert (await client.answered()).status == 500


async def test_a_client_that_leaves_while_its_body_is_unpacked_is_not_inferred() -> None:
    engine = ready()
    client = Client(engine)
    handle = client.begin(large_body(), content_encoding="gzip")
    handle.cancel()  # type: ignore[attr-defined]  # begin's result is opaque on purpose
    await asyncio.get_running_loop().shutdown_default_executor()
    await asyncio.sleep(0)
    assert engine.requests == []
    assert client.replies.all == []


def test_a_reply_is_compressed_as_the_client_prefers() -> None:
    engine = ScriptedEngine()
    engine.answer = response(tensor("OUT", FP32, [1] * 1000))
    reply = Client(engine).send(accept_encoding="deflate;q=0.5, gzip")
    assert header_of(reply, b"Content-Encoding") == b"gzip"
    assert orjson.loads(gzip.decompress(body_of(reply)))["model_name"] == "m"


async def test_a_large_reply_is_compressed_without_holding_up_the_loop() -> None:
    engine = ScriptedEngine()
    engine.answer = response(tensor("OUT", BYTES, [b"x" * 100_000]))
    client = Client(engine)
    client.begin(accept_encoding="gzip")
    assert client.replies.all == []
    reply = await client.answered()
    assert len(gzip.decompress(body_of(reply))) > 100_000


def test_errors_and_replies_that_would_grow_are_not_compressed() -> None:
    assert (
        header_of(Client(ready()).send(b"{", accept_encoding="gzip"), b"Content-Encoding") is None
    )
    engine = ScriptedEngine()
    engine.answer = response()
    assert header_of(Client(engine).send(accept_encoding="gzip"), b"Content-Encoding") is None


def test_headers_are_forwarded_when_a_pattern_finds_them() -> None:
    engine = ready()
    Client(engine, pattern="^my-").send(my_user="ann", other="x")
    assert engine.request.parameters == {"my-user": "ann"}


def test_a_reserved_header_that_would_be_forwarded_is_400() -> None:
    reply = Client(ready(), pattern=".").send(priority="1")
    assert reply.status == 400
    assert "is reserved for Triton usage and cannot be forwarded" in error_of(reply)


def test_an_output_that_cannot_be_written_is_the_requests_own_error() -> None:
    engine = ScriptedEngine()
    engine.answer = response(tensor("OUT", FP16, [1.0]), request_id="r")
    reply = Client(engine).send()
    assert reply.status == 400
    assert "sending FP16 data via JSON is not supported" in error_of(reply)
    assert reply.request_id == "r"


def test_a_bug_costs_one_request_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    engine = ScriptedEngine()
    engine.answer = response(tensor("OUT", BYTES, ["not bytes"]))
    with caplog.at_level(logging.ERROR):
        reply = Client(engine).send()
    assert reply.status == 500
    assert "it is not the request's fault" in error_of(reply)
    assert "could not be written" in caplog.text
    engine.look_up = None  # type: ignore[assignment,method-assign]  # an engine that breaks
    with caplog.at_level(logging.ERROR):
        reply = Client(engine).send()
    assert reply.status == 500
    assert "could not be answered" in caplog.text


class EngineOfVersions(ScriptedEngine):
    """Finds a version that runs requests itself, and keeps them in `run`."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = ANSWER
        self.run: list[InferRequest] = []

    @override
    def look_up(self, name: str, version: int = LATEST) -> typing.Any:
        def infer(request: InferRequest, on_response: OnResponse, *_: object) -> None:
            self.run.append(request)
            on_response(ANSWER)

        return types.SimpleNamespace(traits=PLAIN, infer=infer, replies=None)


@pytest.mark.parametrize("body", [BODY, gzip.compress(BODY)], ids=["plain", "gzip"])
def test_the_version_that_was_looked_up_runs_the_request(body: bytes) -> None:
    engine = EngineOfVersions()
    headers = {} if body is BODY else {"content_encoding": b"gzip"}
    assert Client(engine).send(body, **headers).status == 200
    assert [request.id for request in engine.run] == ["r"]
    assert not engine.requests


async def test_after_work_elsewhere_the_model_is_looked_up_again() -> None:
    engine = EngineOfVersions()
    client = Client(engine)
    client.begin(gzip.compress(BODY + b" " * 100_000, 0), content_encoding=b"gzip")
    assert (await client.answered()).status == 200
    assert [request.id for request in engine.requests] == ["r"]
    assert not engine.run
