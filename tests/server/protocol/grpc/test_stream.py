"""Streams without a transport: what comes in, what goes out, in which order, and how it ends."""

import pathlib
import types
import typing

import numpy as np
import pytest
from typing_extensions import override

from naiad.core.clock import ManualClock
from naiad.core.flow import OVERRUN_BYTES
from naiad.core.inference import OnResponse, RequestContext
from naiad.core.messages import service_pb2
from naiad.core.request import LATEST, InferRequest
from naiad.errors import invalid, not_found
from naiad.protocol.access_log import AccessObserver
from naiad.protocol.grpc.call import RpcStatus, Sent
from naiad.protocol.grpc.methods import STREAM_INFER, Methods
from naiad.protocol.grpc.settings import GrpcSettings
from naiad.protocol.grpc.stream import MAX_IN_FLIGHT
from naiad.protocol.observer import Ended, HeaderLookup
from naiad.protocol.restricted import Category, Restriction
from naiad.protocol.tokens import UNAUTHENTICATED, TokenFile
from tests.server.protocol.grpc.bidi_stream import BidiStream, scripted
from tests.server.protocol.grpc.scripted_engine import (
    DECOUPLED,
    ScriptedEngine,
    SentMetadata,
    echo,
    failed,
    message,
    small_request,
)

NOT_FOUND, UNAVAILABLE = 5, 14
WANTS_STATUS = ("triton_grpc_error", "true")


class SilentWriter:
    """Implements `StreamWriter`; drops what it gets."""

    def send(self, message: Sent) -> None: ...

    def capacity(self) -> None: ...

    def end(self, refused: RpcStatus | None) -> None: ...


EMPTY_FINAL = "triton_enable_empty_final_response"


def test_a_request_gets_its_response_wrapped_and_marked_as_the_last() -> None:
    bidi_stream = BidiStream()
    bidi_stream.stream.take(small_request(request_id="7"))
    scripted(bidi_stream).respond(0, 2.5)
    (reply,) = bidi_stream.sent
    inner = reply.infer_response
    assert not reply.error_message
    assert (inner.model_name, inner.model_version, inner.id) == ("m", "1", "7")
    assert inner.outputs[0].name == "OUT"
    assert np.frombuffer(inner.raw_output_contents[0], np.float32).tolist() == [2.5]
    assert inner.parameters["triton_final_response"].bool_param is True


def test_each_request_of_a_stream_has_a_context_with_the_trace_of_the_stream() -> None:
    engine, clock, seen = ScriptedEngine(None), ManualClock(), list[Ended]()
    settings = GrpcSettings()
    methods = Methods(engine, settings)
    methods.observe(AccessObserver(seen.append, clock=clock))
    traceparent = f"00-{'a' * 32}-{'b' * 16}-01"
    stream = methods.streaming[STREAM_INFER](
        SentMetadata(("traceparent", traceparent)), SilentWriter()
    )
    bodies = [small_request(request_id=name) for name in ("one", "two")]
    for body in bodies:
        clock.advance(ns=1000)
        stream.take(body)
    contexts = [context for context in engine.contexts if context is not None]
    assert [context.received_ns for context in contexts] == [1000, 2000]
    assert [context.request_bytes for context in contexts] == [len(body) for body in bodies]
    assert [context.inference for context in contexts] == engine.inferences
    for context in contexts:
        assert context.trace is not None
        assert (context.trace.span_id, context.trace.flags) == ("b" * 16, 1)
    stream.cancel()
    (ended,) = seen  # the stream, as one call
    assert ended.method == "ModelStreamInfer"


class Finishing(RequestContext, kw_only=True, eq=False):
    """Counts how often it is finished."""

    finished: int = 0

    @override
    def finish(self) -> None:
        self.finished += 1


class FinishingObserver(AccessObserver):
    """Gives such contexts."""

    @override
    def begin(self, header: HeaderLookup, received_ns: int, size: int) -> RequestContext:
        return Finishing(received_ns, size)


def test_what_follows_a_request_learns_that_its_stream_was_cancelled() -> None:
    engine = ScriptedEngine(None)
    methods = Methods(engine, GrpcSettings())
    methods.observe(FinishingObserver(lambda _: None, clock=ManualClock()))
    stream = methods.streaming[STREAM_INFER](SentMetadata(), SilentWriter())
    for _ in range(2):
        stream.take(small_request())
    answered, cancelled = engine.inferences
    answered.on_response(echo(answered.request))
    stream.cancel()
    stream.cancel()
    cancelled.on_response(echo(cancelled.request))
    finished = [context.finished for context in engine.contexts if isinstance(context, Finishing)]
    assert finished == [1, 1]


