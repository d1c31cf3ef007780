"""A batching strategy of a model's own: which batches come of it, and what becomes of them when it fails or is slow."""

import logging
import typing

import pytest
from typing_extensions import override

from naiad.config.model_config import DynamicBatching
from naiad.core.inference import Inference
from naiad.metrics.statistics import CloseReason, ModelStatistics
from naiad.scheduling.batching import BatchRun, Dispatch, WaitUntil, next_batch, plan_batching
from naiad.scheduling.queue import InferenceQueue
from naiad.scheduling.strategy import MEASURED, Strategy, StrategyRequest
from tests.support.inferences import make_config, make_inference, make_tensor

US = 1_000


class ByVolume:
    """At most so many elements of `x` in a batch; records what is called."""

    def __init__(self, most: int = 10) -> None:
        self.most = most
        self.calls: list[str] = []

    def begin_batch(self) -> dict[str, int]:
        self.calls.append("begin")
        return {"elements": 0}

    def include(self, batch: dict[str, int], request: StrategyRequest) -> bool:
        self.calls.append(request.id)
        elements = batch["elements"] + request.inputs["x"].array.size
        if elements > self.most:
            return False
        batch["elements"] = elements
        return True

    def end_batch(self, batch: dict[str, int]) -> None:
        self.calls.append(f"end {batch['elements']}")

    def finalize(self) -> None:
        self.calls.append("finalize")


class Queued:
    """A queue whose batches a strategy forms."""

    def __init__(self, code: typing.Any, *, delay_us: int = 0, preferred: tuple[int, ...] = ()) -> None:  # fmt: skip
        batching = DynamicBatching(max_queue_delay_us=delay_us, preferred_batch_sizes=preferred)
        config = make_config(max_batch_size=8, batching=batching)
        self.statistics = ModelStatistics()
        self.cpu_ns = 0
        self.strategy = Strategy(
            code, model="m", statistics=self.statistics, cpu_ns=lambda: self.cpu_ns
        )
        self.queue = InferenceQueue(model="m", batching=batching)
        self.run = BatchRun(self.queue, plan_batching(config, has_strategy=True), self.strategy)

    def add(self, *sizes: int, now: int = 0) -> list[Inference]:
        added = [make_inference(make_tensor("x", 1, size)) for size in sizes]
        for inference in added:
            self.queue.push(inference, now)
        return added

    def next(self, now: int = 0) -> Dispatch | WaitUntil | None:
        return next_batch(self.run, now)

    def take(self, now: int = 0) -> tuple[int, CloseReason]:
        decision = self.next(now)
        assert isinstance(decision, Dispatch)
        self.queue.take(decision.count)
        return decision.count, decision.reason


def test_the_strategy_closes_a_batch_before_the_request_that_it_refuses() -> None:
    queued = Queued(ByVolume())
    queued.add(4, 5, 2, 8, 2)
    assert queued.take() == (2, CloseReason.STRATEGY)
    assert queued.take() == (2, CloseReason.STRATEGY)
    assert queued.take() == (1, CloseReason.IDLE)
    assert queued.next() is None


def test_a_request_that_is_refused_alone_runs_alone() -> None:
    queued = Queued(ByVolume())
    queued.add(50, 1)
    assert queued.take()[0] == 2, "it did not count, as the strategy did not include it"
    refusing = Queued(ByVolume(0))
    refusing.add(1, 1)
    assert refusing.take() == (1, CloseReason.STRATEGY)


def test_a_refusal_ends_the_wait_for_more_requests() -> None:
    queued = Queued(ByVolume(), delay_us=100)
    queued.add(4)
    assert isinstance(queued.next(), WaitUntil)
    queued.add(5)
    assert isinstance(queued.next(), WaitUntil)
    queued.add(5)
    assert queued.take() == (2, CloseReason.STRATEGY)
    assert queued.take(100 * US) == (1, CloseReason.DELAY)


def test_each_request_is_asked_about_once_and_each_batch_has_an_object_of_its_own() -> None:
    code = ByVolume()
    queued = Queued(code, delay_us=100)
    first, second = queued.add(4, 4)
    queued.next()
    (third,) = queued.add(4)
    queued.next()
    names = [each.request.id for each in (first, second, third)]
    assert code.calls == ["begin", *names]
    queued.take()
    queued.next()
    assert code.calls[4:] == ["end 8", "begin", names[2]]
    queued.strategy.close()
    queued.strategy.close()
    assert code.calls[7:] == ["end 4", "finalize"]


