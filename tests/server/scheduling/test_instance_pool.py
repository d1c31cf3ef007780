"""The pool of instances without a scheduler: which instance is acquired, and what the pool owns."""

import asyncio

import pytest

from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.errors import ErrorCode, InferenceError
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.instances.pool import InstancePool
from naiad.scheduling.instances.resources import Resources, UnlimitedResources
from naiad.scheduling.instances.slot import InstanceSlot
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from tests.support.clock import LoopClock
from tests.support.hosts import ScriptedHost, hosted
from tests.support.inferences import make_inference
from tests.support.resources import CountedResources

pytestmark = pytest.mark.looptime


class Pool:
    """A pool, its hosts, and what it called back."""

    def __init__(
        self, instances: int, *, resources: Resources | None = None, ordered: bool = False
    ) -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        self.hosts = [
            ScriptedHost(clock=clock, loop=loop, name=str(number)) for number in range(instances)
        ]
        self.pool = InstancePool(
            model="m",
            instances=hosted(self.hosts),
            resources=UnlimitedResources() if resources is None else resources,
            dispatcher=ResponseDispatcher(
                model="m", version=1, statistics=ModelStatistics(), clock=clock
            ),
            preserve_ordering=ordered,
            clock=clock,
            loop=loop,
        )
        self.events: list[str] = []
        self.responses: list[InferResponse] = []
        self.pool.open(
            on_free=lambda outcome: self.events.append(
                f"free {len(outcome.batch) if outcome else 0}"
            ),
            on_begun=lambda batch: self.events.append(f"begun {len(batch)}"),
            on_lost=lambda: self.events.append("lost"),
        )

    def acquire(self, preferred: InstanceSlot | None = None) -> InstanceSlot:
        slot = self.pool.acquire(preferred)
        assert slot is not None
        return slot

    def run(self, preferred: InstanceSlot | None = None, *, count: int = 1) -> list[Inference]:
        """Send a batch."""
        batch = [make_inference(on_response=self.responses.append) for _ in range(count)]
        self.pool.send(self.acquire(preferred), batch)
        return batch

    def busy(self) -> list[str]:
        return [name for name, batch in self.pool.executions() if batch is not None]


async def test_instances_are_acquired_in_order_at_first_and_then_the_one_freed_last() -> None:
    pool = Pool(3)
    for _ in range(3):
        pool.run()
    assert pool.busy() == ["0", "1", "2"]
    assert pool.pool.acquire(None) is None
    for number in (1, 2, 0):
        pool.hosts[number].finish()
    assert [slot.name for slot in pool.pool.free] == ["1", "2", "0"]
    assert pool.acquire().name == "0"
    assert pool.acquire().name == "2"


async def test_a_preferred_instance_is_acquired_if_it_is_free() -> None:
    pool = Pool(3)
    first = pool.pool.free[0]
    assert pool.acquire(first) is first
    assert pool.acquire(first) is not first
    assert len(pool.pool.free) == 1


async def test_the_instance_that_worked_last_is_preferred_to_one_that_was_restarted() -> None:
    pool = Pool(2)
    pool.run()
    pool.hosts[0].finish()
    pool.hosts[1].usable(False)
    pool.hosts[1].usable(True)
    assert [slot.name for slot in pool.pool.free] == ["0", "1"]
    assert pool.acquire(pool.pool.last_used).name == "0"


async def test_an_instance_is_free_before_the_responses_of_its_batch_are_sent() -> None:
    pool = Pool(1)
    pool.run(count=3)
    seen: list[int] = []
    pool.pool.open(
        on_free=lambda _: seen.append(len(pool.responses)),
        on_begun=lambda _: None,
        on_lost=lambda: None,
    )
    pool.pool.on_completed = lambda: seen.append(len(pool.responses))
    pool.hosts[0].finish()
    assert seen == [0, 3]


async def test_it_owns_batches_in_execution_those_kept_in_order_and_deferred_responses() -> None:
    pool = Pool(2, ordered=True)
    slow, fast = pool.run(count=2), pool.run(count=3)
    assert pool.pool.inflight == 5
    pool.hosts[1].finish_with([None, None, None])
    assert pool.pool.kept() == [(fast, slow)]
    assert pool.pool.inflight == 5
    pool.hosts[0].finish()
    assert pool.pool.inflight == 3, "the fast batch came back before its responses"
    for each in fast:
        each.cancel()
    assert pool.pool.abandoned() == set(fast)
    pool.pool.abort("unloaded", InferenceError(ErrorCode.CANCELLED, "unloaded"))
    assert pool.pool.inflight == 0
    assert len(pool.responses) == 5


async def test_nothing_is_abandoned_while_one_client_waits() -> None:
    pool = Pool(2)
    first, second = pool.run(), pool.run()
    first[0].cancel()
    assert pool.pool.abandoned() == set()
    second[0].cancel()
    assert pool.pool.abandoned() == {*first, *second}


async def test_usable_instances_are_counted_whether_they_are_free_busy_or_waiting() -> None:
    pool = Pool(3, resources=CountedResources(1))
    pool.run()
    assert pool.pool.acquire(None) is None
    assert (pool.pool.usable, pool.pool.free) == (3, [])
    for host in pool.hosts:
        host.usable(False)
    assert pool.pool.usable == 0
    assert pool.events == ["lost"]
    pool.hosts[0].finish()
    assert pool.events == ["lost", "free 1"]
    assert pool.pool.free == []
    for host in pool.hosts:
        host.usable(True)
    assert [slot.name for slot in pool.pool.free] == ["0", "1", "2"]


async def test_every_instance_whose_resources_are_used_is_called_back() -> None:
    shared = CountedResources(0)
    pool = Pool(2, resources=shared)
    assert pool.pool.acquire(None) is None
    assert len(shared.waiting) == 2
    shared.waiting.pop(0).retry()
    assert pool.events == ["free 0"]
    assert len(pool.pool.free) == 1