def test_responses_of_models_that_answer_once_keep_the_order_of_their_requests() -> None:
    bidi_stream = BidiStream()
    for name in "abc":
        bidi_stream.ask(name)
    bidi_stream.ask("x", model="nope")
    for number in (2, 0, 1):
        scripted(bidi_stream).respond(number)
    assert [each[0] for each in bidi_stream.got()] == ["a", "b", "c", "x"]


def test_responses_of_decoupled_models_leave_as_they_come_beside_all_others() -> None:
    bidi_stream = BidiStream()
    bidi_stream.ask("a")
    bidi_stream.ask("d1", model="d")
    bidi_stream.ask("d2", model="d")
    engine = scripted(bidi_stream)
    engine.respond(2, final=False)
    engine.respond(1, final=False)
    engine.respond(2)
    engine.respond(0)
    engine.respond(1)
    assert bidi_stream.got() == [
        ("d2", "", False),
        ("d1", "", False),
        ("d2", "", True),
        ("a", "", True),
        ("d1", "", True),
    ]


@pytest.mark.parametrize(("wanted", "count"), [(True, 2), (False, 1), (None, 1)])
def test_an_empty_final_response_is_sent_when_it_is_wanted(
    *, wanted: bool | None, count: int
) -> None:
    bidi_stream = BidiStream()
    for request_id in ("r", "s"):  # the second one is read by what was remembered of the first
        bidi_stream.ask(request_id, model="d", **({} if wanted is None else {EMPTY_FINAL: wanted}))
    for number in (0, 1):
        scripted(bidi_stream).respond(number, final=False)
        scripted(bidi_stream).respond(number, empty=True)
    assert len(bidi_stream.sent) == 2 * count
    if wanted:
        last = bidi_stream.sent[-1].infer_response
        assert (last.model_name, last.model_version, last.id) == ("d", "1", "s")
        assert not last.outputs
        assert last.parameters["triton_final_response"].bool_param


def test_an_empty_final_is_wanted_too_of_a_request_whose_values_stand_in_its_head() -> None:
    bidi_stream = BidiStream()
    request = message(model="d", id="r")
    request.parameters[EMPTY_FINAL].bool_param = True
    added = request.inputs.add(name="A", datatype="FP32", shape=[1])
    added.contents.fp32_contents.append(1)
    bidi_stream.stream.take(request.SerializeToString())
    scripted(bidi_stream).respond(0, empty=True)
    assert bidi_stream.got() == [("r", "", True)]


def test_the_flag_is_validated_and_not_passed_to_the_model() -> None:
    bidi_stream = BidiStream()
    bidi_stream.ask("r", model="d", **{EMPTY_FINAL: "x"})
    bidi_stream.ask("s", model="d", **{EMPTY_FINAL: True})
    assert "expected bool_param" in bidi_stream.sent[0].error_message
    assert scripted(bidi_stream).requests[0].parameters == {}


def test_an_error_of_a_request_names_only_its_id_and_the_stream_goes_on() -> None:
    engine = ScriptedEngine(lambda request: failed(request, invalid("validated")))
    bidi_stream = BidiStream(engine=engine)
    bidi_stream.ask("r")
    bidi_stream.ask("u", model="nope")
    bidi_stream.stream.take(b"\x0a\xff")
    assert [each[0] for each in bidi_stream.got()] == ["r", "u", ""]
    assert [each.error_message for each in bidi_stream.sent[:2]] == [
        "validated",
        "Request for unknown model: 'nope' is not found",
    ]
    assert "Unable to parse request" in bidi_stream.sent[2].error_message
    assert all(not each.infer_response.model_name for each in bidi_stream.sent)
    assert bidi_stream.got()[0][2] is None
    assert bidi_stream.end_of == []


@pytest.mark.parametrize("typed", [False, True], ids=["raw", "typed"])
def test_a_request_with_an_invalid_version_is_named_by_its_id(*, typed: bool) -> None:
    bidi_stream = BidiStream()
    request = service_pb2.ModelInferRequest(model_name="m", model_version="zz", id="7")
    tensor_of = request.inputs.add(name="IN", datatype="FP32", shape=[1])
    if typed:
        tensor_of.contents.fp32_contents.append(1)
    else:
        request.raw_input_contents.append(bytes(4))
    bidi_stream.stream.take(request.SerializeToString())
    bidi_stream.stream.take(b"no request at all")
    assert [(each.infer_response.id, bool(each.error_message)) for each in bidi_stream.sent] == [
        ("7", True),
        ("", True),
    ]


