"""The scheduler of ensembles over scripted models: what is called when, and what the client gets."""

import asyncio
import gc
import weakref

import msgspec
import pytest

from naiad.config.model_config import ModelConfig
from naiad.core.flow import Flow
from naiad.core.inference import Inference
from naiad.core.request import InferRequest, RequestedOutput
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.ensemble.scheduler import EnsembleScheduler
from naiad.scheduling.ensemble.streaming_run import AHEAD
from naiad.scheduling.scheduler import UNLOAD_GRACE_S, UNLOAD_LIMIT_S
from tests.support.clock import LoopClock
from tests.support.ensembles import Models, bound, ensemble, model, number, step
from tests.support.scheduled import turn

pytestmark = pytest.mark.looptime

A, B = model("a", "i", "o"), model("b", "i", "o")
CHAIN = bound(ensemble("x", "y", step("a", "i=x", "o=t"), step("b", "i=t", "o=y")), A, B)
DIAMOND = bound(
    ensemble(
        "x",
        "y z",
        step("a", "i=x", "o=t"),
        step("b", "i=t", "o=l"),
        step("c", "i=t", "o=z"),
        step("d", "p=l q=z", "o=y"),
    ),
    A,
    B,
    model("c", "i", "o"),
    model("d", "p q", "o"),
)
STREAM = bound(
    ensemble("x", "y", step("a", "i=x", "o=t"), step("b", "i=t", "o=y")),
    model("a", "i", "o", decoupled=True),
    B,
)


class Served:
    """An ensemble, and everything that its clients saw."""

    def __init__(self, config: ModelConfig) -> None:
        self.models = Models()
        self.statistics = ModelStatistics()
        self.clock = LoopClock(asyncio.get_running_loop())
        self.scheduler = EnsembleScheduler(
            config,
            version=1,
            submit=self.models,
            statistics=self.statistics,
            clock=self.clock,
        )
        self.responses: list[InferResponse] = []

    def send(
        self,
        *inputs: Tensor,
        outputs: str = "",
        flow: Flow | None = None,
        request_id: str = "7",
        parameters: dict[str, bool | int | float | str] | None = None,
    ) -> Inference:
        request = InferRequest(
            "E",
            -1,
            request_id,
            list(inputs),
            [RequestedOutput(name) for name in outputs.split()],
            {"p": 1} if parameters is None else parameters,
            priority=2,
            timeout_us=5,
            correlation_id=42,
            flags=1,
        )
        inference = Inference(
            request,
            self.responses.append,
            batch_size=1,
            received_ns=self.clock.monotonic_ns(),
            flow=flow,
        )
        self.scheduler.submit(inference)
        return inference

    def values(self) -> list[dict[str, list[float]]]:
        return [
            {each.name: each.array.ravel().tolist() for each in response.outputs}
            for response in self.responses
        ]

    def error(self) -> InferenceError:
        (response,) = self.responses
        assert response.error is not None
        assert response.final
        return response.error


async def test_a_step_begins_when_its_inputs_are_there() -> None:
    served = Served(CHAIN)
    served.send(number("x", 1))
    assert served.models.names() == ["a"]
    assert served.models.calls[0].inputs == {"i": [1]}
    served.models.calls[0].respond(number("o", 2))
    assert served.models.names() == ["a", "b"]
    assert served.models.calls[1].inputs == {"i": [2]}
    served.models.calls[1].respond(number("o", 3))
    assert served.values() == [{"y": [3]}]
    assert (served.responses[0].model_name, served.responses[0].id) == ("E", "7")
    assert served.scheduler.inflight() == 0


async def test_each_step_has_what_is_left_of_a_deadline() -> None:
    served = Served(DIAMOND)
    sent = served.send(number("x", 1), parameters={"naiad_deadline_ms": 50})
    await asyncio.sleep(0.020)
    served.models.calls[0].respond(number("o", 2))
    served.models.of("b")[0].respond(number("o", 10))
    await asyncio.sleep(0.040)
    served.models.of("c")[0].respond(number("o", 20))
    left = [call.request.parameters["naiad_deadline_ms"] for call in served.models.calls]
    assert left == pytest.approx([50, 30, 30, 0.001])
    assert sent.request.parameters == {"naiad_deadline_ms": 50}


