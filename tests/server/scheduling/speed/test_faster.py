"""Fast and slow instances of one model: when a batch waits for a fast one, and that slow ones never make a model slower."""

import asyncio

import hypothesis
import looptime
import pytest
from hypothesis import strategies as st

from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import DynamicBatching, InstanceKind
from naiad.core.response import InferResponse
from naiad.scheduling.speed.estimate import InstanceLoad
from naiad.scheduling.speed.faster import waits_for_faster
from tests.support.scheduled import ScheduledModel

FAST = InstanceSpec("fast_0", InstanceKind.GPU, 0)
SLOW = InstanceSpec("slow_0", InstanceKind.CPU, 0)


@pytest.mark.parametrize(
    ("slow", "faster", "batches", "waits"),
    [
        (100, [InstanceLoad(5, 10)], 1, True),
        (100, [InstanceLoad(5, 10)], 9, True),  # the ninth ends at 95
        (100, [InstanceLoad(5, 10)], 10, False),
        (100, [InstanceLoad(5, 10), InstanceLoad(0, 10)], 18, True),
        (15, [InstanceLoad(5, 10)], 1, False),  # both end at 15
        (100, [InstanceLoad(200, 10)], 1, False),  # it is far behind
        (100, [], 1, False),
        (0, [InstanceLoad(5, 10)], 1, False),  # not known yet
    ],
)
def test_the_decision(slow: int, faster: list[InstanceLoad], batches: int, waits: bool) -> None:  # noqa: FBT001
    assert waits_for_faster(slow, faster, batches) is waits


class Mixed(ScheduledModel):
    """A model with a fast and slow instances, and clients that each send a request as soon as the one before it is answered."""

    def __init__(self, *, fast_s: float, slow_s: float, slow: int, max_batch_size: int = 8) -> None:
        slow_ones = [SLOW._replace(name=f"slow_{k}") for k in range(slow)]
        super().__init__(DynamicBatching(), specs=[FAST, *slow_ones], max_batch_size=max_batch_size)
        for host, takes_s in zip(self.hosts, [fast_s, *[slow_s] * slow], strict=True):
            host.takes_s = takes_s
        self.done = 0
        self.pause_s = 0.0

    def client(self) -> None:
        inference = self.send()
        inference.on_response = self._again

    def _again(self, _response: InferResponse) -> None:
        self.done += 1
        asyncio.get_running_loop().call_later(self.pause_s, self.client)


async def throughput(model: Mixed, clients: int, seconds: float = 3.0) -> float:
    """Requests per second, without those until every instance is measured."""
    for _ in range(clients):
        model.client()
    await asyncio.sleep(1)
    before = model.done
    await asyncio.sleep(seconds)
    return (model.done - before) / seconds


@pytest.mark.looptime
@pytest.mark.parametrize("clients", [1, 4, 8, 16, 64])
async def test_slow_instances_never_lower_the_throughput(clients: int) -> None:
    alone = await throughput(Mixed(fast_s=0.010, slow_s=0.200, slow=0), clients)
    mixed = await throughput(Mixed(fast_s=0.010, slow_s=0.200, slow=2), clients)
    assert mixed >= alone * 0.999


@pytest.mark.looptime
@pytest.mark.parametrize("slow", [0, 2])
async def test_the_fast_one_waits_for_the_next_requests_while_the_slow_ones_stand_idle(
    slow: int,
) -> None:
    model = Mixed(fast_s=0.050, slow_s=1.200, slow=slow)
    for number in range(8):
        asyncio.get_running_loop().call_later(0.030 * number, model.client)
    model.pause_s = 0.001
    await asyncio.sleep(5)
    before, batches = model.done, len(model.hosts[0].batches)
    await asyncio.sleep(3)
    assert (model.done - before) / (len(model.hosts[0].batches) - batches) > 7, (
        "rows per batch of the 8 clients"
    )


@pytest.mark.looptime
async def test_a_slow_instance_helps_when_there_is_more_work_than_the_fast_one_can_do() -> None:
    alone = await throughput(Mixed(fast_s=0.010, slow_s=0.040, slow=0), 96)
    mixed = await throughput(Mixed(fast_s=0.010, slow_s=0.040, slow=1), 96)
    assert mixed >= alone * 1.2


@pytest.mark.looptime
async def test_a_batch_runs_on_the_slow_instance_when_the_fast_one_hangs_or_is_gone() -> None:
    model = Mixed(fast_s=0.010, slow_s=0.100, slow=1)
    fast, slow = model.hosts
    for _ in range(2):
        model.send()
        model.send()
        await asyncio.sleep(0.5)
    measured = len(slow.batches)
    fast.takes_s = None
    model.send()
    await asyncio.sleep(0.001)
    waiting = model.send()
    await asyncio.sleep(0.005)
    assert len(slow.batches) == measured, "the fast one would end sooner"
    await asyncio.sleep(0.5)
    assert model.error(waiting) is None, "it is late, and nothing else would take the batch"
    fast.usable(False)
    last = model.send()
    await asyncio.sleep(0.5)
    assert model.error(last) is None


@hypothesis.settings(max_examples=hypothesis.settings().max_examples // 2)
@hypothesis.given(st.integers(1, 40), st.integers(5, 60), st.integers(1, 3), st.integers(1, 8))
def test_whatever_the_load_slow_instances_do_not_cost_throughput(
    clients: int, ratio: int, slow: int, max_batch_size: int
) -> None:
    async def run() -> None:
        found = []
        for count in (0, slow):
            model = Mixed(
                fast_s=0.010,
                slow_s=0.001 * 10 * ratio / 5,
                slow=count,
                max_batch_size=max_batch_size,
            )
            found.append(await throughput(model, clients, 2.0))
        assert found[1] >= found[0] * 0.95

    loop = looptime.new_event_loop()
    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
