"""A batch of a step takes a third of the ensemble's requests where its worker has a processor beside the loop's, so that loop and workers have work at once."""

import asyncio

import pytest

from naiad.config.model_config import DynamicBatching
from naiad.scheduling.shares import FEWEST
from tests.server.scheduling.ensemble.test_chains import World
from tests.support.ensembles import number
from tests.support.scheduled import ScheduledModel, turn

pytestmark = pytest.mark.looptime


async def busy(*, apart: bool = True, clients: int = 12) -> World:
    """An ensemble with a request of each client; the first of them has left its first step alone, the others wait there or follow it."""
    world = World()
    world.a.host.apart = world.b.host.apart = apart
    world.send("first")
    await turn()
    for index in range(clients - 1):
        world.send(str(index))
    await turn()
    world.a.host.finish()
    return world


def sizes(scheduled: ScheduledModel) -> list[int]:
    return [len(batch) for batch in scheduled.host.batches]


async def test_requests_that_wait_go_in_thirds_of_those_in_progress() -> None:
    world = await busy()
    world.a.host.finish()
    world.a.host.finish()
    assert world.a.host.ids == [
        ["first"], ["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9", "10"],
    ]  # fmt: skip


async def test_each_request_gets_its_own_values_and_nothing_is_left() -> None:
    world = await busy()
    while world.scheduler.inflight():
        for scheduled in (world.b, world.a):
            if scheduled.host.out is not None:
                scheduled.host.finish()
        await turn()
    assert world.values() == {"first": 3, **{str(index): 3 for index in range(11)}}
    world.nothing_left()


async def test_a_share_begins_while_the_loop_still_reads_the_requests_of_others() -> None:
    world = await busy(clients=9)
    while world.a.host.out is not None:
        world.a.host.finish()
    await turn()
    before = sizes(world.a)
    for index in range(FEWEST + 1):
        world.send(f"again {index}")
    assert sizes(world.a) == [*before, FEWEST], "in the same turn of the loop"


async def test_the_next_step_begins_when_the_batch_comes_back() -> None:
    world = await busy()
    await turn()
    world.b.host.finish()
    world.a.host.finish()
    assert world.b.host.ids == [["first"], ["0", "1", "2", "3"]]


async def test_few_requests_stay_together() -> None:
    world = await busy(clients=FEWEST + 1)
    assert sizes(world.a) == [1, FEWEST]


async def test_a_worker_on_the_processor_of_the_loop_takes_all_that_wait() -> None:
    world = await busy(apart=False, clients=8)
    assert sizes(world.a) == [1, 7]


async def test_requests_to_a_model_itself_are_not_parted() -> None:
    model = ScheduledModel(DynamicBatching(), max_batch_size=64)
    model.host.apart = True
    model.send()
    await turn()
    for _ in range(12):
        model.send()
    model.host.finish()
    assert sizes(model) == [1, 12]


async def test_once_a_model_is_asked_by_itself_all_that_wait_share_a_batch_again() -> None:
    world = await busy(clients=9)
    while world.a.host.out is not None:
        world.a.host.finish()
    await turn()
    world.a.send(number("i", 1))
    await turn()
    for _ in range(7):
        world.a.send(number("i", 1))
    world.a.host.finish()
    assert sizes(world.a)[-1] == 7


async def test_a_stop_takes_all_that_wait() -> None:
    world = await busy()
    stopping = asyncio.ensure_future(world.a.scheduler.stop())
    await turn()
    world.a.host.finish()
    assert sizes(world.a) == [1, 4, 7]
    world.a.host.finish()
    await stopping


async def test_a_size_that_the_config_prefers_counts_more() -> None:
    world = World(second=DynamicBatching(preferred_batch_sizes=(6,)))
    world.a.host.apart = world.b.host.apart = True
    for turns in range(2):
        for index in range(6):
            world.send(f"{turns} {index}")
        await turn()
        while world.a.host.out is not None:
            world.a.host.finish()
            await turn()
        while world.b.host.out is not None:
            world.b.host.finish()
            await turn()
    assert sizes(world.b)[0] == 6
    assert world.scheduler.inflight() == 0
