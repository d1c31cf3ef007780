"""Calls between models, on the loop: what is refused, cancelled, answered, and given up because it would wait for ever."""

import asyncio
import collections.abc
import gc
import unittest.mock
import weakref
from typing import Any

import msgspec
import numpy as np
import pytest
from typing_extensions import override

from naiad.core.datatypes import FP32
from naiad.core.flow import Flow
from naiad.core.inference import Inference, OnResponse, RecordsInference, RequestContext
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.engine.api import ModelTraits
from naiad.engine.bls.model_calls import ModelCall, ModelCalls
from naiad.errors import ErrorCode, FailureReason, InferenceError, invalid, not_found, unavailable
from naiad.scheduling.occupancy import Occupancy
from naiad.scheduling.relays.calls import Caller
from naiad.scheduling.relays.deadlock import UNSURE_NS
from tests.support.clock import LoopClock

pytestmark = pytest.mark.looptime


class ScriptedModel:
    """A model whose instances and queue a test arranges."""

    def __init__(self, name: str, *, decoupled: bool = False) -> None:
        self.name = name
        self.traits = ModelTraits(decoupled=decoupled, max_batch_size=0, inputs=())
        self.refusal: InferenceError | None = None
        self.queue: list[Inference] = []
        self.batches: dict[str, list[Inference] | None] = {f"{name}_0": None}
        self.cancelled: list[Inference] = []
        self.kept: list[tuple[list[Inference], list[Inference]]] = []

    def infer(
        self,
        request: InferRequest,
        on_response: OnResponse,
        flow: Flow | None = None,
        context: RequestContext | None = None,
    ) -> Inference | None:
        if self.refusal is not None:
            on_response(failed(self.refusal))
            return None
        inference = Inference(request, on_response, batch_size=1, received_ns=0, flow=flow)
        if context is not None:
            context.runs(self, inference)
        inference.on_cancel = self._cancel
        self.queue.append(inference)
        return inference

    def occupancy(self) -> Occupancy:
        return Occupancy(list(self.batches.items()), self.queue.__contains__, self.kept)

    def work(self, *batch: Inference, instance: str = "") -> list[Inference]:
        """Let an instance execute a batch."""
        made = list(batch)
        self.batches[instance or f"{self.name}_0"] = made
        for each in made:
            if each in self.queue:
                self.queue.remove(each)
        return made

    def _cancel(self, inference: Inference) -> None:
        self.cancelled.append(inference)
        if inference in self.queue:
            self.queue.remove(inference)
            inference.on_response(failed(InferenceError(ErrorCode.CANCELLED, "")))


class ScriptedModels:
    """Who has them."""

    def __init__(self, *models: ScriptedModel) -> None:
        self._models = {model.name: model for model in models}

    def model(self, name: str, version: int, _namespace: str) -> Any:
        if name not in self._models:
            raise not_found(f"Request for unknown model: '{name}' is not found")
        return self._models[name]


class Asking:
    """What a test asks, and what comes of it."""

    def __init__(self, *models: ScriptedModel) -> None:
        loop = asyncio.get_running_loop()
        self.calls = ModelCalls(clock=LoopClock(loop))
        self.calls.open(ScriptedModels(*models).model, loop)

    def ask(
        self,
        target: str,
        caller: Caller | None = None,
        *,
        decoupled: bool = False,
    ) -> tuple[ModelCall, list[InferResponse]]:
        got: list[InferResponse] = []
        call = self.calls.begin(
            request(target),
            caller=caller or Caller("absent", "absent_0", None, blocks=False),
            decoupled=decoupled,
            on_response=got.append,
        )
        return call, got


def request(model: str) -> InferRequest:
    return InferRequest(
        model_name=model,
        model_version=LATEST,
        id="",
        inputs=[],
        requested_outputs=[],
        parameters={},
    )


def from_client(model: str) -> Inference:
    return Inference(request(model), lambda _: None, batch_size=1, received_ns=0)


def answered(*, final: bool = True) -> InferResponse:
    return InferResponse("m", 1, "", NO_OUTPUTS, NO_PARAMETERS, None, final)


def failed(error: InferenceError) -> InferResponse:
    return InferResponse("m", 1, "", NO_OUTPUTS, NO_PARAMETERS, error)


def error_of(got: list[InferResponse]) -> InferenceError:
    (only,) = got
    assert only.error is not None
    assert only.final
    return only.error


