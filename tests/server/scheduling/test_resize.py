"""Instances that are removed while they serve: when they are closed, and what they no longer get (row 7.24)."""

import asyncio

import pytest

from naiad.core.response import InferResponse
from naiad.errors import FailureReason
from naiad.hosts.host import DeferredResponse
from tests.support.hosts import hosted
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
