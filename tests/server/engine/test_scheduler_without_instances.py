"""A model whose scheduler has no instances and sends each request on to another model, as an ensemble of one step does."""

import asyncio
import functools
import typing

import msgspec
import pytest
from typing_extensions import override

from naiad.core.inference import Cancellable, Inference, OnResponse
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import InferResponse
from naiad.engine.bls.model_calls import ModelCalls
from naiad.engine.engine import ServingEngine
from naiad.engine.instances.factory import ModelInstances
from naiad.engine.model import Model
from naiad.errors import ErrorCode, FailureReason, InferenceError, not_found, unavailable
from naiad.hosts.host import DeferredResponse
from naiad.metrics.statistics import ModelStatistics
from naiad.repository.control_mode import ControlMode
from naiad.scheduling.ensemble.scheduler import EnsembleScheduler
from naiad.scheduling.instances.resources import UnlimitedResources
from naiad.scheduling.occupancy import Occupancy
from naiad.scheduling.relays.calls import Caller, CallInProgress, Submit
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from naiad.scheduling.scheduler import Scheduler, drain
from tests.support.clock import LoopClock
from tests.support.ensembles import bound, ensemble, model, step
from tests.support.inferences import make_config, make_request, make_tensor
from tests.support.scheduled import BACKEND_FAILED, ScheduledModel, turn

pytestmark = pytest.mark.looptime

FRONT, STEP = "front", "step"


class _Call(CallInProgress, kw_only=True, eq=False):
    batch: list[Inference]
    on_response: OnResponse

    @override
    def made_by(self) -> Caller:
        return Caller(FRONT, FRONT, self.batch, blocks=True)

    @override
    def take(self, response: InferResponse) -> None:
        self.on_response(response)


class ForwardingScheduler:
    """Implements `Scheduler`: one call of the model "step" per inference."""

    def __init__(self, submit: Submit, clock: LoopClock) -> None:
        self.statistics = ModelStatistics()
        self._submit_to = submit
        self._now = clock.monotonic_ns
        self._dispatcher = ResponseDispatcher(
            model=FRONT, version=1, statistics=self.statistics, clock=clock
        )
        self._steps: dict[Inference, list[Inference]] = {}
        self._made: dict[Inference, Cancellable] = {}
        self._stopping = False
        self._drained = asyncio.Event()

    def submit(self, inference: Inference) -> None:
        if self._stopping:
            raise unavailable("stopping")
        batch = [inference]
        self._steps[inference] = batch
        inference.queued_ns = self._now()
        inference.on_cancel = self._cancel
        call = self._made[inference] = _Call(
            self._now(),
            request=msgspec.structs.replace(inference.request, model_name=STEP),
            batch=batch,
            on_response=functools.partial(self._on_response, inference),
        )
        self._submit_to(call)

    def inflight(self) -> int:
        return len(self._steps)

    def occupancy(self) -> Occupancy:
        return Occupancy([(FRONT, batch) for batch in self._steps.values()], lambda _: False)

    def ready_now(self) -> bool | None:
        return not self._stopping

    async def ready(self) -> bool:
        return not self._stopping

    def resize(self, added: object, removed: object) -> None:
        raise AssertionError("it has no instances")

    async def stop(self) -> None:
        self._stopping = True
        self._check_drained()
        await drain(self._drained, abandoned=self._abandoned, abort=self._abort)

    def _on_response(self, inference: Inference, response: InferResponse) -> None:
        if self._steps.pop(inference, None) is None:
            return
        self._made.pop(inference, None)
        if response.error is not None:
            self._dispatcher.fail(inference, response.error)
        else:
            own = msgspec.structs.replace(response, model_name=FRONT)
            self._dispatcher.respond(DeferredResponse(inference, own, inference.queued_ns))
        self._check_drained()

    def _cancel(self, inference: Inference) -> None:
        if inference in self._made:
            self._made[inference].cancel()

    def _abandoned(self) -> set[Inference]:
        left = set(self._steps)
        return left if all(inference.cancelled for inference in left) else set()

    def _abort(self, why: str, code: ErrorCode, reason: FailureReason) -> None:
        for inference in tuple(self._steps):
            del self._steps[inference]
            self._dispatcher.fail(inference, InferenceError(code, why, reason=reason))
        self._check_drained()

    def _check_drained(self) -> None:
        if self._stopping and not self._steps:
            self._drained.set()


