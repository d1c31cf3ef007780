"""Requests for evicted models: each waits for the load, and every wait ends."""

import asyncio
import pathlib

import pytest
from typing_extensions import override

from naiad.config.model_config import DynamicBatching, QueuePolicy
from naiad.core.inference import Inference, RequestContext
from naiad.core.response import InferResponse
from naiad.engine.memory import evicted
from naiad.engine.memory.evicted import EvictedModels
from naiad.errors import ErrorCode, InferenceError
from tests.server.engine.memory.pool_world import FakeModel, World, request


class Context(RequestContext):
    """Of a request: which model runs it."""

    model: object = None

    @override
    def runs(self, model: object, inference: Inference) -> None:
        self.model = model
        super().runs(model, inference)


class Waiting:
    """An evicted model `m`, and the responses to requests for it."""

    def __init__(self, root: pathlib.Path, *, wait_seconds: float = 60) -> None:
        self.world = World(root, limit=150)
        self.world.write(m=100, other=100)
        self.responses: list[InferResponse] = []
        self.models = EvictedModels(
            self.world.repository, wait_seconds=wait_seconds, clock=self.world.clock
        )

    async def evict(self) -> None:
        await self.world.repository.load("m")
        await self.world.repository.load("other")
        assert self.world.states()["m"] == "evicted"

    def ask(self, request_id: str = "", *, priority: int = 0) -> Inference | None:
        model = self.models.find("m", -1)
        assert model is not None
        return model.infer(request("m", request_id, priority=priority), self.responses.append)

    async def error(self) -> InferenceError:
        """That of the only response."""
        await self.world.settled(lambda: bool(self.responses))
        (response,) = self.responses
        assert response.final
        assert response.error is not None
        return response.error

    def block(self) -> asyncio.Event:
        """The next load of `m` waits for this."""
        self.world.gates["m"] = asyncio.Event()
        return self.world.gates["m"]


@pytest.fixture
async def waiting(tmp_path: pathlib.Path) -> Waiting:
    made = Waiting(tmp_path)
    await made.evict()
    return made


async def test_requests_run_once_their_model_is_loaded_again_by_one_load(waiting: Waiting) -> None:
    loads = len(waiting.world.began)
    handles = [waiting.ask() for _ in range(3)]
    assert all(handles)
    assert waiting.models.inflight() == 3
    requests = tuple(waiting.models._waiting["m"].requests)
    await waiting.world.settled(lambda: len(waiting.responses) == 3)
    assert [response.error for response in waiting.responses] == [None] * 3
    assert waiting.models.inflight() == 0
    assert all(each._timer.cancelled() for each in requests)
    assert len(waiting.world.began) == loads + 1
    assert waiting.world.states() == {"m": "READY", "other": "evicted"}
    for handle in handles:
        assert handle is not None
        handle.cancel()
    assert len(waiting.responses) == 3


async def test_requests_run_in_the_order_in_which_they_came(waiting: Waiting) -> None:
    sent = [str(number) for number in range(24)]
    for request_id in sent:
        waiting.ask(request_id)
    await waiting.world.settled(lambda: len(waiting.responses) == 24)
    assert [response.id for response in waiting.responses] == sent


async def test_no_more_requests_wait_than_the_queue_of_the_model_takes(
    tmp_path: pathlib.Path,
) -> None:
    waiting = Waiting(tmp_path)
    waiting.world.batching = DynamicBatching(
        priority_levels=2,
        default_priority_level=2,
        default_queue_policy=QueuePolicy(max_queue_size=3),
        queue_policies={1: QueuePolicy(max_queue_size=1)},
    )
    await waiting.evict()
    handles = [waiting.ask(f"{number}") for number in range(4)]
    handles += [waiting.ask("first", priority=1), waiting.ask("second", priority=1)]
    assert [handle is None for handle in handles] == [False] * 3 + [True, False, True]
    errors = [response.error for response in waiting.responses]
    assert [error and error.code for error in errors] == [ErrorCode.UNAVAILABLE] * 2
    assert [response.id for response in waiting.responses] == ["3", "second"]
    assert errors[0] is not None
    assert "Exceeds maximum queue size: 3 requests wait already for" in errors[0].message
    assert "level 2 of model 'm'" in errors[0].message
    assert handles[0] is not None
    handles[0].cancel()
    assert waiting.ask("after a cancel") is not None
    await waiting.world.settled(lambda: len(waiting.responses) == 7)
    assert [response.error for response in waiting.responses[3:]] == [None] * 4


async def test_nothing_is_kept_of_a_failed_load_after_its_time(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evicted, "RETRY_SECONDS", 0.01)
    waiting.world.failing.add("m")
    waiting.ask()
    await waiting.error()
    await waiting.world.settled(lambda: not waiting.models._failed)
    assert not waiting.models._waiting
    waiting.world.failing.clear()
    assert waiting.ask() is not None
    await waiting.world.settled(lambda: len(waiting.responses) == 2)
    assert waiting.responses[1].error is None


