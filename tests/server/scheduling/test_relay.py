"""An inference whose work is another one: each way in which it ends, exactly once, and what is left of it."""

import gc
import weakref

import pytest

from naiad.core.flow import Flow
from naiad.core.inference import Inference, OnResponse
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.errors import ErrorCode, InferenceError, internal, unavailable
from naiad.scheduling.relays.relay import Relay
from tests.support.inferences import make_request, make_tensor


def response(*, final: bool = True) -> InferResponse:
    return InferResponse("m", 1, "", NO_OUTPUTS, NO_PARAMETERS, None, final)


class Relayed:
    """An outer inference with a flow, its relay, and what both did."""

    def __init__(self) -> None:
        self.responses: list[InferResponse] = []
        self.ended: list[InferenceError | None] = []
        self.outer = Inference(
            make_request(make_tensor("x", 1), request_id="7"),
            self.responses.append,
            1,
            0,
            flow=Flow(),
        )
        self.relay = Relay(self.outer, on_end=self._ended)
        self.inner: Inference | None = None
        self.on_response: OnResponse | None = None

    def _ended(self, error: InferenceError | None) -> None:
        assert not self.responses or not self.responses[-1].final, "before the response"
        self.ended.append(error)

    def begin_inner(self, on_response: OnResponse) -> Inference:
        self.inner = Inference(self.outer.request, on_response, 1, 0, flow=self.outer.flow)
        return self.inner

    def respond(self, *, final: bool = True) -> InferResponse:
        assert self.inner is not None
        sent = response(final=final)
        self.inner.on_response(sent)
        return sent

    def error(self) -> InferenceError:
        (only,) = self.responses
        assert only.final
        assert only.error is not None
        return only.error


@pytest.fixture
def relayed() -> Relayed:
    return Relayed()


def test_responses_of_the_inner_inference_are_those_of_the_outer_one(relayed: Relayed) -> None:
    relayed.relay.begin(relayed.begin_inner)
    sent = [relayed.respond(final=final) for final in (False, False, True)]
    assert relayed.responses == sent
    assert relayed.outer.completed
    assert relayed.ended == [None]
    relayed.respond()
    relayed.relay.fail(internal("late"))
    relayed.outer.cancel()
    assert (relayed.responses, relayed.ended) == (sent, [None])


def test_an_inner_inference_may_respond_before_it_has_begun(relayed: Relayed) -> None:
    def at_once(on_response: OnResponse) -> None:
        on_response(response())

    relayed.relay.begin(at_once)
    assert relayed.outer.completed
    assert relayed.ended == [None]


def test_a_refused_inner_inference_is_the_error_of_the_outer_one(relayed: Relayed) -> None:
    def refuse(_on_response: OnResponse) -> None:
        raise unavailable("full")

    relayed.relay.begin(refuse)
    error = relayed.error()
    assert (error.code, error.message) == (ErrorCode.UNAVAILABLE, "full")
    assert [ended and ended.message for ended in relayed.ended] == ["full"]


def test_a_cancel_before_it_began_ends_it_and_nothing_begins_afterwards(relayed: Relayed) -> None:
    relayed.outer.cancel()
    assert relayed.error().code is ErrorCode.CANCELLED
    assert relayed.responses[0].id == "7"
    assert [ended and ended.code for ended in relayed.ended] == [ErrorCode.CANCELLED]
    relayed.relay.begin(relayed.begin_inner)
    assert relayed.inner is None
    assert len(relayed.responses) == 1


def test_a_cancel_reaches_the_inner_inference_whose_final_response_still_comes(
    relayed: Relayed,
) -> None:
    relayed.relay.begin(relayed.begin_inner)
    relayed.outer.cancel()
    assert relayed.inner is not None
    assert relayed.inner.cancelled
    assert relayed.responses == []
    sent = relayed.respond()
    assert relayed.responses == [sent]


def test_a_cancel_while_it_begins_reaches_the_inner_inference(relayed: Relayed) -> None:
    def cancelled_meanwhile(on_response: OnResponse) -> Inference:
        relayed.outer.cancel()
        return relayed.begin_inner(on_response)

    relayed.relay.begin(cancelled_meanwhile)
    assert relayed.inner is not None
    assert relayed.inner.cancelled
    assert not relayed.outer.completed


def test_an_error_of_the_owner_ends_it_and_cancels_the_inner_inference(relayed: Relayed) -> None:
    relayed.relay.begin(relayed.begin_inner)
    relayed.relay.fail(internal("aborted"))
    assert relayed.error().message == "aborted"
    assert relayed.inner is not None
    assert relayed.inner.cancelled
    relayed.respond()
    assert len(relayed.responses) == 1


def test_the_flow_of_the_client_ends_with_its_cancel(relayed: Relayed) -> None:
    relayed.relay.begin(relayed.begin_inner)
    flow = relayed.outer.flow
    assert flow is not None
    flow.pause()
    assert flow.is_full()
    relayed.outer.cancel()
    assert not flow.is_full()


def test_it_may_begin_again_after_one_that_did_not_respond(relayed: Relayed) -> None:
    relayed.relay.begin(relayed.begin_inner)
    first = relayed.inner
    relayed.relay.begin(relayed.begin_inner)
    assert relayed.inner is not first
    relayed.outer.cancel()
    assert first is not None
    assert relayed.inner is not None
    assert (first.cancelled, relayed.inner.cancelled) == (False, True)


@pytest.mark.parametrize("how", ["response", "error", "cancel"])
def test_what_is_over_is_freed_without_the_garbage_collector(how: str) -> None:
    relayed = Relayed()
    tensor = weakref.ref(relayed.outer.request.inputs[0].array)
    gc.collect()
    gc.disable()
    try:
        if how == "cancel":
            relayed.outer.cancel()
        else:
            relayed.relay.begin(relayed.begin_inner)
        if how == "response":
            relayed.respond()
        elif how == "error":
            relayed.relay.fail(internal("aborted"))
        assert relayed.outer.completed
        del relayed
        assert tensor() is None
    finally:
        gc.enable()
