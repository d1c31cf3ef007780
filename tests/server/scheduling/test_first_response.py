"""The time to the first response (row 8.23): once for each request, whatever becomes of it, and nothing without the setting."""

import asyncio

import pytest

from naiad.config.model_config import DynamicBatching
from naiad.metrics.histogram import Histogram
from tests.server.scheduling.test_deferred import answer
from tests.support.inferences import make_response
from tests.support.scheduled import BACKEND_FAILED, ScheduledModel, turn

pytestmark = pytest.mark.looptime

BOUNDS_MS = (10, 20)


def kept(model: ScheduledModel) -> Histogram:
    """Switches it on."""
    model.statistics.first_response = histogram = Histogram(BOUNDS_MS)
    return histogram


async def test_the_requests_of_a_batch_count_failed_or_not() -> None:
    model = ScheduledModel(DynamicBatching())
    times = kept(model)
    _, bad = model.send(), model.send()
    model.host.respond = lambda inference: make_response(
        inference, error=BACKEND_FAILED if inference is bad else None
    )
    await asyncio.sleep(0.015)
    model.host.finish()
    assert (times.counts, times.total) == ([0, 2, 0], 30)


async def test_a_batch_that_fails_as_a_whole_counts_each_request_once() -> None:
    model = ScheduledModel(DynamicBatching())
    times = kept(model)
    for _ in range(2):
        model.send()
    await turn()
    model.host.fail(BACKEND_FAILED)
    assert times.counts == [2, 0, 0]


@pytest.mark.parametrize("failed", [False, True])
async def test_of_several_responses_the_first_counts(*, failed: bool) -> None:
    model = ScheduledModel(DynamicBatching())
    times = kept(model)
    inference = model.send()
    await turn()
    model.host.finish_with([None])
    await asyncio.sleep(0.015)
    answer(model, inference)
    await asyncio.sleep(0.03)
    answer(model, inference)
    answer(model, inference, final=True, error=BACKEND_FAILED if failed else None)
    assert (times.counts, times.total) == ([0, 1, 0], 15)