class Models:
    """The models "front" and "step", as a repository and for calls between models."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        self.calls = ModelCalls(clock=clock)
        self.scheduled = ScheduledModel(name=STEP)
        self.front = ForwardingScheduler(self.calls.submit, clock)
        self._models = {
            name: Model(
                config=make_config(name=name),
                version=1,
                scheduler=scheduler,
                instances=ModelInstances(),
                resources=UnlimitedResources(),
                clock=clock,
            )
            for name, scheduler in self._schedulers().items()
        }
        self.latest: dict[str, Model] = {}
        self.calls.open(self.model, loop)
        repository: typing.Any = self
        self.engine = ServingEngine(
            repository=repository,
            server_id="s",
            version="1",
            strict_readiness=True,
            control_mode=ControlMode.NONE,
        )
        self.responses: list[InferResponse] = []

    def _schedulers(self) -> dict[str, Scheduler]:
        return {FRONT: self.front, STEP: self.scheduled.scheduler}

    def get(self, name: str, version: int = LATEST, _namespace: str = "") -> Model:
        if name not in self._models:
            raise not_found(name)
        return self._models[name]

    model = get

    def infer(self, request_id: str = "1") -> Inference:
        inference = self.engine.infer(request(request_id), self.responses.append)
        assert inference is not None
        return inference


def request(request_id: str = "", model: str = FRONT) -> InferRequest:
    made = make_request(make_tensor("x", 1, 1), request_id=request_id)
    return msgspec.structs.replace(made, model_name=model)


async def test_a_request_goes_to_the_step_and_its_response_back() -> None:
    models = Models()
    models.infer("7")
    assert models.front.inflight() == 1
    models.scheduled.host.finish()
    (response,) = models.responses
    assert (response.model_name, response.id, response.error) == (FRONT, "7", None)
    assert models.front.inflight() == 0
    counted = models.engine.model(FRONT).statistics
    assert (counted.success_count, models.scheduled.statistics.success_count) == (1, 1)


async def test_the_error_of_the_step_is_the_response() -> None:
    models = Models()
    models.infer()
    models.scheduled.host.fail(BACKEND_FAILED)
    (response,) = models.responses
    assert response.error is not None
    assert response.error.message == BACKEND_FAILED.message
    assert models.engine.model(FRONT).statistics.fail_count == 1


async def test_cancelling_cancels_the_step() -> None:
    models = Models()
    models.infer()
    waiting = models.infer("2")
    waiting.cancel()
    assert [response.id for response in models.responses] == ["2"]
    assert models.scheduled.scheduler.inflight() == 1
    models.scheduled.host.finish()
    models.scheduled.nothing_left()


async def test_it_is_ready_and_stops_without_instances() -> None:
    models = Models()
    model = models.engine.model(FRONT)
    assert await models.engine.model_ready(FRONT)
    models.infer()
    stopping = asyncio.create_task(model.stop())
    await turn()
    assert not model.ready_now()
    assert models.engine.infer(request("2"), models.responses.append) is None
    models.scheduled.host.finish()
    await stopping
    await model.stop()
    assert [response.error is None for response in models.responses] == [False, True]


async def test_a_step_that_calls_its_own_ensemble_is_aborted() -> None:
    models = Models()
    models.engine.infer(request("1", STEP), models.responses.append)
    batch = models.scheduled.host.out
    assert batch is not None
    got: list[InferResponse] = []
    models.calls.begin(
        request("2"),
        caller=Caller(STEP, "step_0_0", batch, blocks=True),
        decoupled=False,
        on_response=got.append,
    )
    await asyncio.sleep(1)
    (response,) = got
    assert response.error is not None
    assert "deadlock" in response.error.message
    assert f"'{FRONT}' waits for model '{STEP}' (held: step_0_0)" in response.error.message
    assert models.front.inflight() == 0
    models.scheduled.host.finish()
    models.scheduled.nothing_left()


async def test_calls_of_an_ensemble_that_only_take_long_go_on() -> None:
    models = Models()
    models.infer("1")
    models.infer("2")
    await asyncio.sleep(10)
    assert models.responses == []
    models.scheduled.host.finish()
    models.scheduled.host.finish()
    assert [response.error for response in models.responses] == [None, None]


async def test_requests_of_an_ensemble_that_wait_for_one_instance_are_not_aborted() -> None:
    """Two steps have the same model, whose only instance is busy with another request of the ensemble."""
    models = Models()
    steps = step(STEP, "x=x", "y=t"), step(STEP, "x=t", "y=y")
    config = bound(ensemble("x", "y", *steps, name=FRONT), model(STEP, "x", "y"))
    front = EnsembleScheduler(
        config,
        version=1,
        submit=models.calls.submit,
        statistics=ModelStatistics(),
        clock=LoopClock(asyncio.get_running_loop()),
    )
    responses: list[InferResponse] = []
    for _ in range(3):
        front.submit(Inference(request(), responses.append, batch_size=1, received_ns=0))
    await asyncio.sleep(10)
    assert responses == []
    assert front.inflight() == 3
    for _ in range(6):
        models.scheduled.host.fail(BACKEND_FAILED)
        if not front.inflight():
            break
    assert [response.error is not None for response in responses] == [True] * 3
    models.scheduled.nothing_left()