async def test_a_call_is_an_ordinary_request() -> None:
    model = ScriptedModel("a")
    _, got = Asking(model).ask("a")
    (inference,) = model.queue
    assert got == []
    response = answered()
    inference.on_response(response)
    assert got == [response]


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_call_that_is_over_keeps_nothing_alive(at_once: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Tensors lie in shared memory, which their sender uses again once nothing refers to them: the garbage collector is too late for that."""
    model = ScriptedModel("a")
    if at_once:
        model.refusal = invalid("refused")
    values = np.zeros(4, np.float32)
    asked = msgspec.structs.replace(request("a"), inputs=[Tensor("X", FP32, (4,), values)])
    dropped = weakref.ref(values)
    got: list[InferResponse] = []
    calls = Asking(model).calls
    caller = Caller("absent", "absent_0", None, blocks=False)
    gc.collect()
    gc.disable()
    try:
        calls.begin(asked, caller=caller, decoupled=False, on_response=got.append)
        if not at_once:
            model.queue.pop().on_response(answered())
        assert got.pop().final
        del asked, values
        assert dropped() is None
    finally:
        gc.enable()


async def test_an_error_of_the_other_model_is_passed_on_unchanged() -> None:
    model = ScriptedModel("a")
    _, got = Asking(model).ask("a")
    error = InferenceError(ErrorCode.NOT_FOUND, "not here", reason=FailureReason.BACKEND)
    model.queue[0].on_response(failed(error))
    assert error_of(got) is error


@pytest.mark.parametrize(
    "refusal",
    [
        invalid("unexpected inference input 'X'"),
        unavailable("Exceeds maximum queue size", reason=FailureReason.REJECTED),
    ],
)
async def test_an_immediate_refusal_names_the_caller(
    refusal: InferenceError,
) -> None:
    model = ScriptedModel("a")
    model.refusal = refusal
    _, got = Asking(model).ask("a")
    error = error_of(got)
    assert error.code is ErrorCode.INTERNAL
    assert error.message == f"Model a - Error when running inference: {refusal.message}"


async def test_an_unknown_model_is_not_ready() -> None:
    _, got = Asking().ask("absent")
    message = error_of(got).message
    assert message.startswith(
        "Model absent - Error when running inference: Request for unknown model: 'absent' is not found"
    )
    # 2.51's words.
    assert "Failed for execute the inference request. Model 'absent' is not ready." in message


async def test_a_decoupled_model_answers_only_who_takes_many_responses() -> None:
    model = ScriptedModel("a", decoupled=True)
    asking = Asking(model)
    _, got = asking.ask("a")
    assert "Please use 'decoupled=True' argument" in error_of(got).message
    _, got = asking.ask("a", decoupled=True)
    for final in (False, False, True):
        model.queue[0].on_response(answered(final=final))
    assert [response.final for response in got] == [False, False, True]


async def test_cancelling_a_call_cancels_its_inference_and_the_last_response_still_comes() -> None:
    model = ScriptedModel("a")
    call, got = Asking(model).ask("a")
    call.cancel()
    assert len(model.cancelled) == 1
    assert error_of(got).code is ErrorCode.CANCELLED
    call.cancel()


async def test_closing_fails_calls_without_a_response_and_all_later_ones() -> None:
    model = ScriptedModel("a")
    asking = Asking(model)
    _, got = asking.ask("a")
    (inference,) = model.queue
    asking.calls.close()
    assert error_of(got).message.endswith("the server is stopping")
    assert inference.cancelled
    inference.on_response(answered())
    assert len(got) == 1, "it has had its last response"
    _, got = asking.ask("a")
    assert error_of(got).message.endswith("the server is stopping")


async def test_two_models_that_wait_for_each_other_get_an_error_within_a_fifth_of_a_second() -> (
    None
):
    a, b = ScriptedModel("a"), ScriptedModel("b")
    asking = Asking(a, b)
    in_a = a.work(from_client("a"))
    _, older = asking.ask("b", Caller("a", "a_0", in_a, blocks=True))
    in_b = b.work(*b.queue)
    _, younger = asking.ask("a", Caller("b", "b_0", in_b, blocks=True))
    await asyncio.sleep(0.2)
    assert older == []
    message = error_of(younger).message
    assert message == (
        "Model a - Error when running inference: deadlock: this call from model 'b' to model 'a' would wait for ever and was "
        "aborted to break the cycle (youngest call): 'b_0' waits for model 'a' (held: a_0), 'a_0' waits for model 'b' (held: b_0). "
        "Give one of these models more instances (instance_group count) than there are requests that may wait inside it, do "
        "not call back, and do not call a model that needs a resource of the rate limiter which the caller has."
    )
    assert a.queue == [], "no instance works on the aborted call"
    in_b[0].on_response(answered())
    assert [response.error for response in older] == [None]


async def test_calls_that_get_on_are_left_alone() -> None:
    a, b = ScriptedModel("a"), ScriptedModel("b")
    asking = Asking(a, b)
    in_a = a.work(from_client("a"))
    _, got = asking.ask("b", Caller("a", "a_0", in_a, blocks=True))
    b.work(*b.queue)
    await asyncio.sleep(60)
    assert got == []


async def test_coroutines_of_one_batch_that_all_wait_for_it_are_given_up_after_half_a_second() -> (
    None
):
    a = ScriptedModel("a")
    asking = Asking(a)
    in_a = a.work(from_client("a"))
    caller = Caller("a", "a_0", in_a, blocks=False)
    answers = [asking.ask("a", caller)[1] for _ in range(3)]
    await asyncio.sleep(UNSURE_NS / 1e9 - 0.05)
    assert answers == [[], [], []]
    await asyncio.sleep(0.2)
    assert all("deadlock" in error_of(got).message for got in answers)


async def test_the_rest_of_a_batch_that_came_back_is_still_one_caller() -> None:
    """A coroutine of a decoupled model: its batch has come back, and its parts get their answers one by one."""
    a, d = ScriptedModel("a"), ScriptedModel("d", decoupled=True)
    asking = Asking(a, d)
    in_a = a.work(from_client("a"))
    _, stream = asking.ask("d", Caller("a", "a_0", in_a, blocks=True), decoupled=True)
    inference = d.queue.pop()
    other = from_client("d")
    _, first = asking.ask("a", Caller("d", "d_0", [other, inference], blocks=False))
    _, second = asking.ask("a", Caller("d", "d_0", [inference], blocks=False))
    await asyncio.sleep(0.7)
    assert "deadlock" in error_of(second).message
    assert "deadlock" in error_of(first).message
    assert stream == []


async def test_two_instances_held_by_calls_into_themselves_are_a_cycle_as_well() -> None:
    a = ScriptedModel("a")
    asking = Asking(a)
    one = a.work(from_client("a"), instance="a_0")
    two = a.work(from_client("a"), instance="a_1")
    _, first = asking.ask("a", Caller("a", "a_0", one, blocks=True))
    await asyncio.sleep(5)
    assert first == [], "the other instance may get free"
    _, second = asking.ask("a", Caller("a", "a_1", two, blocks=True))
    await asyncio.sleep(0.2)
    assert "'a_1' waits for model 'a' (held: a_0, a_1)" in error_of(second).message
    assert first == [], "the instance that got the error continues, and becomes free"


async def test_a_response_kept_back_behind_the_call_that_waits_for_it_is_a_cycle() -> None:
    """`a` preserves the order: what its second instance has answered leaves after the first one's, which waits for it."""
    a, b = ScriptedModel("a"), ScriptedModel("b")
    asking = Asking(a, b)
    first = a.work(from_client("a"), instance="a_0")
    _, older = asking.ask("b", Caller("a", "a_0", first, blocks=True))
    in_b = b.work(*b.queue)
    _, younger = asking.ask("a", Caller("b", "b_0", in_b, blocks=True))
    answered_early = a.work(*a.queue, instance="a_1")
    a.batches["a_1"] = None
    a.kept.append((answered_early, first))
    await asyncio.sleep(0.2)
    assert "deadlock" in error_of(younger).message
    assert older == []


class Walked(list[Inference]):
    """A batch that counts how often it is walked through."""

    times = 0

    @override
    def __iter__(self) -> collections.abc.Iterator[Inference]:
        self.times += 1
        return super().__iter__()


async def test_a_look_walks_through_a_batch_once_however_many_calls_it_made() -> None:
    a, b = ScriptedModel("a"), ScriptedModel("b")
    asking = Asking(a, b)
    batch = Walked(from_client("a") for _ in range(3))
    caller = Caller("a", "a_0", batch, blocks=False)
    for _ in range(50):
        asking.ask("b", caller)
    asking.calls._check()
    assert 0 < batch.times <= 3


async def test_a_call_that_is_given_a_trace_becomes_a_child_of_it() -> None:
    model = ScriptedModel("a")
    asking = Asking(model)
    parent = unittest.mock.create_autospec(RecordsInference)
    got: list[InferResponse] = []
    caller = Caller("absent", "absent_0", None, blocks=False)
    asking.calls.begin(
        request("a"), caller=caller, decoupled=False, on_response=got.append, traced=parent
    )
    (inference,) = model.queue
    child = parent.child.return_value
    child.begins.assert_called_once_with(model, inference)
    response = answered()
    inference.on_response(response)
    child.responds.assert_called_once_with(inference, response)
    assert got == [response]
