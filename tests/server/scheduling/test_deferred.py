"""Inferences with deferred responses: a client gets each response once, and the counters are right."""

import asyncio
import itertools

import pytest

from naiad.config.model_config import DynamicBatching
from naiad.core.flow import Flow
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts.host import DeferredResponse
from naiad.scheduling.scheduler import UNLOAD_GRACE_S, UNLOAD_LIMIT_S
from tests.support.inferences import make_response, make_tensor
from tests.support.scheduled import BACKEND_FAILED, MS, ScheduledModel, turn

pytestmark = pytest.mark.looptime


def answer(
    model: ScheduledModel,
    inference: Inference,
    *,
    final: bool = False,
    error: InferenceError | None = None,
    begun_ns: int = 0,
    outputs: int = 0,
    weight: int = 0,
) -> None:
    tensors = [make_tensor("y", 1)] * outputs
    response = InferResponse("m", 1, inference.request.id, tensors, {}, error, final)
    assert model.host.on_deferred is not None
    model.host.on_deferred(DeferredResponse(inference, response, begun_ns, weight))


def finals(model: ScheduledModel) -> list[bool]:
    return [response.final for _, _, response in model.answered]


async def test_responses_come_one_by_one_and_the_final_one_counts() -> None:
    model = ScheduledModel()
    inference = model.send(rows=3)
    await asyncio.sleep(0.004)
    model.host.finish_with([None], output_ns=1 * MS)
    assert (model.scheduler.inflight(), model.statistics.success_count) == (1, 0)
    assert model.statistics.execution_count == 1
    answer(model, inference, begun_ns=1 * MS)
    await asyncio.sleep(0.006)
    answer(model, inference, begun_ns=1 * MS)
    assert (finals(model), model.statistics.success_count) == ([False, False], 0)
    answer(model, inference, final=True, begun_ns=1 * MS)
    answer(model, inference, final=True)
    assert finals(model) == [False, False, True]
    counted = model.statistics
    assert (counted.success_count, counted.inference_count) == (1, 3)
    assert (counted.success_ns, counted.queue_ns, counted.compute_infer_ns) == (
        10 * MS,
        1 * MS,
        9 * MS,
    )
    model.nothing_left()


async def test_the_time_to_the_first_response_and_those_between_them_are_observed() -> None:
    """Neither an empty one, nor an error, nor what comes after a cancel counts."""
    model = ScheduledModel()
    first, second = model.send(), model.send()
    for each, after_ms in ((first, 4), (first, 6), (second, 1)):
        await asyncio.sleep(after_ms / 1_000)
        answer(model, each, outputs=1, begun_ns=1 * MS)
    await asyncio.sleep(0.5)
    answer(model, first, final=True)
    answer(model, second, error=BACKEND_FAILED)
    second.cancel()
    answer(model, second, outputs=1, final=True)
    to_first, between = model.statistics.first_response_time, model.statistics.response_interval
    assert (sum(to_first.counts), to_first.total) == (2, (4 + 11) * MS)
    assert (sum(between.counts), between.total) == (1, 6 * MS)


EVENTS = ("comes back", "answer", "final")


@pytest.mark.parametrize("order", list(itertools.permutations(EVENTS)), ids=", ".join)
async def test_there_is_one_final_response_in_whatever_order_batch_and_responses_come(
    order: tuple[str, ...],
) -> None:
    model = ScheduledModel()
    inference = model.send()
    for event in order:
        if event == "comes back":
            model.host.finish_with([None])
        else:
            answer(model, inference, final=event == "final")
    before_final = order.index("answer") < order.index("final")
    assert finals(model) == ([False, True] if before_final else [True])
    assert model.statistics.success_count == 1
    model.nothing_left()


async def test_the_host_is_free_for_the_next_batch_while_responses_are_missing() -> None:
    model = ScheduledModel()
    first = model.send()
    model.host.finish_with([None])
    model.send()
    assert len(model.host.batches) == 2
    answer(model, first, final=True)
    model.host.finish()
    assert finals(model) == [True, True]
    model.nothing_left()


