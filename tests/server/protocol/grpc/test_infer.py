"""ModelInfer between bytes and engine."""

import pytest

from naiad.core.datatypes import FP32
from naiad.core.inference import RequestContext
from naiad.core.messages import service_pb2
from naiad.core.request import InferRequest
from naiad.core.response import NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.protocol.grpc.call import ContextCall
from naiad.protocol.grpc.infer import ModelInfer
from naiad.protocol.header_pattern import compiled
from tests.server.protocol.grpc.scripted_engine import (
    DECOUPLED,
    Answers,
    ScriptedEngine,
    SentMetadata,
    add_input,
    echo,
    failed,
    message,
    small_request,
)


def test_a_request_is_answered_with_its_id_and_values() -> None:
    answers = Answers()
    ModelInfer(ScriptedEngine(), None)(small_request(request_id="7"), SentMetadata(), answers)
    found = service_pb2.ModelInferResponse.FromString(answers.message)
    assert (found.model_name, found.model_version, found.id) == ("m", "1", "7")
    assert [io.name for io in found.outputs] == ["A", "B"]


def test_the_answer_may_come_later_and_the_handle_cancels() -> None:
    engine = ScriptedEngine(answer=None)
    answers = Answers()
    handle = ModelInfer(engine, None)(small_request(), SentMetadata(), answers)
    assert handle is engine.inferences[0]
    assert not answers.all
    engine.inferences[0].on_response(echo(engine.requests[0]))
    assert answers.message


def test_the_engine_adds_the_inference_to_the_context_of_the_call() -> None:
    engine = ScriptedEngine(answer=None)
    context = RequestContext(1)
    call = ContextCall(SentMetadata(), context)
    ModelInfer(engine, None)(small_request(), call, Answers())
    assert context.inference is engine.inferences[0]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.UNKNOWN, 2),
        (ErrorCode.INTERNAL, 13),
        (ErrorCode.NOT_FOUND, 5),
        (ErrorCode.INVALID_ARG, 3),
        (ErrorCode.UNAVAILABLE, 14),
        (ErrorCode.UNSUPPORTED, 12),
        (ErrorCode.ALREADY_EXISTS, 6),
        (ErrorCode.CANCELLED, 1),
    ],
)
def test_the_engines_error_becomes_the_status_with_its_message(
    code: ErrorCode, status: int
) -> None:
    error = InferenceError(code, "what the engine says", reason=FailureReason.OTHER)
    engine = ScriptedEngine(lambda request: failed(request, error))
    answers = Answers()
    ModelInfer(engine, None)(small_request(), SentMetadata(), answers)
    assert (answers.refusal.status, answers.refusal.message) == (status, "what the engine says")


def test_an_unknown_model_comes_before_anything_else_that_is_wrong() -> None:
    request = message(model="nope")
    request.parameters["triton_x"].int64_param = 1
    add_input(request, "A", "FP99", [1])
    answers = Answers()
    ModelInfer(ScriptedEngine(), None)(request.SerializeToString(), SentMetadata(), answers)
    assert answers.refusal.status == 5


def test_a_model_that_answers_many_times_is_refused() -> None:
    engine = ScriptedEngine(traits=DECOUPLED)
    answers = Answers()
    ModelInfer(engine, None)(small_request(), SentMetadata(), answers)
    assert answers.refusal.status == 12
    assert (
        "ModelInfer RPC doesn't support models with decoupled transaction policy"
        in answers.refusal.message
    )
    assert not engine.requests


def test_forwarded_metadata_are_parameters_of_this_request_only() -> None:
    engine = ScriptedEngine()
    infer = ModelInfer(engine, compiled("^my-", option=""))
    for value in ("1", "2"):
        infer(small_request(), SentMetadata(("my-key", value), ("other", "x")), Answers())
    assert [request.parameters for request in engine.requests] == [{"my-key": "1"}, {"my-key": "2"}]


def test_a_reserved_header_is_refused() -> None:
    answers = Answers()
    infer = ModelInfer(ScriptedEngine(), compiled("time", option=""))
    infer(small_request(), SentMetadata(("timeout", "1")), answers)
    assert answers.refusal.status == 3
    assert "is reserved for Triton usage" in answers.refusal.message


def test_a_fault_of_the_values_reaches_the_engine_with_the_request() -> None:
    request = message(id="x")
    add_input(request, "A", "FP32", [2], bytes(4))
    answers = Answers()
    ModelInfer(ScriptedEngine(), None)(request.SerializeToString(), SentMetadata(), answers)
    assert answers.refusal.message.startswith("[request id: x] input byte size mismatch")


def test_a_response_that_cannot_be_encoded_is_answered_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(request: InferRequest) -> InferResponse:
        output = Tensor("A", FP32, (1,), None)  # type: ignore[arg-type] # what a bug could answer
        return InferResponse("m", 1, "", [output], NO_PARAMETERS)

    answers = Answers()
    ModelInfer(ScriptedEngine(broken), None)(small_request(), SentMetadata(), answers)
    assert answers.refusal.status == 13
    assert len(caplog.records) == 1


def test_an_engine_that_raises_is_answered_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(request: InferRequest) -> InferResponse:
        raise KeyError("boom")

    answers = Answers()
    ModelInfer(ScriptedEngine(broken), None)(small_request(), SentMetadata(), answers)
    assert answers.refusal.status == 13
    assert len(caplog.records) == 1


@pytest.mark.parametrize("letter", ["x", "é"])
def test_a_message_too_long_for_headers_is_cut(letter: str) -> None:
    error = InferenceError(ErrorCode.INVALID_ARG, letter * 100_000)
    answers = Answers()
    infer = ModelInfer(ScriptedEngine(lambda request: failed(request, error)), None)
    infer(small_request(), SentMetadata(), answers)
    assert 1000 < len(answers.refusal.message.encode()) <= 2060
    assert answers.refusal.message.endswith(" …")
