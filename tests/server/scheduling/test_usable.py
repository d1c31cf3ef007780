"""A host that cannot run batches for a while, such as one whose worker died: it gets no batch, and no client waits for it."""

import asyncio

import pytest
from typing_extensions import override

from naiad.config.model_config import DynamicBatching
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.factory import SchedulerFactory
from naiad.scheduling.instances.resources import UnlimitedResources
from tests.support.hosts import ScriptedHost, hosted
from tests.support.inferences import make_config, make_inference
from tests.support.scheduled import ScheduledModel, no_submit, turn

pytestmark = pytest.mark.looptime


async def test_a_host_that_is_not_usable_gets_no_batch_and_the_others_continue() -> None:
    model = ScheduledModel(instances=2, takes_s=0.010)
    model.hosts[0].usable(False)
    arrived = [model.send() for _ in range(4)]
    await model.scheduler.stop()
    assert model.hosts[0].batches == []
    assert len(model.hosts[1].batches) == 4
    assert [model.error(each) for each in arrived] == [None] * 4
    model.nothing_left()


async def test_a_host_that_is_usable_again_works_at_once() -> None:
    model = ScheduledModel(instances=2)
    model.hosts[0].usable(False)
    model.send()
    waiting = model.send()
    assert model.hosts[0].batches == []
    model.hosts[0].usable(True)
    assert model.hosts[0].batches == [[waiting]]
    for host in model.hosts:
        host.finish()


async def test_a_batch_that_is_out_when_its_host_goes_comes_back_and_the_host_gets_no_other() -> (
    None
):
    model = ScheduledModel(instances=2)
    first, second = model.send(), model.send()
    gone = next(host for host in model.hosts if host.out == [first])
    other = next(host for host in model.hosts if host.out == [second])
    waiting = model.send()
    gone.usable(False)
    gone.fail(InferenceError(ErrorCode.UNAVAILABLE, "died", reason=FailureReason.BACKEND))
    assert model.error(first) is not None
    assert gone.out is None
    other.finish()
    assert other.out == [waiting]
    other.finish()
    gone.usable(True)
    gone.usable(True)
    third, fourth = model.send(), model.send()
    assert {third.request.id, fourth.request.id} == {
        host.out[0].request.id for host in model.hosts if host.out
    }
    for host in model.hosts:
        host.finish()
    model.nothing_left()


@pytest.mark.parametrize("batching", [None, DynamicBatching(max_queue_delay_us=1_000)])
async def test_without_a_usable_host_queued_requests_fail_and_new_ones_are_refused(
    batching: DynamicBatching | None,
) -> None:
    model = ScheduledModel(batching, max_batch_size=1)
    model.send()
    await turn()
    waiting = [model.send() for _ in range(3)]
    model.host.usable(False)
    for each in waiting:
        error = model.error(each)
        assert error is not None
        assert error.code is ErrorCode.UNAVAILABLE
        assert error.reason is FailureReason.BACKEND
        assert "its worker process ended and is being restarted" in error.message
    with pytest.raises(InferenceError) as refused:
        model.send()
    assert refused.value.code is ErrorCode.UNAVAILABLE
    model.host.fail(InferenceError(ErrorCode.UNAVAILABLE, "died", reason=FailureReason.BACKEND))
    model.host.usable(True)
    model.send()
    await turn()
    model.host.finish()
    await model.scheduler.stop()
    model.nothing_left()


class Ended(ScriptedHost):
    """Its worker has ended before a scheduler had it."""

    pid = 0

    @override
    def ready_now(self) -> bool | None:
        return False


async def test_a_worker_that_ended_before_its_model_is_served_gets_no_batch_until_it_is_back() -> (
    None
):
    model = ScheduledModel()
    loop = asyncio.get_running_loop()
    hosts = [Ended(clock=model.clock, loop=loop), ScriptedHost(clock=model.clock, loop=loop)]
    statistics = ModelStatistics()
    scheduler = SchedulerFactory(resources=UnlimitedResources(), clock=model.clock)(
        make_config(), version=1, instances=hosted(hosts), submit=no_submit, statistics=statistics
    )
    for _ in range(2):
        scheduler.submit(make_inference())
    assert [host.out is None for host in hosts] == [True, False]
    hosts[0].usable(True)
    assert [host.out is None for host in hosts] == [False, False]
    for host in hosts:
        host.finish()
    await scheduler.stop()
    model.scheduler.resize(hosted([Ended(clock=model.clock, loop=loop)]), hosted(model.hosts))
    with pytest.raises(InferenceError, match="no running instance"):
        model.send()
