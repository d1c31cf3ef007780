"""Models that share a device under the rate limiter, in virtual time: shares, batches, resizing, and calls between models."""

import asyncio
import typing

import pytest

from naiad.config.model_config import DynamicBatching
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.engine.bls.model_calls import ModelCalls
from naiad.hosts.host import HostedInstance
from naiad.scheduling.rate_limiter.limiter import RateLimiter
from naiad.scheduling.relays.calls import Caller
from tests.support.hosts import ScriptedHost
from tests.support.inferences import make_request
from tests.support.limited import limited_spec
from tests.support.scheduled import ScheduledModel, ids

pytestmark = pytest.mark.looptime


def limited(
    limiter: RateLimiter, name: str, *, priority: int = 1, takes_s: float | None = None, **more: typing.Any
) -> ScheduledModel:  # fmt: skip
    spec = limited_spec(f"{name}_0_0", priority=priority, R=1)
    limiter.register([spec])
    return ScheduledModel(name=name, resources=limiter, takes_s=takes_s, specs=[spec], **more)


async def test_shares_of_three_models_follow_their_priorities_whatever_each_batch_takes() -> None:
    limiter = RateLimiter({})
    models = [
        limited(limiter, name, priority=priority, takes_s=takes_s)
        for name, priority, takes_s in (("a", 1, 0.010), ("b", 2, 0.002), ("c", 4, 0.005))
    ]
    for model in models:
        for _ in range(1000):
            model.send()
    await asyncio.sleep(3.5)
    a, b, c = (len(model.host.batches) for model in models)
    assert a > 200
    assert abs(a - 2 * b) <= 3
    assert abs(b - 2 * c) <= 3


async def test_a_model_alone_has_the_device_and_batches_as_without_the_limiter() -> None:
    model = limited(RateLimiter({}), "a", takes_s=0.010, batching=DynamicBatching())
    sent = [model.send() for _ in range(12)]
    await asyncio.sleep(1)
    assert [model.when(each) for each in sent] == [10.0] * 8 + [20.0] * 4
    model.nothing_left()


async def test_a_model_without_resources_never_asks_for_any() -> None:
    limiter = RateLimiter({})
    limited(limiter, "a").send()
    free = ScheduledModel(name="free", resources=limiter, prefetches=True)
    first, second = free.send(), free.send()
    assert free.host.ids == [ids(first)]
    assert free.host.prefetched == [second]
    assert list(limiter.unused().values()) == [0]


async def test_an_instance_that_is_added_needs_resources_and_one_that_is_removed_gives_them_back() -> None:  # fmt: skip
    limiter = RateLimiter({})
    model = limited(limiter, "a")
    spec = limited_spec("a_0_1", R=1)
    limiter.register([spec])
    host = ScriptedHost(clock=model.clock, loop=asyncio.get_running_loop(), name="a_0_1")
    first, second = model.send(), model.send()
    model.scheduler.resize([HostedInstance(spec, host)], [])
    assert (model.host.ids, host.ids) == ([ids(first)], [])
    model.scheduler.resize([], [HostedInstance(limited_spec("a_0_0", R=1), model.host)])
    model.host.finish()
    assert host.ids == [ids(second)]
    host.finish()
    assert list(limiter.unused().values()) == [1]
    model.nothing_left()


async def test_a_model_that_calls_one_which_needs_its_own_resource_gets_an_error_and_no_wait() -> None:  # fmt: skip
    limiter = RateLimiter({})
    caller, called = limited(limiter, "caller"), limited(limiter, "called")
    calls = ModelCalls(clock=called.clock)
    served: typing.Any = Served(called)
    calls.open(lambda _name, _version, _namespace: served, asyncio.get_running_loop())
    inference = caller.send()
    responses: list[InferResponse] = []
    calls.begin(
        make_request(),
        caller=Caller("caller", "caller_0_0", [inference], blocks=True),
        decoupled=False,
        on_response=responses.append,
    )
    await asyncio.sleep(0.5)
    (response,) = responses
    assert response.error is not None
    assert "deadlock" in response.error.message
    assert "(held: caller_0_0)" in response.error.message
    assert "resource of the rate limiter" in response.error.message
    calls.close()
    caller.host.finish()


class Served:
    """A scheduled model as calls between models see it."""

    def __init__(self, scheduled: ScheduledModel) -> None:
        self.scheduled = scheduled
        self.traits = type("Traits", (), {"decoupled": False})

    def infer(
        self, request: typing.Any, on_response: typing.Any, _flow: object, context: typing.Any
    ) -> Inference:
        inference = Inference(request, on_response, 1, self.scheduled.clock.monotonic_ns())
        context.runs(self, inference)
        self.scheduled.scheduler.submit(inference)
        return inference

    def occupancy(self) -> typing.Any:
        return self.scheduled.scheduler.occupancy()
