"""Chains over real schedulers: the requests of a batch go on to the next step together, and each of them ends by itself."""

import asyncio
import gc
import weakref

import numpy as np
import pytest

from naiad.config.model_config import DynamicBatching, ModelConfig, QueuePolicy
from naiad.core.datatypes import FP32, INT32
from naiad.core.inference import Inference
from naiad.core.request import InferRequest, Parameters
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.engine.bls.model_calls import ModelCalls
from naiad.engine.instances.factory import ModelInstances
from naiad.engine.model import Model
from naiad.errors import ErrorCode, FailureReason, InferenceError, not_found
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.ensemble.scheduler import EnsembleScheduler
from naiad.scheduling.instances.resources import UnlimitedResources
from tests.support.clock import LoopClock
from tests.support.ensembles import bound, ensemble, model, number, step
from tests.support.scheduled import ScheduledModel, turn

pytestmark = pytest.mark.looptime

A, B = model("a", "i", "o"), model("b", "i", "o")
CHAIN = bound(ensemble("x", "y", step("a", "i=x", "o=t"), step("b", "i=t", "o=y")), A, B)
FAILED = InferenceError(ErrorCode.INTERNAL, "broken", reason=FailureReason.BACKEND)


class World:
    """The models "a" and "b", which add 1, and the ensemble of both."""

    def __init__(
        self,
        config: ModelConfig = CHAIN,
        *,
        second: DynamicBatching | None = None,
        takes_s: float | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        self.calls = ModelCalls(clock=clock)
        self.a = ScheduledModel(DynamicBatching(), name="a", takes_s=takes_s)
        self.b = ScheduledModel(
            DynamicBatching() if second is None else second, name="b", takes_s=takes_s
        )
        self.models = {
            config.name: Model(
                config=config,
                version=1,
                scheduler=scheduled.scheduler,
                instances=ModelInstances(),
                resources=UnlimitedResources(),
                clock=clock,
            )
            for config, scheduled in ((A, self.a), (B, self.b))
        }
        for scheduled in (self.a, self.b):
            scheduled.host.respond = _plus_one
        self.calls.open(self._find, loop)
        self.statistics = ModelStatistics()
        self.scheduler = EnsembleScheduler(
            config,
            version=1,
            submit=self.calls.submit,
            statistics=self.statistics,
            clock=clock,
        )
        self.responses: dict[str, InferResponse] = {}

    def _find(self, name: str, _version: int, _namespace: str) -> Model:
        if name not in self.models:
            raise not_found(f"there is no model '{name}'")
        return self.models[name]

    def send(
        self, request_id: str, value: float = 1, *, deadline_ms: float | None = None
    ) -> Inference:
        parameters: Parameters = {} if deadline_ms is None else {"naiad_deadline_ms": deadline_ms}
        request = InferRequest("E", -1, request_id, [number("x", value)], [], parameters)
        inference = Inference(request, self._take, batch_size=1, received_ns=0)
        self.scheduler.submit(inference)
        return inference

    def _take(self, response: InferResponse) -> None:
        assert response.id not in self.responses, "one response each"
        self.responses[response.id] = response

    def values(self) -> dict[str, float]:
        return {
            name: float(response.outputs[0].array[0, 0])
            for name, response in self.responses.items()
            if response.error is None
        }

    def errors(self) -> dict[str, str]:
        return {
            name: response.error.message
            for name, response in self.responses.items()
            if response.error is not None
        }

    def nothing_left(self) -> None:
        assert self.scheduler.inflight() == 0
        for scheduled in (self.a, self.b):
            scheduled.nothing_left()


def _plus_one(inference: Inference) -> InferResponse:
    (tensor,) = inference.request.inputs
    return _response(inference, number("o", float(tensor.array[0, 0]) + 1))


def _response(inference: Inference, *outputs: Tensor) -> InferResponse:
    request = inference.request
    return InferResponse(request.model_name, 1, request.id, list(outputs), {})


async def _in_the_first_step(world: World, count: int = 3) -> list[Inference]:
    sent = [world.send(str(index), index) for index in range(count)]
    await turn()
    assert world.a.host.ids == [[str(index) for index in range(count)]]
    return sent


async def test_a_batch_goes_on_as_a_batch_and_each_request_gets_its_own_values() -> None:
    world = World()
    await _in_the_first_step(world)
    world.a.host.finish()
    await turn()
    assert world.b.host.ids == [["0", "1", "2"]]
    world.b.host.finish()
    assert world.values() == {"0": 2, "1": 3, "2": 4}
    world.nothing_left()


async def _with_three_in_the_first_step() -> World:
    """Behind a request that had the second model look at what steps ask for, and whose config says when a batch waits."""
    world = World(second=DynamicBatching(preferred_batch_sizes=(7,)))
    world.send("before")
    for scheduled in (world.a, world.b):
        await turn()
        scheduled.host.finish()
    for index in range(3):
        world.send(str(index), index)
    await turn()
    return world


async def test_a_batch_of_most_requests_is_in_the_next_step_before_the_loop_goes_on() -> None:
    world = await _with_three_in_the_first_step()
    world.send("3")
    world.send("4")
    world.a.host.finish()
    assert world.b.host.ids[1:] == [["0", "1", "2"]]


async def test_a_batch_of_fewer_waits_for_others_on_their_way() -> None:
    world = await _with_three_in_the_first_step()
    for late in ("3", "4", "5"):
        world.send(late)
    world.a.host.finish()
    assert world.b.host.ids[1:] == []
    await turn()
    assert world.b.host.ids[1:] == [["0", "1", "2"]]


async def test_steps_and_models_count_all_requests() -> None:
    world = World()
    await _in_the_first_step(world)
    await asyncio.sleep(0.002)
    world.a.host.finish(input_ns=100, output_ns=200)
    await asyncio.sleep(0.003)
    world.b.host.finish()
    first, second = world.statistics.steps
    assert (first.count, first.failures, first.total_ns) == (3, 0, 6_000_000)
    assert (second.count, second.failures, second.total_ns) == (3, 0, 9_000_000)
    assert (first.compute_ns, second.compute_ns) == (6_000_000, 9_000_000)
    assert world.a.statistics.success_count == world.b.statistics.success_count == 3
    assert world.statistics.success_count == 3
    assert world.statistics.compute_input_ns == 300
    assert world.statistics.compute_output_ns == 600
    assert world.statistics.compute_infer_ns == 3 * 5_000_000 - 900


async def test_each_request_of_a_batch_is_validated_by_its_own_shape_and_datatype() -> None:
    def respond(inference: Inference) -> InferResponse:
        outputs = {
            "1": number("o", 5, 6),  # two rows
            "2": Tensor("o", FP32, (1, 2), np.zeros((1, 2), np.float32)),
            "4": Tensor("o", INT32, (1, 1), np.zeros((1, 1), np.int32)),
        }
        return _response(inference, outputs.get(inference.request.id) or number("o", 7))

    world = World()
    world.a.host.respond = respond
    await _in_the_first_step(world, 6)
    world.a.host.finish()
    await turn()
    assert world.b.host.ids == [["0", "1", "3", "5"]]
    world.b.host.finish()
    errors = world.errors()
    assert errors.keys() == {"2", "4"}
    assert "shape" in errors["2"]
    assert "INT32" in errors["4"]
    assert world.b.statistics.inference_count == 1 + 2 + 1 + 1
    assert world.values() == {"0": 8, "1": 6, "3": 8, "5": 8}
    world.nothing_left()


async def test_one_that_fails_ends_and_the_others_go_on() -> None:
    world = World()
    sent = await _in_the_first_step(world)
    out = world.a.host.out
    assert out is not None
    good = [_plus_one(each) for each in out]
    bad = InferResponse("a", 1, "1", [], {}, FAILED)
    world.a.host.finish_with([good[0], bad, good[2]])
    assert world.errors() == {"1": "in ensemble 'E', broken (step 0: model 'a')"}
    await turn()
    assert world.b.host.ids == [["0", "2"]]
    world.b.host.finish()
    assert world.values() == {"0": 2, "2": 4}
    assert all(each.completed for each in sent)
    world.nothing_left()


async def test_one_without_its_output_ends_and_the_others_go_on() -> None:
    world = World()
    await _in_the_first_step(world)
    out = world.a.host.out
    assert out is not None
    good = [_plus_one(each) for each in out]
    world.a.host.finish_with([good[0], _response(out[1]), good[2]])
    assert "in ensemble 'E'" in world.errors()["1"]
    await turn()
    world.b.host.finish()
    assert world.values() == {"0": 2, "2": 4}
    world.nothing_left()


async def test_one_that_fails_in_the_last_step_ends_alone() -> None:
    world = World()
    await _in_the_first_step(world)
    world.a.host.finish()
    await turn()
    out = world.b.host.out
    assert out is not None
    good = [_plus_one(each) for each in out]
    bad = InferResponse("b", 1, "1", [], {}, FAILED)
    world.b.host.finish_with([good[0], bad, _response(out[2])])
    assert world.errors() == {"1": "in ensemble 'E', broken (step 1: model 'b')"}
    assert world.responses.pop("2").outputs == []
    assert world.values() == {"0": 2}
    assert world.statistics.success_count == 2
    second = world.statistics.steps[1]
    assert (second.count, second.failures) == (3, 1)
    world.nothing_left()


async def test_one_that_is_cancelled_in_the_last_step_gets_no_values() -> None:
    world = World()
    sent = await _in_the_first_step(world)
    world.a.host.finish()
    await turn()
    sent[2].cancel()
    world.b.host.finish()
    assert world.values() == {"0": 2, "1": 3}
    assert set(world.errors()) == {"2"}
    world.nothing_left()


async def test_a_model_that_names_its_sequence_is_asked_and_passed_on_one_by_one() -> None:
    world = World()
    await _in_the_first_step(world)
    for host in (world.a.host, world.b.host):
        out = host.out
        assert out is not None
        made = [_plus_one(each) for each in out]
        host.finish_with(
            [
                InferResponse(each.model_name, 1, each.id, each.outputs, {"sequence_id": 7})
                for each in made
            ]
        )
        await turn()
    assert world.values() == {"0": 2, "1": 3, "2": 4}
    assert [each.parameters["sequence_id"] for each in world.responses.values()] == [7, 7, 7]
    world.nothing_left()


async def test_a_cancelled_one_leaves_the_queue_of_the_second_step() -> None:
    world = World()
    sent = await _in_the_first_step(world)
    world.a.host.finish()
    sent[1].cancel()
    assert list(world.responses) == ["1"]
    await turn()
    assert world.b.host.ids == [["0", "2"]]
    world.b.host.finish()
    assert world.values() == {"0": 2, "2": 4}
    world.nothing_left()


async def test_one_that_is_cancelled_in_the_first_step_does_not_begin_the_second() -> None:
    world = World()
    sent = await _in_the_first_step(world)
    sent[0].cancel()
    world.a.host.finish()
    await turn()
    assert world.b.host.ids == [["1", "2"]]
    world.b.host.finish()
    assert set(world.errors()) == {"0"}
    assert world.b.statistics.fail_count == 0
    world.nothing_left()


async def test_a_response_that_cancels_another_request_of_its_batch_ends_both() -> None:
    world = World()
    sent = await _in_the_first_step(world)
    out = world.a.host.out
    assert out is not None

    def cancel_the_others(response: InferResponse) -> None:
        world.responses["2"] = response
        sent[0].cancel()
        sent[1].cancel()

    sent[2].on_response = cancel_the_others
    good = [_plus_one(each) for each in out]
    world.a.host.finish_with([good[0], good[1], InferResponse("a", 1, "2", [], {}, FAILED)])
    await turn()
    assert set(world.errors()) == {"0", "1", "2"}
    world.nothing_left()


async def test_a_second_step_that_is_full_refuses_those_for_which_it_has_no_place() -> None:
    world = World(second=DynamicBatching(default_queue_policy=QueuePolicy(max_queue_size=2)))
    world.b.send()
    await turn()  # it is busy
    await _in_the_first_step(world)
    world.a.host.finish()
    (refused,) = world.errors().items()
    assert refused[0] == "2"
    assert "Exceeds maximum queue size" in refused[1]
    assert world.models["b"].statistics.fail_count == 1
    await _finish_foreign(world)
    world.b.host.finish()
    assert world.values() == {"0": 2, "1": 3}
    world.nothing_left()


async def _finish_foreign(world: World) -> None:
    """End the batch that is not of the ensemble."""
    out = world.b.host.out
    assert out is not None
    world.b.host.finish_with([_response(each) for each in out])
    await turn()


async def test_requests_time_out_in_the_queue_of_the_second_step() -> None:
    policy = QueuePolicy(default_timeout_us=1_000)
    world = World(second=DynamicBatching(default_queue_policy=policy))
    world.b.send()
    await turn()
    await _in_the_first_step(world)
    world.a.host.finish()
    await asyncio.sleep(0.01)
    assert set(world.errors()) == {"0", "1", "2"}
    await _finish_foreign(world)
    world.nothing_left()


async def test_requests_end_when_the_model_of_the_second_step_is_gone() -> None:
    world = World()
    await _in_the_first_step(world)
    del world.models["b"]
    world.a.host.finish()
    assert world.errors() == dict.fromkeys(
        "012", "in ensemble 'E', there is no model 'b' (step 1: model 'b')"
    )
    world.nothing_left()


async def test_requests_end_when_the_second_step_stops_or_dies() -> None:
    world = World()
    await _in_the_first_step(world)
    stopping = asyncio.ensure_future(world.models["b"].stop())
    await turn()
    world.a.host.finish()
    assert set(world.errors()) == {"0", "1", "2"}
    assert world.b.statistics.fail_count == 3
    await stopping
    world.nothing_left()


async def test_requests_end_when_the_worker_of_the_second_step_dies() -> None:
    world = World()
    await _in_the_first_step(world)
    world.a.host.finish()
    await turn()
    world.b.host.die(FAILED)
    assert world.errors() == dict.fromkeys("012", "in ensemble 'E', broken (step 1: model 'b')")
    world.nothing_left()


async def test_a_stop_of_the_server_ends_requests_between_their_steps() -> None:
    world = World()
    await _in_the_first_step(world)
    world.a.host.finish()
    world.calls.close()
    assert set(world.errors()) == {"0", "1", "2"}
    await turn()
    assert world.scheduler.inflight() == 0


async def test_nothing_of_a_batch_is_left_in_reference_cycles() -> None:
    world = World()
    await turn()
    gc.collect()
    gc.disable()
    try:
        sent = await _in_the_first_step(world)
        ended = [weakref.ref(each.request.inputs[0].array) for each in sent]
        del sent
        world.a.host.finish()
        await turn()
        world.b.host.finish()
        for scheduled in (world.a, world.b):
            scheduled.host.batches.clear()
        world.responses.clear()
        await turn()
        assert [each() for each in ended] == [None] * 3
    finally:
        gc.enable()


async def test_the_second_step_has_what_is_left_of_a_deadline() -> None:
    """60 ms are enough for each step by itself, and not for both, as the second one takes 40 ms."""
    world = World(takes_s=0.040)
    world.send("warms")
    await asyncio.sleep(1)
    for name, allowed_ms in (("late", 60), ("in time", 85)):
        world.send(name, deadline_ms=allowed_ms)
        await asyncio.sleep(1)
    assert set(world.values()) == {"warms", "in time"}
    assert (
        "The deadline of 20 ms (naiad_deadline_ms) cannot be met: model 'm' would"
        in world.errors()["late"]
    )
    world.nothing_left()


async def test_a_deadline_that_is_over_before_the_second_step_refuses_it() -> None:
    world = World(takes_s=0.040)
    world.send("warms")
    await asyncio.sleep(1)
    world.a.host.takes_s = 0.200
    world.send("late", deadline_ms=100)
    await asyncio.sleep(1)
    assert "(step 1: model 'b')" in world.errors()["late"]
    world.nothing_left()