async def test_an_error_among_the_responses_makes_it_a_failure_counted_at_the_end() -> None:
    model = ScheduledModel()
    first, second = model.send(), model.send()
    model.host.finish_with([None])
    model.host.finish_with([None])
    answer(model, first, error=BACKEND_FAILED)
    assert model.statistics.fail_count == 0
    answer(model, first, final=True)
    answer(model, second, error=BACKEND_FAILED, final=True)
    assert model.statistics.failures[FailureReason.BACKEND] == 2
    assert model.statistics.success_count == 0
    model.nothing_left()


async def test_a_batch_that_fails_as_a_whole_ends_inferences_with_some_responses() -> None:
    model = ScheduledModel()
    inference = model.send()
    answer(model, inference, error=BACKEND_FAILED)
    model.host.fail(BACKEND_FAILED)
    answer(model, inference)
    assert finals(model) == [False, True]
    assert model.statistics.fail_count == 1
    model.nothing_left()


async def test_one_request_of_a_batch_is_deferred_and_the_others_are_completed_at_once() -> None:
    model = ScheduledModel(DynamicBatching())
    apart, at_once = model.send(), model.send()
    await turn()
    await asyncio.sleep(0.001)
    model.host.finish_with([None, make_response(at_once)])
    assert [request_id for request_id, _, _ in model.answered] == [at_once.request.id]
    assert model.scheduler.inflight() == 1
    answer(model, apart, final=True)
    assert model.statistics.success_count == 2
    model.nothing_left()


async def test_a_cancelled_inference_stays_until_its_model_is_done_with_it() -> None:
    model = ScheduledModel()
    inference = model.send()
    model.host.finish_with([None])
    inference.cancel()
    assert inference.cancelled
    assert model.scheduler.inflight() == 1
    answer(model, inference, final=True)
    model.nothing_left()


async def test_stopping_waits_for_responses_before_it_closes_the_instance() -> None:
    model = ScheduledModel()
    inference = model.send()
    model.host.finish_with([None])
    stopping = asyncio.ensure_future(model.scheduler.stop())
    await turn()
    assert (stopping.done(), model.host.closed) == (False, 0)
    answer(model, inference, final=True)
    await stopping
    assert (finals(model), model.host.closed) == ([True], 1)


async def test_a_callback_that_raises_does_not_affect_other_responses() -> None:
    model = ScheduledModel()

    def refuse(_: InferResponse) -> None:
        raise ValueError

    bad, good = model.send(), model.send()
    bad.on_response = refuse
    model.host.finish_with([None])
    model.host.finish_with([None])
    answer(model, bad)
    answer(model, bad, final=True)
    answer(model, good, final=True)
    assert finals(model) == [True]
    model.nothing_left()


async def test_each_index_among_the_responses_is_counted_by_its_outcome() -> None:
    model = ScheduledModel()
    inference = model.send()
    model.host.finish_with([None])
    await asyncio.sleep(0.002)
    answer(model, inference, outputs=1)
    await asyncio.sleep(0.003)
    answer(model, inference, error=BACKEND_FAILED)
    inference.cancel()
    answer(model, inference, outputs=1)
    answer(model, inference, final=True)
    second = model.send()
    model.host.finish_with([None])
    answer(model, second, final=True)
    counted = model.statistics.responses
    assert sorted(counted) == [0, 1, 2, 3]
    assert (counted[0].success_count, counted[0].success_ns) == (1, 2 * MS)
    assert counted[0].empty_count == 1
    assert (counted[1].fail_count, counted[1].fail_ns) == (1, 3 * MS)
    assert (counted[2].cancel_count, counted[3].cancel_count) == (1, 1)


async def test_indexes_beyond_the_first_thousand_share_their_counters() -> None:
    model = ScheduledModel()
    inference = model.send()
    model.host.finish_with([None])
    for _ in range(1500):
        answer(model, inference, outputs=1)
    assert len(model.statistics.responses) == 1000
    assert model.statistics.responses[999].success_count == 501