async def test_a_step_that_waits_for_a_place_has_what_is_left_when_it_is_called() -> None:
    served = Served(bound(ensemble("x", "y", step("a", "i=x", "o=y"), limit=1), A))
    for _ in range(2):
        served.send(number("x", 1), parameters={"naiad_deadline_ms": 50.0})
    await asyncio.sleep(0.020)
    served.models.calls[0].respond(number("o", 2))
    left = [call.request.parameters["naiad_deadline_ms"] for call in served.models.calls]
    assert left == pytest.approx([50, 30])


@pytest.mark.parametrize("value", ["50", True, 0, -1])
async def test_a_deadline_that_is_not_a_time_reaches_the_steps_as_it_is(value: str | int) -> None:
    """They say what is wrong with it."""
    served = Served(CHAIN)
    served.send(number("x", 1), parameters={"naiad_deadline_ms": value})
    assert served.models.calls[0].request.parameters == {"naiad_deadline_ms": value}


async def test_steps_that_do_not_need_each_other_run_at_the_same_time() -> None:
    served = Served(DIAMOND)
    served.send(number("x", 1))
    served.models.calls[0].respond(number("o", 2))
    assert served.models.names() == ["a", "b", "c"]
    served.models.of("c")[0].respond(number("o", 20))
    assert served.models.names() == ["a", "b", "c"]
    served.models.of("b")[0].respond(number("o", 10))
    assert served.models.of("d")[0].inputs == {"p": [10], "q": [20]}
    served.models.of("d")[0].respond(number("o", 30))
    assert served.values() == [{"y": [30], "z": [20]}]


async def test_only_steps_that_the_requested_outputs_need_run() -> None:
    """As the reference documents it (row 14)."""
    served = Served(DIAMOND)
    served.send(number("x", 1), outputs="z")
    served.models.calls[0].respond(number("o", 2))
    assert served.models.names() == ["a", "c"]
    served.models.of("c")[0].respond(number("o", 20))
    assert served.values() == [{"z": [20]}]


async def test_a_request_goes_to_its_steps_with_all_that_it_says() -> None:
    """As the reference documents it (row 14)."""
    served = Served(CHAIN)
    served.send(number("x", 1))
    asked = served.models.calls[0].request
    assert (asked.id, asked.parameters, asked.priority, asked.timeout_us) == ("7", {"p": 1}, 2, 5)
    assert (asked.correlation_id, asked.flags) == (42, 1)
    assert [output.name for output in asked.requested_outputs] == ["o"]
    served.models.calls[0].respond(
        number("o", 2), parameters={"sequence_id": 43, "sequence_end": True}
    )
    asked = served.models.calls[1].request
    assert (asked.correlation_id, asked.flags) == (43, 2)
    served.models.calls[1].respond(number("o", 3))
    assert served.responses[0].parameters == {
        "sequence_id": 43,
        "sequence_start": False,
        "sequence_end": True,
    }


async def test_tensors_are_passed_on_without_a_copy_and_cannot_be_changed() -> None:
    served = Served(CHAIN)
    served.send(number("x", 1))
    made = number("o", 2)
    served.models.calls[0].respond(made)
    given = served.models.calls[1].request.inputs[0].array
    assert given.base is made.array or given.base is made.array.base
    assert not given.flags.writeable


async def test_a_tensor_is_dropped_when_no_step_needs_it_any_more() -> None:
    served = Served(DIAMOND)
    served.send(number("x", 1), outputs="y")
    made = number("o", 2)
    array = weakref.ref(made.array)
    served.models.calls[0].respond(made)
    del made
    for name in "bc":
        call = served.models.of(name)[0]
        served.models.calls.remove(call)
        call.respond(number("o", 3))
        del call
    assert array() is None
    served.models.of("d")[0].respond(number("o", 4))


async def test_nothing_is_left_in_reference_cycles() -> None:
    gc.collect()
    gc.disable()
    try:
        for config in (CHAIN, STREAM):
            served = Served(config)
            sent = number("x", 1)
            ended = weakref.ref(sent.array)
            inference = served.send(sent, flow=Flow())
            served.models.calls[0].respond(number("o", 2), final=config is CHAIN)
            served.models.calls[1].respond(number("o", 3))
            if config is STREAM:
                served.models.calls[0].respond()
            assert inference.completed
            served.models.calls.clear()
            del inference, sent
            assert ended() is None
    finally:
        gc.enable()