async def test_only_evicted_versions_are_found(waiting: Waiting) -> None:
    assert waiting.models.find("m", 1) is not None
    assert waiting.models.find("m", 2) is None
    assert waiting.models.find("other", -1) is None
    assert waiting.models.find("unknown", -1) is None


async def test_a_load_that_fails_is_the_error_of_its_requests_and_of_those_that_come_soon(
    waiting: Waiting,
) -> None:
    waiting.world.failing.add("m")
    waiting.ask()
    error = await waiting.error()
    assert error.code is ErrorCode.UNAVAILABLE
    assert "model 'm' was evicted and could not be loaded again" in error.message
    assert "cannot run" in error.message
    loads = len(waiting.world.began)
    assert waiting.ask() is None
    assert len(waiting.responses) == 2
    assert len(waiting.world.began) == loads
    assert waiting.world.states()["m"] == "evicted"


async def test_a_request_waits_no_longer_than_its_bound_and_the_load_goes_on(
    tmp_path: pathlib.Path,
) -> None:
    waiting = Waiting(tmp_path, wait_seconds=0.01)
    await waiting.evict()
    gate = waiting.block()
    waiting.ask()
    error = await waiting.error()
    assert error.code is ErrorCode.UNAVAILABLE
    assert "was not loaded again within 0.01 s (--evicted-model-wait-secs)" in error.message
    assert waiting.models.inflight() == 0
    gate.set()
    await waiting.world.settled(lambda: waiting.world.states()["m"] == "READY")
    assert len(waiting.responses) == 1


async def test_a_cancelled_request_is_over_at_once(waiting: Waiting) -> None:
    gate = waiting.block()
    handle = waiting.ask()
    assert handle is not None
    handle.cancel()
    assert (await waiting.error()).code is ErrorCode.CANCELLED
    assert waiting.models.inflight() == 0
    gate.set()
    await waiting.world.settled(lambda: waiting.world.states()["m"] == "READY")
    assert waiting.world.made["m"].requests == []


async def test_a_cancel_after_the_load_reaches_the_model(waiting: Waiting) -> None:
    gate = waiting.block()
    handle = waiting.ask()
    await waiting.world.settled(lambda: waiting.world.began[-1] == "m")
    waiting.world.responds = False
    gate.set()
    await waiting.world.settled(lambda: waiting.world.states()["m"] == "READY")
    await waiting.world.settled(lambda: bool(waiting.world.made["m"].requests))
    assert handle is not None
    handle.cancel()
    inner = waiting.world.made["m"].inference
    assert inner is not None
    assert inner.cancelled
    assert waiting.responses == []


async def test_the_end_of_the_server_ends_the_wait(waiting: Waiting) -> None:
    waiting.block()
    waiting.ask()
    await waiting.world.settled(lambda: waiting.world.began[-1] == "m")
    await waiting.world.repository.unload_all()
    error = await waiting.error()
    assert error.code is ErrorCode.UNAVAILABLE
    assert "the server is stopping" in error.message


async def test_a_model_that_came_back_with_other_traits_refuses_what_was_decoded_before(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = waiting.block()
    waiting.ask()
    await waiting.world.settled(lambda: waiting.world.began[-1] == "m")
    original = FakeModel.__init__

    def decoupled(self: FakeModel, config: object, size: int) -> None:
        original(self, config._replace(decoupled=True), size)  # type: ignore[attr-defined]

    monkeypatch.setattr(FakeModel, "__init__", decoupled)
    gate.set()
    assert "has changed since it was evicted" in (await waiting.error()).message


async def test_a_call_between_models_learns_which_model_runs_it(waiting: Waiting) -> None:
    """So that calls that wait for each other are found."""
    model = waiting.models.find("m", -1)
    assert model is not None
    context = Context(0)
    gate = waiting.block()
    model.infer(request("m"), waiting.responses.append, None, context)
    await waiting.world.settled(lambda: waiting.world.began[-1] == "m")
    waiting.world.responds = False
    gate.set()
    await waiting.world.settled(lambda: context.inference is not None)
    made = waiting.world.made["m"]
    assert (context.model, context.inference) == (made, made.inference)


async def test_a_request_that_comes_just_after_the_next_eviction_waits_for_another_load(
    waiting: Waiting,
) -> None:
    evictions = waiting.world.repository.evictions
    run = waiting.models._run_waiting

    def evicted_again(name: str) -> None:
        run(name)
        if len(waiting.responses) == 1:
            evictions.evict(name)
            waiting.ask()

    waiting.models._run_waiting = evicted_again  # type: ignore[method-assign]
    waiting.ask()
    await waiting.world.settled(lambda: len(waiting.responses) == 2)
    assert [response.error for response in waiting.responses] == [None, None]
