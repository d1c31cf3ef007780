"""Two models whose instances share resources: which instance waits, and which one the other model's batch wakes."""

import asyncio

import pytest

from naiad.config.model_config import DynamicBatching
from tests.support.resources import CountedResources
from tests.support.scheduled import BACKEND_FAILED, ScheduledModel, ids, turn

pytestmark = pytest.mark.looptime


async def test_a_batch_that_ends_wakes_the_other_model() -> None:
    shared = CountedResources(1)
    one, other = (ScheduledModel(name=name, resources=shared) for name in ("one", "other"))
    first, second = one.send(), other.send()
    assert (one.host.ids, other.host.ids) == ([ids(first)], [])
    assert shared.names() == ["one_0_0"]
    one.host.finish()
    assert other.host.ids == [ids(second)]
    assert shared.names() == ["other_0_0"]
    other.host.finish()
    assert shared.available == 1
    one.nothing_left()
    other.nothing_left()


async def test_models_that_share_a_device_take_turns_and_batches_grow_meanwhile() -> None:
    shared = CountedResources(1)
    single = ScheduledModel(name="single", resources=shared, takes_s=0.010)
    batched = ScheduledModel(DynamicBatching(), name="batched", resources=shared, takes_s=0.010)
    singles = [single.send() for _ in range(3)]
    many = [batched.send() for _ in range(12)]
    await asyncio.sleep(1)
    assert [single.when(each) for each in singles] == [10.0, 30.0, 50.0]
    assert [batched.when(each) for each in many] == [20.0] * 8 + [40.0] * 4
    single.nothing_left()
    batched.nothing_left()


async def test_a_request_that_waits_for_resources_can_be_cancelled_and_the_next_model_is_woken() -> None:  # fmt: skip
    shared = CountedResources(1)
    busy, left, last = (
        ScheduledModel(name=name, resources=shared) for name in ("busy", "left", "last")
    )
    busy.send()
    gone, waiting = left.send(), last.send()
    gone.cancel()
    assert gone.completed
    busy.host.finish()
    assert (left.host.ids, last.host.ids) == ([], [ids(waiting)])
    last.host.finish()
    assert shared.available == 1


async def test_resources_come_back_after_a_failed_batch_a_rejected_one_and_an_aborted_one() -> None:
    shared = CountedResources(1)
    model = ScheduledModel(resources=shared)
    model.send()
    model.host.fail(BACKEND_FAILED)
    assert shared.available == 1
    model.host.closed = 1  # the host rejects the next batch
    model.send()
    await turn()
    assert shared.available == 1
    model.host.closed = 0
    model.send().cancel()
    await model.scheduler.stop()
    assert model.host.aborted
    assert shared.available == 1


async def test_an_instance_that_is_lost_while_it_waits_is_not_woken() -> None:
    shared = CountedResources(1)
    busy, lost = (ScheduledModel(name=name, resources=shared) for name in ("busy", "lost"))
    busy.send()
    failed = lost.send()
    lost.host.usable(False)
    assert lost.error(failed) is not None
    assert shared.waiting == []
    busy.host.finish()
    lost.host.usable(True)
    again = lost.send()
    assert lost.host.ids == [ids(again)]
    lost.host.finish()
    assert shared.available == 1


async def test_a_model_that_stops_while_it_waits_gets_its_turn_first() -> None:
    shared = CountedResources(1)
    busy, stopped = (ScheduledModel(name=name, resources=shared) for name in ("busy", "stopped"))
    busy.send()
    waiting = stopped.send()
    stopping = asyncio.create_task(stopped.scheduler.stop())
    await turn()
    busy.host.finish()
    assert stopped.host.ids == [ids(waiting)]
    stopped.host.finish()
    await stopping
    assert stopped.host.closed == 1
    assert shared.available == 1


async def test_a_model_that_is_unloaded_without_requests_withdraws_its_instances() -> None:
    shared = CountedResources(1)
    busy, unloaded = (ScheduledModel(name=name, resources=shared) for name in ("busy", "unloaded"))
    busy.send()
    unloaded.send().cancel()
    assert [user.spec.name for user in shared.waiting] == ["unloaded_0_0"]
    await unloaded.scheduler.stop()
    assert shared.waiting == []
    busy.host.finish()
    assert shared.available == 1


async def test_a_resource_that_is_free_again_goes_to_the_instance_in_turn() -> None:
    shared = CountedResources(2)
    model = ScheduledModel(instances=3, resources=shared)
    first, second, third = (model.send() for _ in range(3))
    assert shared.names() == ["m_0_0", "m_0_1"]
    assert [user.spec.name for user in shared.waiting] == ["m_0_2"]
    model.hosts[0].finish()
    assert [host.ids for host in model.hosts] == [[ids(first)], [ids(second)], [ids(third)]]
    for host in model.hosts[1:]:
        host.finish()
    model.nothing_left()