async def test_the_error_of_a_step_is_that_of_the_request_with_the_step() -> None:
    """As the reference documents it (row 14)."""
    served = Served(CHAIN)
    served.send(number("x", 1))
    served.models.calls[0].fail("out of luck", ErrorCode.UNAVAILABLE)
    error = served.error()
    assert error.code is ErrorCode.UNAVAILABLE
    assert error.message == "in ensemble 'E', out of luck (step 0: model 'a')"
    assert error.reason is FailureReason.OTHER
    assert served.models.names() == ["a"]
    assert served.statistics.success_count == 0
    # As in the reference (row 8.16).
    assert served.statistics.failures[FailureReason.OTHER] == 2


async def test_after_an_error_no_step_begins_and_those_in_progress_are_awaited() -> None:
    served = Served(DIAMOND)
    served.send(number("x", 1))
    served.models.calls[0].respond(number("o", 2))
    served.models.of("b")[0].fail("broken")
    assert served.responses == []
    assert served.scheduler.inflight() == 1
    assert served.models.of("c")[0].cancelled == 0
    served.models.of("c")[0].respond(number("o", 20))
    assert "broken" in served.error().message
    assert served.models.names() == ["a", "b", "c"]


async def test_a_model_that_refuses_at_once_ends_the_request() -> None:
    served = Served(DIAMOND)
    served.models.refuses["b"] = "queue is full"
    served.send(number("x", 1))
    served.models.calls[0].respond(number("o", 2))
    if served.models.of("c"):
        served.models.of("c")[0].respond(number("o", 3))
    assert "queue is full" in served.error().message
    assert served.scheduler.inflight() == 0


async def test_cancelling_cancels_the_steps_in_progress() -> None:
    """As the reference documents it (row 14)."""
    served = Served(DIAMOND)
    inference = served.send(number("x", 1))
    served.models.calls[0].respond(number("o", 2))
    inference.cancel()
    assert [call.cancelled for call in served.models.calls] == [0, 1, 1]
    served.models.of("b")[0].respond(number("o", 3))  # it has not looked
    assert served.models.names() == ["a", "b", "c"]
    served.models.of("c")[0].fail("", ErrorCode.CANCELLED)
    error = served.error()
    assert (error.code, error.reason) == (ErrorCode.CANCELLED, FailureReason.CANCELED)
    assert served.statistics.failures[FailureReason.CANCELED] == 1


async def test_an_optional_input_that_is_absent_is_absent_for_the_step() -> None:
    """As the reference documents it (row 14)."""
    config = bound(ensemble("x u?", "y", step("a", "i=x j=u", "o=y")), model("a", "i j?", "o"))
    served = Served(config)
    served.send(number("x", 1))
    assert served.models.calls[0].inputs == {"i": [1]}
    served.models.calls[0].respond(number("o", 2))
    served.send(number("x", 1), number("u", 5))
    assert served.models.calls[1].inputs == {"i": [1], "j": [5]}
    served.models.calls[1].respond(number("o", 2))


async def test_an_output_that_a_model_leaves_out_is_an_absent_input() -> None:
    config = bound(
        ensemble("x", "y", step("a", "i=x", "o=t p=u"), step("b", "i=t j=u", "o=y")),
        model("a", "i", "o p"),
        model("b", "i j?", "o"),
    )
    served = Served(config)
    served.send(number("x", 1))
    served.models.calls[0].respond(number("o", 2))
    assert served.models.calls[1].inputs == {"i": [2]}
    served.models.calls[1].respond(number("o", 3))
    assert served.values() == [{"y": [3]}]


async def test_steps_with_and_without_a_batch_dimension_mix() -> None:
    """As the reference documents it (row 14)."""
    config = bound(
        ensemble("x", "y", step("a", "i=x", "o=t"), step("b", "i=t", "o=y")),
        model("a", "i", "o", max_batch_size=0),
        B,
    )
    served = Served(config)
    served.send(number("x", 1))
    assert served.models.calls[0].request.inputs[0].shape == (1,)
    served.models.calls[0].respond(
        Tensor("o", number("o", 1).datatype, (1,), number("o", 2).array.reshape(1))
    )
    assert served.models.calls[1].request.inputs[0].shape == (1, 1)
    served.models.calls[1].respond(number("o", 3))
    assert served.responses[0].outputs[0].shape == (1, 1)