async def test_a_delivered_response_resumes_a_paused_model_and_the_end_frees_it_for_good() -> None:
    model = ScheduledModel()
    inference = model.send()
    flow = inference.flow = Flow(limit=10)
    model.host.finish_with([None])
    flow.sent(25)
    assert flow.is_full()
    answer(model, inference, weight=25)
    assert not flow.is_full()
    flow.sent(25)
    answer(model, inference, weight=25, final=True)
    assert not flow.is_full()


async def test_a_cancellation_resumes_a_paused_model() -> None:
    model = ScheduledModel()
    inference = model.send()
    flow = inference.flow = Flow()
    model.host.finish_with([None])
    flow.pause()
    inference.cancel()
    assert not flow.is_full()


async def test_a_response_that_never_ends_and_has_no_client_does_not_prevent_an_unload() -> None:
    model = ScheduledModel()
    inference = model.send()
    model.host.finish_with([None])
    inference.cancel()
    began = asyncio.get_running_loop().time()
    await model.scheduler.stop()
    assert asyncio.get_running_loop().time() - began == UNLOAD_GRACE_S
    assert model.statistics.failures[FailureReason.CANCELED] == 1
    answer(model, inference, final=True)
    assert len(model.answered) == 1
    model.nothing_left()


async def test_a_request_with_a_client_keeps_a_model_for_as_long_as_it_takes() -> None:
    model = ScheduledModel()
    wanted, unwanted = model.send(), model.send()
    model.host.finish_with([None])
    model.host.finish_with([None])
    unwanted.cancel()
    stopping = asyncio.ensure_future(model.scheduler.stop())
    await asyncio.sleep(10 * UNLOAD_GRACE_S)
    assert not stopping.done()
    answer(model, wanted, final=True)
    await asyncio.sleep(UNLOAD_GRACE_S / 2)
    assert not stopping.done()
    await asyncio.sleep(2 * UNLOAD_GRACE_S)
    assert stopping.done()
    model.nothing_left()


async def test_a_request_that_gets_a_client_in_the_grace_period_is_waited_for() -> None:
    model = ScheduledModel()
    unwanted, wanted = model.send(), model.send()
    model.host.finish_with([None])
    unwanted.cancel()
    stopping = asyncio.ensure_future(model.scheduler.stop())
    await asyncio.sleep(UNLOAD_GRACE_S / 2)
    answer(model, unwanted, final=True)
    model.host.finish_with([None])
    await asyncio.sleep(3 * UNLOAD_GRACE_S)
    assert not stopping.done()
    answer(model, wanted, final=True)
    await stopping
    model.nothing_left()


@pytest.mark.parametrize("late", ["outcome", "answer"])
async def test_a_batch_that_hangs_without_any_client_does_not_prevent_an_unload(
    late: str,
) -> None:
    model = ScheduledModel()
    inference = model.send()
    inference.cancel()
    began = asyncio.get_running_loop().time()
    await model.scheduler.stop()
    assert asyncio.get_running_loop().time() - began == UNLOAD_GRACE_S
    assert len(model.host.aborted) == 1
    assert "every client has gone" in model.host.aborted[0]
    if late == "outcome":
        model.host.finish()
    else:
        answer(model, inference, final=True)
    assert len(model.answered) == 1
    model.nothing_left()


async def test_a_batch_that_hangs_while_its_client_waits_fails_at_last_with_the_requests_behind_it() -> (
    None
):
    model = ScheduledModel()
    model.send()
    model.send()
    began = asyncio.get_running_loop().time()
    await model.scheduler.stop()
    assert asyncio.get_running_loop().time() - began == UNLOAD_LIMIT_S
    errors = [response.error for _, _, response in model.answered]
    assert [error and error.code for error in errors] == [ErrorCode.UNAVAILABLE] * 2
    assert all(error is not None and "did not end" in error.message for error in errors)
    model.nothing_left()
