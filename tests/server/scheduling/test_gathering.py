"""A free instance waits while every iteration of the loop brings another request, once several clients ask."""

import asyncio

import pytest

from naiad.config.model_config import DynamicBatching
from naiad.scheduling.dynamic import ALONE, GATHERING_NS
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


async def one_client(model: ScheduledModel, times: int, *, takes_s: float = 0) -> None:
    """A client that sends one request after the other."""
    for _ in range(times):
        model.send()
        await turn()
        await asyncio.sleep(takes_s)
        model.host.finish()


async def test_a_request_of_one_client_that_sends_one_after_the_other_is_sent_at_once() -> None:
    model = ScheduledModel(DynamicBatching())
    await one_client(model, ALONE - 1)
    model.send()
    assert len(model.host.batches) == ALONE - 1
    await turn()
    model.host.finish()
    request = model.send()
    assert model.host.ids[-1] == ids(request)


async def test_requests_share_a_batch_again_as_soon_as_there_is_more_than_one() -> None:
    model = ScheduledModel(DynamicBatching())
    await one_client(model, ALONE)
    sent = [model.send() for _ in range(3)]
    assert model.host.ids[ALONE:] == [ids(sent[0])]
    model.host.finish()
    await turn()
    assert model.host.ids[ALONE:] == [ids(sent[0]), ids(*sent[1:])]
    model.host.finish()
    await turn()
    pair = [model.send() for _ in range(2)]
    await turn()
    await turn()
    assert model.host.ids[-1] == ids(*pair)


async def test_behind_long_batches_requests_that_arrive_together_share_one() -> None:
    model = ScheduledModel(DynamicBatching())
    await one_client(model, ALONE + 1, takes_s=0.001)
    pair = [model.send() for _ in range(2)]
    await turn()
    assert model.host.ids[-1] == ids(*pair)