async def test_a_decoupled_step_makes_a_response_of_each_of_its_responses() -> None:
    """As the reference documents it (row 14)."""
    served = Served(STREAM)
    served.send(number("x", 1), flow=Flow())
    a = served.models.calls[0]
    a.respond(number("o", 10), final=False)
    served.models.calls[1].respond(number("o", 11))
    a.respond(number("o", 20), final=False)
    a.respond()
    assert [response.final for response in served.responses] == [False]
    served.models.calls[2].respond(number("o", 21))
    assert [(response.final, response.empty) for response in served.responses] == [
        (False, False),
        (True, False),
    ]
    assert served.values() == [{"y": [11]}, {"y": [21]}]
    assert served.statistics.success_count == 1
    assert {k: each.success_count for k, each in served.statistics.responses.items()} == {
        0: 1,
        1: 1,
    }


async def test_a_decoupled_step_that_sends_nothing_ends_the_stream_without_a_response() -> None:
    served = Served(STREAM)
    served.send(number("x", 1), flow=Flow())
    served.models.calls[0].respond()
    (response,) = served.responses
    assert (response.final, response.empty, response.error) == (True, True, None)


async def test_responses_come_in_the_order_of_the_decoupled_step() -> None:
    """The reference sends them as the steps behind it end."""
    served = Served(STREAM)
    served.send(number("x", 1), flow=Flow())
    a = served.models.calls[0]
    for value in (10, 20, 30):
        a.respond(number("o", value), final=False)
    a.respond()
    for index in (3, 1, 2):
        call = served.models.calls[index]
        call.respond(number("o", call.inputs["i"][0] + 1))
    assert served.values() == [{"y": [11]}, {"y": [21]}, {"y": [31]}]
    assert [response.final for response in served.responses] == [False, False, True]


async def test_branches_behind_a_decoupled_step_are_joined_by_the_response_that_they_come_from() -> (
    None
):
    config = bound(
        ensemble(
            "x",
            "y",
            step("a", "i=x", "o=t"),
            step("b", "i=t", "o=l"),
            step("d", "p=l q=t", "o=y"),
        ),
        model("a", "i", "o", decoupled=True),
        B,
        model("d", "p q", "o"),
    )
    served = Served(config)
    served.send(number("x", 1), flow=Flow())
    a = served.models.calls[0]
    a.respond(number("o", 10), final=False)
    a.respond(number("o", 20), final=False)
    first, second = served.models.of("b")
    second.respond(number("o", 21))
    first.respond(number("o", 11))
    assert [call.inputs for call in served.models.of("d")] == [
        {"p": [21], "q": [20]},
        {"p": [11], "q": [10]},
    ]


async def test_an_error_behind_a_decoupled_step_ends_the_stream_with_it() -> None:
    served = Served(STREAM)
    served.send(number("x", 1), flow=Flow())
    a = served.models.calls[0]
    a.respond(number("o", 10), final=False)
    served.models.calls[1].respond(number("o", 11))
    a.respond(number("o", 20), final=False)
    served.models.calls[2].fail("broken")
    a.respond(number("o", 30), final=False)
    assert len(served.models.calls) == 3
    a.respond()
    assert [response.error is None for response in served.responses] == [True, False]
    assert served.responses[-1].final


async def test_a_client_that_does_not_read_pauses_the_decoupled_step() -> None:
    served = Served(STREAM)
    flow = Flow()
    served.send(number("x", 1), flow=flow)
    inner = served.models.calls[0].flow
    assert inner is not None
    flow.pause()
    assert inner.is_full()
    flow.resume()
    assert not inner.is_full()


async def test_a_decoupled_step_pauses_while_the_steps_behind_it_are_far_behind() -> None:
    served = Served(STREAM)
    served.send(number("x", 1), flow=Flow())
    a = served.models.calls[0]
    assert a.flow is not None
    for _ in range(AHEAD - 1):
        a.respond(number("o", 1), final=False)
    assert not a.flow.is_full()
    a.respond(number("o", 1), final=False)
    assert a.flow.is_full()
    served.models.calls[1].respond(number("o", 1))
    assert not a.flow.is_full()


