"""Streams without a transport: what comes in, what goes out, in which order, and how it ends."""

import pathlib

import numpy as np
import pytest

from naiad.core.clock import ManualClock
from naiad.core.flow import OVERRUN_BYTES
from naiad.core.messages import service_pb2
from naiad.errors import invalid, not_found
from naiad.protocol.grpc.call import Refusal
from naiad.protocol.grpc.methods import STREAM_INFER
from naiad.protocol.grpc.stream import MOST_IN_FLIGHT
from naiad.protocol.restricted import Category, Restriction
from naiad.protocol.tokens import ASK_FOR_ONE, TokenFile
from tests.server.protocol.grpc.scripted_engine import (
    ScriptedEngine,
    SentMetadata,
    failed,
    message,
    small_request,
)
from tests.server.protocol.grpc.talk import Talk, scripted

NOT_FOUND, UNAVAILABLE = 5, 14
WANTS_STATUS = ("triton_grpc_error", "true")
EMPTY_FINAL = "triton_enable_empty_final_response"


def test_a_request_gets_its_response_wrapped_and_marked_as_the_last() -> None:
    talk = Talk()
    talk.stream.take(small_request(request_id="7"))
    scripted(talk).respond(0, 2.5)
    (reply,) = talk.sent
    inner = reply.infer_response
    assert not reply.error_message
    assert (inner.model_name, inner.model_version, inner.id) == ("m", "1", "7")
    assert inner.outputs[0].name == "OUT"
    assert np.frombuffer(inner.raw_output_contents[0], np.float32).tolist() == [2.5]
    assert inner.parameters["triton_final_response"].bool_param is True


def test_responses_of_models_that_answer_once_keep_the_order_of_their_requests() -> None:
    talk = Talk()
    for name in "abc":
        talk.ask(name)
    talk.ask("x", model="nope")
    for number in (2, 0, 1):
        scripted(talk).respond(number)
    assert [each[0] for each in talk.got()] == ["a", "b", "c", "x"]