def test_an_error_of_a_model_names_the_model_and_says_whether_more_follows() -> None:
    bidi_stream = BidiStream()
    bidi_stream.ask("r", model="d")
    engine = scripted(bidi_stream)
    engine.respond(0, final=False)
    engine.respond(0, final=False, error=not_found("half"))
    engine.respond(0, final=False)
    engine.respond(0, error=not_found("all"))
    assert bidi_stream.got() == [
        ("r", "", False),
        ("r", "half", False),
        ("r", "", False),
        ("r", "all", True),
    ]
    inner = bidi_stream.sent[1].infer_response
    assert (inner.model_name, inner.model_version) == ("d", "1")


def test_an_error_that_quotes_invalid_text_reaches_the_client() -> None:
    bidi_stream = BidiStream()
    bidi_stream.ask("r")
    scripted(bidi_stream).respond(0, error=invalid("bad \udcff"))
    assert bidi_stream.sent[0].error_message == "bad ?"


@pytest.mark.parametrize("model", ["nope", "m"])
def test_a_client_that_wants_statuses_has_its_stream_ended_by_the_first_error(model: str) -> None:
    bidi_stream = BidiStream(WANTS_STATUS)
    bidi_stream.ask("other", model="d")
    bidi_stream.ask("r", model=model)
    engine = scripted(bidi_stream)
    if model == "m":
        engine.respond(1, error=not_found("gone"))
    (refused,) = bidi_stream.end_of
    assert refused is not None
    assert refused.status == NOT_FOUND
    assert engine.inferences[0].cancelled
    engine.respond(0)
    bidi_stream.ask("late")
    assert bidi_stream.sent == []


def test_other_values_of_that_metadata_change_nothing() -> None:
    bidi_stream = BidiStream(("triton_grpc_error", "false"))
    bidi_stream.ask("r", model="nope")
    assert (len(bidi_stream.sent), bidi_stream.end_of) == (1, [])


def test_after_the_client_has_closed_its_half_the_stream_ends_with_the_last_response() -> None:
    bidi_stream = BidiStream()
    bidi_stream.ask("r", model="d")
    bidi_stream.stream.half_close()
    scripted(bidi_stream).respond(0, final=False)
    assert bidi_stream.end_of == []
    scripted(bidi_stream).respond(0, empty=True)
    assert bidi_stream.end_of == [None]


def test_a_stream_without_requests_ends_at_once() -> None:
    bidi_stream = BidiStream()
    bidi_stream.stream.half_close()
    assert bidi_stream.end_of == [None]


def test_a_cancel_cancels_all_that_is_in_flight() -> None:
    bidi_stream = BidiStream()
    bidi_stream.ask("a")
    bidi_stream.ask("b", model="d")
    bidi_stream.stream.cancel()
    bidi_stream.stream.cancel()
    assert [inference.cancelled for inference in scripted(bidi_stream).inferences] == [True, True]
    scripted(bidi_stream).respond(0)
    assert (bidi_stream.sent, bidi_stream.end_of) == ([], [])


def test_a_client_that_does_not_read_holds_its_decoupled_models_also_those_asked_later() -> None:
    bidi_stream = BidiStream()
    bidi_stream.ask("a", model="d")
    bidi_stream.stream.pause()
    assert not bidi_stream.stream.may_take()
    bidi_stream.ask("b", model="d")
    bidi_stream.ask("c")
    flows = [inference.flow for inference in scripted(bidi_stream).inferences]
    assert [flow is not None and flow.is_full() for flow in flows] == [True, True, False]
    bidi_stream.stream.resume()
    assert bidi_stream.stream.may_take()
    assert not any(flow is not None and flow.is_full() for flow in flows)


def test_a_client_that_reads_nothing_of_a_model_that_does_not_wait_is_cut_off() -> None:
    bidi_stream = BidiStream()
    bidi_stream.ask("a", model="d")
    bidi_stream.stream.pause()
    flow = scripted(bidi_stream).inferences[0].flow
    assert flow is not None
    flow.coming(OVERRUN_BYTES)
    flow.coming(OVERRUN_BYTES)
    scripted(bidi_stream).respond(0, final=False)
    assert bidi_stream.end_of == []
    flow.coming(1)
    scripted(bidi_stream).respond(0, final=False)
    (refused,) = bidi_stream.end_of
    assert refused is not None
    assert (refused.status, "does not read" in refused.message) == (UNAVAILABLE, True)
    assert scripted(bidi_stream).inferences[0].cancelled