async def test_as_many_requests_of_a_step_run_as_the_config_allows() -> None:
    """As the reference documents it (row 14)."""
    assert CHAIN.ensemble is not None
    limited = msgspec.structs.replace(CHAIN.ensemble, max_inflight_requests=1)
    served = Served(msgspec.structs.replace(CHAIN, ensemble=limited))
    inferences = [served.send(number("x", k), request_id=str(k)) for k in range(4)]
    assert [call.inputs for call in served.models.calls] == [{"i": [0]}]
    occupancy = served.scheduler.occupancy()
    assert [occupancy.waits(each) for each in inferences] == [False, True, True, True]
    assert len(occupancy.executions) == 1
    inferences[1].cancel()
    assert [response.id for response in served.responses] == ["1"]
    served.models.calls[0].respond(number("o", 10))
    assert served.models.names() == ["a", "b", "a"]
    assert served.models.of("a")[1].inputs == {"i": [2]}
    served.models.of("a")[1].fail("broken")
    assert served.models.of("a")[2].inputs == {"i": [3]}


async def test_many_waiting_requests_that_are_refused_at_once_all_end() -> None:
    assert CHAIN.ensemble is not None
    limited = msgspec.structs.replace(CHAIN.ensemble, max_inflight_requests=1)
    served = Served(msgspec.structs.replace(CHAIN, ensemble=limited))
    for _ in range(3_000):
        served.send(number("x", 1))
    served.models.refuses["a"] = "gone"
    served.models.calls[0].fail("gone")
    assert len(served.responses) == 3_000
    assert served.scheduler.inflight() == 0


async def test_a_step_that_has_to_wait_pauses_the_decoupled_step_before_it() -> None:
    assert STREAM.ensemble is not None
    limited = msgspec.structs.replace(STREAM.ensemble, max_inflight_requests=1)
    served = Served(msgspec.structs.replace(STREAM, ensemble=limited))
    served.send(number("x", 1), flow=Flow())
    a = served.models.calls[0]
    assert a.flow is not None
    a.respond(number("o", 1), final=False)
    assert not a.flow.is_full()
    a.respond(number("o", 2), final=False)
    assert a.flow.is_full()
    assert len(served.models.of("b")) == 1
    served.models.of("b")[0].respond(number("o", 3))
    assert len(served.models.of("b")) == 2
    assert not a.flow.is_full()


async def test_the_times_are_the_sums_of_the_steps() -> None:
    """As the reference documents it (row 14)."""
    served = Served(CHAIN)
    served.send(number("x", 1))
    for index, parts in enumerate(((1, 20, 3), (10, 200, 30))):
        call = served.models.calls[index]
        call.took(queue=7, parts=parts)
        call.respond(number("o", 2))
    counted = served.statistics
    assert (counted.success_count, counted.inference_count, counted.execution_count) == (1, 1, 1)
    assert counted.queue_ns == 14
    assert (counted.compute_input_ns, counted.compute_infer_ns, counted.compute_output_ns) == (
        11, 220, 33,
    )  # fmt: skip
    times = served.scheduler.calls.times
    assert [(each.count, each.queue_ns, each.compute_ns) for each in times] == [
        (1, 7, 24),
        (1, 7, 240),
    ]


async def test_stopping_refuses_further_requests_and_finishes_those_in_flight() -> None:
    served = Served(CHAIN)
    served.send(number("x", 1))
    stopping = asyncio.create_task(served.scheduler.stop())
    await turn()
    assert not served.scheduler.ready_now()
    with pytest.raises(InferenceError, match="send the request again") as refused:
        served.send(number("x", 1))
    assert refused.value.code is ErrorCode.UNAVAILABLE
    served.models.calls[0].respond(number("o", 2))
    await asyncio.sleep(UNLOAD_GRACE_S * 2)
    assert not stopping.done()
    served.models.calls[1].respond(number("o", 3))
    await stopping
    assert served.values() == [{"y": [3]}]
    await served.scheduler.stop()


async def test_stopping_gives_up_requests_without_clients_and_at_last_all() -> None:
    for cancelled, after in ((True, UNLOAD_GRACE_S), (False, UNLOAD_LIMIT_S)):
        served = Served(CHAIN)
        inference = served.send(number("x", 1))
        if cancelled:
            inference.cancel()
        start = asyncio.get_running_loop().time()
        await served.scheduler.stop()
        assert asyncio.get_running_loop().time() - start == pytest.approx(after, abs=UNLOAD_GRACE_S)
        assert served.error().code is (ErrorCode.CANCELLED if cancelled else ErrorCode.UNAVAILABLE)
        assert served.models.calls[0].cancelled
        served.models.calls[0].respond(number("o", 2))  # too late
        assert len(served.responses) == 1