def test_responses_of_decoupled_models_leave_as_they_come_beside_all_others() -> None:
    talk = Talk()
    talk.ask("a")
    talk.ask("d1", model="d")
    talk.ask("d2", model="d")
    engine = scripted(talk)
    engine.respond(2, final=False)
    engine.respond(1, final=False)
    engine.respond(2)
    engine.respond(0)
    engine.respond(1)
    assert talk.got() == [
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
    talk = Talk()
    for request_id in ("r", "s"):  # the second one is read by what was remembered of the first
        talk.ask(request_id, model="d", **({} if wanted is None else {EMPTY_FINAL: wanted}))
    for number in (0, 1):
        scripted(talk).respond(number, final=False)
        scripted(talk).respond(number, empty=True)
    assert len(talk.sent) == 2 * count
    if wanted:
        last = talk.sent[-1].infer_response
        assert (last.model_name, last.model_version, last.id) == ("d", "1", "s")
        assert not last.outputs
        assert last.parameters["triton_final_response"].bool_param


def test_an_empty_final_is_wanted_too_of_a_request_whose_values_stand_in_its_head() -> None:
    talk = Talk()
    request = message(model="d", id="r")
    request.parameters[EMPTY_FINAL].bool_param = True
    added = request.inputs.add(name="A", datatype="FP32", shape=[1])
    added.contents.fp32_contents.append(1)
    talk.stream.take(request.SerializeToString())
    scripted(talk).respond(0, empty=True)
    assert talk.got() == [("r", "", True)]


def test_the_flag_is_judged_and_not_the_models_business() -> None:
    talk = Talk()
    talk.ask("r", model="d", **{EMPTY_FINAL: "x"})
    talk.ask("s", model="d", **{EMPTY_FINAL: True})
    assert "expected bool_param" in talk.sent[0].error_message
    assert scripted(talk).requests[0].parameters == {}


def test_an_error_of_a_request_names_only_its_id_and_the_stream_goes_on() -> None:
    engine = ScriptedEngine(lambda request: failed(request, invalid("judged")))
    talk = Talk(engine=engine)
    talk.ask("r")
    talk.ask("u", model="nope")
    talk.stream.take(b"\x0a\xff")
    assert [each[0] for each in talk.got()] == ["r", "u", ""]
    assert [each.error_message for each in talk.sent[:2]] == [
        "judged",
        "Request for unknown model: 'nope' is not found",
    ]
    assert "Unable to parse request" in talk.sent[2].error_message
    assert all(not each.infer_response.model_name for each in talk.sent)
    assert talk.got()[0][2] is None
    assert talk.end_of == []


@pytest.mark.parametrize("typed", [False, True], ids=["raw", "typed"])
def test_a_request_whose_version_is_none_is_named_by_its_id(*, typed: bool) -> None:
    talk = Talk()
    request = service_pb2.ModelInferRequest(model_name="m", model_version="zz", id="7")
    tensor_of = request.inputs.add(name="IN", datatype="FP32", shape=[1])
    if typed:
        tensor_of.contents.fp32_contents.append(1)
    else:
        request.raw_input_contents.append(bytes(4))
    talk.stream.take(request.SerializeToString())
    talk.stream.take(b"no request at all")
    assert [(each.infer_response.id, bool(each.error_message)) for each in talk.sent] == [
        ("7", True),
        ("", True),
    ]


def test_an_error_of_a_model_names_the_model_and_says_whether_more_follows() -> None:
    talk = Talk()
    talk.ask("r", model="d")
    engine = scripted(talk)
    engine.respond(0, final=False)
    engine.respond(0, final=False, error=not_found("half"))
    engine.respond(0, final=False)
    engine.respond(0, error=not_found("all"))
    assert talk.got() == [
        ("r", "", False),
        ("r", "half", False),
        ("r", "", False),
        ("r", "all", True),
    ]
    inner = talk.sent[1].infer_response
    assert (inner.model_name, inner.model_version) == ("d", "1")


def test_an_error_that_quotes_what_is_no_text_reaches_the_client() -> None:
    talk = Talk()
    talk.ask("r")
    scripted(talk).respond(0, error=invalid("bad \udcff"))
    assert talk.sent[0].error_message == "bad ?"


@pytest.mark.parametrize("model", ["nope", "m"])
def test_a_client_that_wants_statuses_has_its_stream_ended_by_the_first_error(model: str) -> None:
    talk = Talk(WANTS_STATUS)
    talk.ask("other", model="d")
    talk.ask("r", model=model)
    engine = scripted(talk)
    if model == "m":
        engine.respond(1, error=not_found("gone"))
    (refused,) = talk.end_of
    assert refused is not None
    assert refused.status == NOT_FOUND
    assert engine.inferences[0].cancelled
    engine.respond(0)
    talk.ask("late")
    assert talk.sent == []


def test_other_values_of_that_metadata_change_nothing() -> None:
    talk = Talk(("triton_grpc_error", "false"))
    talk.ask("r", model="nope")
    assert (len(talk.sent), talk.end_of) == (1, [])


def test_after_the_client_has_closed_its_half_the_stream_ends_with_the_last_response() -> None:
    talk = Talk()
    talk.ask("r", model="d")
    talk.stream.half_close()
    scripted(talk).respond(0, final=False)
    assert talk.end_of == []
    scripted(talk).respond(0, empty=True)
    assert talk.end_of == [None]


def test_a_stream_without_requests_ends_at_once() -> None:
    talk = Talk()
    talk.stream.half_close()
    assert talk.end_of == [None]


def test_a_cancel_cancels_all_that_is_in_flight() -> None:
    talk = Talk()
    talk.ask("a")
    talk.ask("b", model="d")
    talk.stream.cancel()
    talk.stream.cancel()
    assert [each.cancelled for each in scripted(talk).inferences] == [True, True]
    scripted(talk).respond(0)
    assert (talk.sent, talk.end_of) == ([], [])


def test_a_client_that_does_not_read_holds_its_decoupled_models_also_those_asked_later() -> None:
    talk = Talk()
    talk.ask("a", model="d")
    talk.stream.hold()
    assert not talk.stream.may_take()
    talk.ask("b", model="d")
    talk.ask("c")
    flows = [each.flow for each in scripted(talk).inferences]
    assert [flow is not None and flow.is_full() for flow in flows] == [True, True, False]
    talk.stream.go_on()
    assert talk.stream.may_take()
    assert not any(flow is not None and flow.is_full() for flow in flows)


def test_a_client_that_reads_nothing_of_a_model_that_does_not_wait_is_cut_off() -> None:
    talk = Talk()
    talk.ask("a", model="d")
    talk.stream.hold()
    flow = scripted(talk).inferences[0].flow
    assert flow is not None
    flow.coming(OVERRUN_BYTES)
    flow.coming(OVERRUN_BYTES)
    scripted(talk).respond(0, final=False)
    assert talk.end_of == []
    flow.coming(1)
    scripted(talk).respond(0, final=False)
    (refused,) = talk.end_of
    assert refused is not None
    assert (refused.status, "does not read" in refused.message) == (UNAVAILABLE, True)
    assert scripted(talk).inferences[0].cancelled


def test_no_more_than_so_many_requests_are_read_at_once() -> None:
    talk = Talk()
    for _ in range(MOST_IN_FLIGHT - 1):
        talk.ask()
    assert talk.stream.may_take()
    talk.ask()
    assert not talk.stream.may_take()
    scripted(talk).respond(5)
    assert talk.stream.may_take()
    scripted(talk).respond(6)
    assert talk.rooms == 1


def test_a_shutdown_ends_an_idle_stream_and_refuses_new_ones() -> None:
    talk = Talk()
    talk.methods.shut()
    (refused,) = talk.end_of
    assert refused is not None
    assert refused.status == UNAVAILABLE
    assert "GRPC server is shutting down" in refused.message
    streaming = talk.methods.find_stream(STREAM_INFER)
    assert streaming is not None
    talk.end_of.clear()
    streaming(SentMetadata(), talk)
    assert talk.end_of == [refused]


def test_a_shutdown_lets_a_stream_finish_and_takes_no_more_requests() -> None:
    talk = Talk()
    talk.ask("r", model="d")
    talk.methods.shut()
    talk.ask("late")
    assert talk.end_of == []
    assert "GRPC server is shutting down" in talk.sent[0].error_message
    scripted(talk).respond(0, final=False)
    scripted(talk).respond(0)
    assert [each[0] for each in talk.got()] == ["late", "r", "r"]
    (refused,) = talk.end_of
    assert refused is not None
    assert refused.status == UNAVAILABLE


def test_a_shutdown_after_the_client_closed_its_half_ends_well() -> None:
    talk = Talk()
    talk.ask("r")
    talk.stream.half_close()
    talk.methods.shut()
    scripted(talk).respond(0)
    assert talk.end_of == [None]


def test_streams_that_are_over_are_forgotten() -> None:
    talk = Talk()
    talk.stream.half_close()
    talk.methods.shut()
    assert talk.end_of == [None]


def test_a_stream_without_its_key_is_refused() -> None:
    key = Restriction(header="key", value="secret")
    restrictions = {Category.INFERENCE: key}
    talk = Talk(restrictions=restrictions)
    (refused,) = talk.end_of
    assert refused is not None
    assert (refused.status, "This protocol is restricted" in refused.message) == (UNAVAILABLE, True)
    assert Talk(("triton-grpc-protocol-key", "secret"), restrictions=restrictions).end_of == []


def test_a_stream_is_asked_for_its_token_when_it_begins(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret")
    tokens = TokenFile(str(file), clock=ManualClock())
    for metadata in ((), (("authorization", "Bearer wrong"),)):
        assert Talk(*metadata, tokens=tokens).end_of == [Refusal(16, ASK_FOR_ONE)]
    assert Talk(("authorization", "Bearer secret"), tokens=tokens).end_of == []


def test_metadata_become_parameters_of_each_request() -> None:
    talk = Talk(("x-user", "me"), header_forward_pattern="^x-")
    talk.ask("a")
    talk.ask("b", model="d")
    assert [each.parameters for each in talk.engine.requests] == [{"x-user": "me"}] * 2


def test_a_bug_is_an_error_of_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk()
    monkeypatch.setattr(talk.engine, "infer", lambda *_: 1 / 0)
    talk.ask("r")
    assert "failed inside the server" in talk.sent[0].error_message
    assert talk.end_of == []