def test_no_more_than_so_many_requests_are_read_at_once() -> None:
    bidi_stream = BidiStream()
    for _ in range(MAX_IN_FLIGHT - 1):
        bidi_stream.ask()
    assert bidi_stream.stream.may_take()
    bidi_stream.ask()
    assert not bidi_stream.stream.may_take()
    scripted(bidi_stream).respond(5)
    assert bidi_stream.stream.may_take()
    scripted(bidi_stream).respond(6)
    assert bidi_stream.capacity_calls == 1


def test_a_shutdown_ends_an_idle_stream_and_refuses_new_ones() -> None:
    bidi_stream = BidiStream()
    bidi_stream.methods.shut()
    (refused,) = bidi_stream.end_of
    assert refused is not None
    assert refused.status == UNAVAILABLE
    assert "GRPC server is shutting down" in refused.message
    streaming = bidi_stream.methods.streaming[STREAM_INFER]
    bidi_stream.end_of.clear()
    streaming(SentMetadata(), bidi_stream)
    assert bidi_stream.end_of == [refused]


def test_a_shutdown_lets_a_stream_finish_and_takes_no_more_requests() -> None:
    bidi_stream = BidiStream()
    bidi_stream.ask("r", model="d")
    bidi_stream.methods.shut()
    bidi_stream.ask("late")
    assert bidi_stream.end_of == []
    assert "GRPC server is shutting down" in bidi_stream.sent[0].error_message
    scripted(bidi_stream).respond(0, final=False)
    scripted(bidi_stream).respond(0)
    assert [each[0] for each in bidi_stream.got()] == ["late", "r", "r"]
    (refused,) = bidi_stream.end_of
    assert refused is not None
    assert refused.status == UNAVAILABLE


def test_a_shutdown_after_the_client_closed_its_half_ends_well() -> None:
    bidi_stream = BidiStream()
    bidi_stream.ask("r")
    bidi_stream.stream.half_close()
    bidi_stream.methods.shut()
    scripted(bidi_stream).respond(0)
    assert bidi_stream.end_of == [None]


def test_streams_that_are_over_are_forgotten() -> None:
    bidi_stream = BidiStream()
    bidi_stream.stream.half_close()
    bidi_stream.methods.shut()
    assert bidi_stream.end_of == [None]


def test_a_stream_without_its_key_is_refused() -> None:
    key = Restriction(header="key", value="secret")
    restrictions = {Category.INFERENCE: key}
    bidi_stream = BidiStream(restrictions=restrictions)
    (refused,) = bidi_stream.end_of
    assert refused is not None
    assert (refused.status, "This protocol is restricted" in refused.message) == (UNAVAILABLE, True)
    assert (
        BidiStream(("triton-grpc-protocol-key", "secret"), restrictions=restrictions).end_of == []
    )


def test_a_stream_is_asked_for_its_token_when_it_begins(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret")
    tokens = TokenFile(str(file), clock=ManualClock())
    for metadata in ((), (("authorization", "Bearer wrong"),)):
        assert BidiStream(*metadata, tokens=tokens).end_of == [RpcStatus(16, UNAUTHENTICATED)]
    assert BidiStream(("authorization", "Bearer secret"), tokens=tokens).end_of == []


def test_metadata_become_parameters_of_each_request() -> None:
    bidi_stream = BidiStream(("x-user", "me"), header_forward_pattern="^x-")
    bidi_stream.ask("a")
    bidi_stream.ask("b", model="d")
    assert [request.parameters for request in bidi_stream.engine.requests] == [{"x-user": "me"}] * 2


def test_a_bug_is_an_error_of_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    bidi_stream = BidiStream()
    monkeypatch.setattr(bidi_stream.engine, "infer", lambda *_: 1 / 0)
    bidi_stream.ask("r")
    assert "failed inside the server" in bidi_stream.sent[0].error_message
    assert bidi_stream.end_of == []


def test_the_version_that_was_looked_up_runs_the_request() -> None:
    """And no other, which would have to be looked up."""

    class EngineOfVersions(ScriptedEngine):
        @override
        def look_up(self, name: str, version: int = LATEST) -> typing.Any:
            def infer(request: InferRequest, on_response: OnResponse, *_: object) -> None:
                on_response(echo(request))

            return types.SimpleNamespace(traits=DECOUPLED, infer=infer)

    engine = EngineOfVersions()
    bidi_stream = BidiStream(engine=engine)
    bidi_stream.ask("r")
    assert bidi_stream.got() == [("r", "", True)]
    assert not engine.requests
