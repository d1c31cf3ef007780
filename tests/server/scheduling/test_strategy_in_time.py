"""A scheduler with a batching strategy, in virtual time: every request ends, on success, timeout, cancel, the loss of the instance and stop."""

import asyncio

import pytest

from naiad.config.model_config import DynamicBatching, QueuePolicy
from naiad.errors import FailureReason
from naiad.metrics.statistics import CloseReason
from tests.server.scheduling.test_strategy import ByVolume, Failing
from tests.support.inferences import make_spec, make_tensor
from tests.support.scheduled import BACKEND_FAILED, ScheduledModel, turn

pytestmark = pytest.mark.looptime


def scheduled(code: ByVolume, *, timeout_us: int = 0, delay_us: int = 0) -> ScheduledModel:
    policy = QueuePolicy(default_timeout_us=timeout_us)
    return ScheduledModel(
        DynamicBatching(max_queue_delay_us=delay_us, default_queue_policy=policy),
        takes_s=1,
        inputs=[make_spec("x", -1)],
        strategy=code,
    )


async def test_batches_are_those_of_the_strategy() -> None:
    model = scheduled(ByVolume())
    requests = [model.send(make_tensor("x", 1, 4)) for _ in range(5)]
    await asyncio.sleep(3.5)
    assert [round(model.when(each) / 1000) for each in requests] == [1, 1, 2, 2, 3]
    assert model.statistics.closes[CloseReason.STRATEGY] == 2
    model.nothing_left()


async def test_a_delay_ends_with_a_refusal() -> None:
    model = scheduled(ByVolume(), delay_us=500_000)
    first = model.send(make_tensor("x", 1, 8))
    await asyncio.sleep(0.1)
    model.send(make_tensor("x", 1, 8))
    await asyncio.sleep(1.2)
    assert round(model.when(first)) == 1100


async def test_a_cancelled_and_a_late_request_end_and_the_others_are_batched_without_them() -> None:
    model = scheduled(ByVolume(), timeout_us=1_500_000)
    running = model.send(make_tensor("x", 1, 9))
    await turn()
    cancelled = model.send(make_tensor("x", 1, 9))
    together = [model.send(make_tensor("x", 1, 5)) for _ in range(2)]
    late = model.send(make_tensor("x", 1, 5))
    cancelled.cancel()
    await asyncio.sleep(4)
    assert model.reason(cancelled) is FailureReason.CANCELED
    assert model.reason(late) is FailureReason.REJECTED
    assert [model.error(each) for each in (running, *together)] == [None] * 3
    assert len({model.when(each) for each in together}) == 1
    model.nothing_left()


async def test_a_stop_finishes_the_queue_and_then_finalizes_the_strategy() -> None:
    code = ByVolume()
    model = scheduled(code, delay_us=5_000_000)
    requests = [model.send(make_tensor("x", 1, 8)) for _ in range(3)]
    await turn()
    stopping = asyncio.ensure_future(model.scheduler.stop())
    await asyncio.sleep(1.5)
    assert "finalize" not in code.calls
    await stopping
    assert code.calls[-1] == "finalize"
    assert [model.error(each) for each in requests] == [None] * 3
    model.nothing_left()


async def test_a_strategy_that_fails_costs_no_request() -> None:
    model = scheduled(Failing("include"))
    requests = [model.send(make_tensor("x", 1, 8)) for _ in range(4)]
    await asyncio.sleep(1.5)
    assert [model.error(each) for each in requests] == [None] * 4
    assert model.statistics.strategy_failures > 0


async def test_the_loss_of_the_only_instance_fails_what_runs_and_what_waits() -> None:
    model = scheduled(ByVolume())
    requests = [model.send(make_tensor("x", 1, 8)) for _ in range(3)]
    await turn()
    model.host.die(BACKEND_FAILED)
    await turn()
    assert [model.reason(each) for each in requests] == [FailureReason.BACKEND] * 3
    model.nothing_left()