def test_max_batch_size_and_preferred_sizes_hold_nevertheless() -> None:
    queued = Queued(ByVolume(1000))
    queued.add(*[1] * 10)
    assert queued.take() == (8, CloseReason.FULL)
    preferring = Queued(ByVolume(4), preferred=(2,))
    preferring.add(1, 1, 1)
    assert preferring.take() == (2, CloseReason.PREFERRED)


class Failing(ByVolume):
    """Fails in one place."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    @override
    def begin_batch(self) -> dict[str, int]:
        if self.where == "begin_batch":
            raise ValueError("on purpose")
        return super().begin_batch()

    @override
    def include(self, batch: dict[str, int], request: StrategyRequest) -> bool:
        if self.where == "include":
            raise ValueError("on purpose")
        if self.where == "exit":
            raise SystemExit(3)
        return super().include(batch, request)

    @override
    def end_batch(self, batch: dict[str, int]) -> None:
        if self.where == "end_batch":
            raise ValueError("on purpose")

    @override
    def finalize(self) -> None:
        if self.where == "finalize":
            raise ValueError("on purpose")


@pytest.mark.parametrize("where", ["begin_batch", "include", "exit"])
def test_a_batch_whose_strategy_fails_is_formed_by_the_default_rules(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    code = Failing(where)
    queued = Queued(code)
    queued.add(8, 8, 8)
    assert queued.take() == (3, CloseReason.IDLE)
    assert queued.statistics.strategy_failures == 1
    assert "the batching strategy of model 'm' failed in" in caplog.text
    code.where = ""
    queued.add(8, 8)
    assert queued.take() == (1, CloseReason.STRATEGY), "the next batch is the strategy's again"


@pytest.mark.parametrize("where", ["end_batch", "finalize"])
def test_a_failure_at_the_end_is_counted_and_logged(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    queued = Queued(Failing(where))
    queued.add(1)
    queued.take()
    queued.strategy.close()
    assert queued.statistics.strategy_failures == 1
    assert f"failed in {where}" in caplog.text


def test_only_include_is_required() -> None:
    class Pairs:
        def include(self, batch: object, _request: StrategyRequest) -> bool:
            assert batch is None
            return False

    queued = Queued(Pairs())
    queued.add(1, 1)
    assert queued.take()[0] == 1
    queued.strategy.close()
    assert queued.statistics.strategy_failures == 0


class Slow:
    """Takes CPU time."""

    def __init__(self) -> None:
        self.took_ns = 0
        self.queued: Queued | None = None

    def include(self, _batch: object, _request: StrategyRequest) -> bool:
        assert self.queued is not None
        self.queued.cpu_ns += self.took_ns
        return True


def test_a_median_above_a_millisecond_is_counted_each_time_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    code = Slow()
    queued = code.queued = Queued(code)
    (inference,) = queued.add(1)

    def hundred(took_ns: int) -> None:
        code.took_ns = took_ns
        for _ in range(MEASURED):
            queued.strategy.include(inference)

    hundred(900_000)
    assert queued.statistics.strategy_slow == 0
    hundred(1_100_000)
    hundred(2_000_000)
    assert queued.statistics.strategy_slow == 2
    assert caplog.text.count("takes 1.1 ms of CPU time per request (median of 100)") == 1
    assert caplog.text.count("CPU time") == 1
    hundred(0)
    hundred(5_000_000)
    assert caplog.text.count("CPU time") == 2


def test_what_a_strategy_sees_of_a_request() -> None:
    inference = make_inference(make_tensor("x", 2, 3), rows=2)
    seen = StrategyRequest(inference)
    assert (seen.id, seen.batch_size, seen.priority, seen.correlation_id) == (inference.request.id, 2, 0, 0)  # fmt: skip
    assert seen.parameters == {}
    assert seen.inputs["x"].shape == (2, 3)
    assert seen.inputs["x"].datatype.name == "FP32"
    assert seen.byte_size == 24


def test_a_request_that_leaves_the_queue_makes_room_in_its_batch() -> None:
    code = ByVolume()
    queued = Queued(code, delay_us=100)
    first, _, _ = queued.add(6, 4, 5)
    run = queued.run
    run.update()
    assert (run.count, run.closed) == (2, CloseReason.STRATEGY)
    queued.queue.remove(first)
    run.update()
    assert (run.count, run.closed) == (2, None), "the batch was formed again without it"
    assert code.calls.count("begin") == 2
