"""Instances that are removed while they serve: when they are closed, and what they no longer get (row 7.24)."""

import asyncio
import collections.abc

import pytest

from naiad.core.response import InferResponse
from naiad.errors import FailureReason, InferenceError
from naiad.hosts.host import DeferredResponse
from naiad.scheduling.scheduler import UNLOAD_GRACE_S
from tests.support.hosts import ScriptedHost, hosted
from tests.support.resources import CountedResources
from tests.support.scheduled import BACKEND_FAILED, ScheduledModel, turn

pytestmark = pytest.mark.looptime


async def test_an_idle_instance_is_closed_at_once_and_the_others_serve() -> None:
    model = ScheduledModel(instances=2)
    model.scheduler.resize([], hosted([model.hosts[0]]))
    await turn()
    assert [host.closed for host in model.hosts] == [1, 0]
    requests = [model.send(), model.send()]
    for _ in requests:
        model.hosts[1].finish()
    assert [model.error(request) for request in requests] == [None, None]
    await model.scheduler.stop()
    assert [host.closed for host in model.hosts] == [1, 1]


async def test_an_instance_is_closed_after_its_deferred_responses() -> None:
    model = ScheduledModel(instances=2)
    requests = [model.send(), model.send()]
    removed, other = model.hosts
    other.finish()
    removed.finish_with([None])
    model.scheduler.resize([], hosted([removed]))
    await turn()
    assert not removed.closed
    (inference,) = removed.batches[0]
    assert removed.on_deferred is not None
    for final in (False, True):
        response = InferResponse("m", 1, inference.request.id, [], {}, None, final=final)
        removed.on_deferred(DeferredResponse(inference, response, 0))
        await turn()
        assert bool(removed.closed) is final
    assert model.scheduler.inflight() == 0
    assert [model.error(request) for request in requests[1:]] == [None]


async def test_an_instance_that_dies_while_it_is_removed_is_not_missed() -> None:
    model = ScheduledModel(instances=2)
    requests = [model.send(), model.send(), model.send()]
    removed, other = model.hosts
    model.scheduler.resize([], hosted([removed]))
    removed.usable(False)
    removed.fail(BACKEND_FAILED)
    removed.usable(True)
    await turn()
    assert removed.closed == 1
    for _ in range(2):
        other.finish()
    reasons = [model.reason(request) for request in requests]
    assert reasons == [FailureReason.BACKEND, None, None]


async def test_an_instance_that_waits_for_resources_leaves_its_place_to_the_next() -> None:
    resources = CountedResources(1)
    model = ScheduledModel(instances=2, resources=resources)
    model.send()
    model.send()
    assert [user.spec.name for user in resources.waiting] == ["m_0_1"]
    model.scheduler.resize([], hosted([model.hosts[1]]))
    assert not resources.waiting
    for _ in range(2):
        model.hosts[0].finish()
    model.nothing_left()


async def test_a_stop_waits_for_instances_that_are_being_closed() -> None:
    model = ScheduledModel(instances=2)
    may_close = asyncio.Event()
    close = model.hosts[0].close

    async def slow() -> None:
        await may_close.wait()
        await close()

    model.hosts[0].close = slow  # type: ignore[method-assign]
    model.scheduler.resize([], hosted([model.hosts[0]]))
    stopping = asyncio.create_task(model.scheduler.stop())
    await turn()
    assert not stopping.done()
    may_close.set()
    await stopping
    assert [host.closed for host in model.hosts] == [1, 1]


async def test_the_readiness_of_removed_instances_does_not_count() -> None:
    model = ScheduledModel(instances=2)
    model.send()
    removed = model.hosts[0]
    model.scheduler.resize([], hosted([removed]))
    removed.ready_now = lambda: False  # type: ignore[method-assign]
    assert model.scheduler.ready_now()
    assert await model.scheduler.ready()
    removed.finish()


async def test_requests_in_the_queue_fail_if_the_last_usable_instance_is_removed() -> None:
    model = ScheduledModel(instances=2)
    running = model.send()
    other, removed = model.hosts if model.hosts[1].out else reversed(model.hosts)
    other.usable(False)
    queued = model.send()
    model.scheduler.resize([], hosted([removed]))
    assert model.reason(queued) is FailureReason.BACKEND
    with pytest.raises(InferenceError, match="no running instance"):
        model.send()
    removed.finish()
    assert model.error(running) is None
    other.usable(True)
    served = model.send()
    other.finish()
    assert model.error(served) is None
    model.nothing_left()


async def test_an_added_instance_that_is_not_usable_gets_no_batch() -> None:
    model = ScheduledModel(instances=1)
    loop = asyncio.get_running_loop()
    added = ScriptedHost(clock=model.clock, loop=loop, name="m_0_1")

    def lost_already(usable: collections.abc.Callable[[bool], None]) -> None:
        added.usable = usable
        usable(False)

    added.watch = lost_already  # type: ignore[method-assign]
    model.scheduler.resize(hosted([added]), [])
    first, second = model.send(), model.send()
    assert added.batches == []
    added.usable(True)
    assert added.out == [second]
    for host in (*model.hosts, added):
        host.finish()
    assert [model.error(each) for each in (first, second)] == [None, None]


async def test_a_stop_fails_the_batches_of_removed_instances_that_hang(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ScheduledModel(instances=3)
    hung = [model.send() for _ in range(3)]
    model.scheduler.resize([], hosted(model.hosts[:2]))
    for inference in hung:
        inference.cancel()
    await model.scheduler.stop()
    assert [model.reason(each) for each in hung] == [FailureReason.CANCELED] * 3
    assert [round(model.when(each) / 1_000) for each in hung] == [UNLOAD_GRACE_S] * 3
    assert [len(host.aborted) for host in model.hosts] == [1, 1, 1]
    await turn()
    assert [host.closed for host in model.hosts] == [1, 1, 1]
    assert "is unloaded with 3 requests unfinished" in caplog.text
    model.nothing_left()
