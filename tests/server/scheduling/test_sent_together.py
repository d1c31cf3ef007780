"""Requests that are submitted together, as the steps of ensembles are: all of them run at once where nothing else could be decided."""

import asyncio

import pytest

from naiad.config.model_config import DynamicBatching
from naiad.core.inference import Inference
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.metrics.statistics import CloseReason
from naiad.scheduling.scheduler import SubmitsTogether
from tests.support.inferences import make_inference
from tests.support.resources import CountedResources
from tests.support.scheduled import ScheduledModel, ids, turn

pytestmark = pytest.mark.looptime

AT_ONCE = DynamicBatching(preferred_batch_sizes=(6,))
"""An instance does not wait for the next requests of clients, since the config says when a batch waits."""


def together(model: ScheduledModel, *rows: int) -> list[Inference]:
    assert isinstance(model.scheduler, SubmitsTogether)
    sent = [
        make_inference(rows=each, on_response=lambda it: model.answered.append((it.id, 0, it)))
        for each in rows
    ]
    assert not model.scheduler.submit_together(sent)
    return sent


async def test_a_free_instance_has_them_before_the_loop_goes_on() -> None:
    model = ScheduledModel(AT_ONCE)
    sent = together(model, 1, 2, 1)
    assert model.host.ids == [ids(*sent)]
    assert model.statistics.pending == 0
    assert model.statistics.closes[CloseReason.IDLE] == 1
    model.host.finish()
    assert [request_id for request_id, _, _ in model.answered] == ids(*sent)
    model.nothing_left()


async def test_what_waits_already_runs_with_them() -> None:
    model = ScheduledModel(AT_ONCE)
    first = model.send()
    sent = together(model, 1, 1)
    assert model.host.ids == []
    await turn()
    assert model.host.ids == [ids(first, *sent)]


async def test_they_wait_for_a_busy_instance() -> None:
    model = ScheduledModel(AT_ONCE)
    first = together(model, 1)
    waiting = together(model, 1, 1)
    await turn()
    assert model.statistics.pending == 2
    model.host.finish()
    await turn()
    assert model.host.ids == [ids(*first), ids(*waiting)]


async def test_a_second_instance_that_is_free_has_them() -> None:
    model = ScheduledModel(AT_ONCE, instances=2)
    first, second = together(model, 1), together(model, 1)
    assert sorted([*model.hosts[0].ids, *model.hosts[1].ids]) == sorted([ids(*first), ids(*second)])


@pytest.mark.parametrize(
    ("batching", "rows", "first"),
    [
        pytest.param(AT_ONCE, (3, 3, 3), 2, id="more than a preferred size"),
        pytest.param(DynamicBatching(max_queue_delay_us=1_000), (3, 3), 2, id="delay"),
        pytest.param(DynamicBatching(), (3, 3, 3), 2, id="more than a batch holds"),
        pytest.param(None, (1, 1), 1, id="no dynamic batching"),
    ],
)
async def test_the_config_decides_about_their_batches(
    batching: DynamicBatching | None, rows: tuple[int, ...], first: int
) -> None:
    model = ScheduledModel(batching)
    sent = together(model, *rows)
    assert bool(model.host.ids) == (batching is None)
    await asyncio.sleep(0.002)
    assert model.host.ids == [ids(*sent[:first])]


async def test_they_wait_for_resources_that_others_use() -> None:
    resources = CountedResources(1)
    model = ScheduledModel(AT_ONCE, instances=2, resources=resources)
    first, second = together(model, 1), together(model, 1)
    await turn()
    assert [*model.hosts[0].ids, *model.hosts[1].ids] == [ids(*first)]
    assert model.statistics.pending == 1
    next(host for host in model.hosts if host.out is not None).finish()
    await turn()
    assert ids(*second) in [*model.hosts[0].ids, *model.hosts[1].ids]


async def test_short_batches_are_sent_at_once_where_long_ones_would_wait_for_clients() -> None:
    model = ScheduledModel(DynamicBatching())
    together(model, 1, 1)
    assert model.host.ids == []
    for _ in range(12):
        await turn()
        await asyncio.sleep(0.000_1)
        model.host.finish()
        sent = together(model, 1, 1)
    assert model.host.ids[-1] == ids(*sent)


async def test_one_that_is_cancelled_before_does_not_run() -> None:
    model = ScheduledModel(AT_ONCE)
    assert isinstance(model.scheduler, SubmitsTogether)
    gone, stays = make_inference(), make_inference()
    gone.cancelled = True
    ((refused, error),) = model.scheduler.submit_together([gone, stays])
    assert refused is gone
    assert error.code is ErrorCode.CANCELLED
    assert model.host.ids == [ids(stays)]


async def test_a_worker_that_dies_fails_them() -> None:
    model = ScheduledModel(AT_ONCE)
    sent = together(model, 1, 1)
    model.host.die(InferenceError(ErrorCode.UNAVAILABLE, "died", reason=FailureReason.BACKEND))
    assert [response.error is not None for _, _, response in model.answered] == [True, True]
    assert len(model.answered) == len(sent)
    model.nothing_left()
