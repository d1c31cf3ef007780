"""A free instance waits while every iteration of the loop brings another request, once several clients ask."""

import asyncio

import pytest

from naiad.config.model_config import DynamicBatching
from naiad.scheduling.dynamic import GATHERING_NS
from tests.support.scheduled import MS, ScheduledModel, ids, turn

pytestmark = pytest.mark.looptime


async def several_clients(*, max_batch_size: int = 8) -> ScheduledModel:
    """A model whose last batch held two requests, and which is free now."""
    model = ScheduledModel(DynamicBatching(), max_batch_size=max_batch_size)
    model.send()
    model.send()
    await turn()
    model.host.finish()
    return model


async def one_iteration() -> None:
    """Exactly one iteration of the loop."""
    await asyncio.sleep(0)


async def test_requests_of_consecutive_iterations_share_a_batch() -> None:
    model = await several_clients()
    arrived = []
    for _ in range(4):
        arrived.append(model.send())
        await one_iteration()
    assert len(model.host.batches) == 1
    await turn()
    await turn()
    assert model.host.ids[1:] == [ids(*arrived)]


async def test_an_iteration_without_a_new_request_ends_it() -> None:
    model = await several_clients()
    first = model.send()
    await turn()
    await turn()
    assert model.host.ids[1:] == [ids(first)]


async def test_a_full_batch_does_not_wait_for_the_next_iteration_to_be_empty() -> None:
    model = await several_clients(max_batch_size=2)
    arrived = []
    for _ in range(2):
        arrived.append(model.send())
        await one_iteration()
    await one_iteration()
    assert model.host.ids[1:] == [ids(*arrived)]


async def test_it_never_takes_longer_than_its_limit() -> None:
    model = await several_clients(max_batch_size=64)
    started = model.clock.monotonic_ns()
    while len(model.host.batches) == 1:
        model.send()
        await asyncio.sleep(0)
        await asyncio.sleep(0.0001)
    assert model.clock.monotonic_ns() - started <= GATHERING_NS + MS


async def test_one_client_alone_never_waits_for_others() -> None:
    model = ScheduledModel(DynamicBatching())
    for _ in range(3):
        request = model.send()
        await one_iteration()
        assert model.host.ids[-1] == ids(request)
        model.host.finish()
        await turn()
