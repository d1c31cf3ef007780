"""Every request gets one final response, in order where configured, and is counted as the rows say."""

import asyncio
import logging
import typing

import msgspec
import pytest

from naiad.backends.instance import Execution
from naiad.config.model_config import DynamicBatching
from naiad.core.clock import SystemClock
from naiad.core.response import InferResponse
from naiad.errors import FailureReason
from naiad.hosts.host import BatchOutcome
from naiad.metrics.histogram import Histogram
from naiad.metrics.options import MetricsOptions
from naiad.metrics.statistics import BatchStatistics, ModelStatistics
from naiad.metrics.summary import Summaries, Summary
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from tests.support.clock import WALL_AT_START_NS, LoopClock
from tests.support.inferences import (
    make_inference,
    make_response,
)
from tests.support.scheduled import BACKEND_FAILED, MS, ScheduledModel, ids, turn

pytestmark = pytest.mark.looptime


async def test_one_bad_request_fails_alone() -> None:
    model = ScheduledModel(DynamicBatching())
    good, bad, good_too = model.send(), model.send(rows=2), model.send(rows=3)
    await turn()
    model.host.respond = lambda inference: make_response(
        inference, error=BACKEND_FAILED if inference is bad else None
    )
    await asyncio.sleep(0.005)
    model.host.finish()
    assert [model.reason(each) for each in (good, bad, good_too)] == [
        None,
        FailureReason.BACKEND,
        None,
    ]
    statistics = model.statistics
    assert statistics.success_count == 2
    assert statistics.inference_count == 4
    assert statistics.failures[FailureReason.BACKEND] == 1
    assert statistics.execution_count == 1
    assert statistics.batches[6].count == 1


async def test_a_batch_that_fails_as_a_whole_fails_all_its_requests_and_does_not_count_as_an_execution() -> (
    None
):
    model = ScheduledModel(DynamicBatching())
    both = [model.send(), model.send()]
    await turn()
    model.host.fail(BACKEND_FAILED)
    assert [model.reason(each) for each in both] == [FailureReason.BACKEND] * 2
    assert model.answered[0][2].model_version == 1
    assert model.statistics.failures[FailureReason.BACKEND] == 2
    assert (model.statistics.execution_count, model.statistics.batches) == (0, {})
    assert model.statistics.success_count == 0
    model.nothing_left()


async def test_a_batch_whose_requests_all_failed_does_not_count_as_an_execution() -> None:
    model = ScheduledModel(DynamicBatching())
    model.host.respond = lambda inference: make_response(inference, error=BACKEND_FAILED)
    model.send()
    await turn()
    model.host.finish()
    assert model.statistics.failures[FailureReason.BACKEND] == 1
    assert (model.statistics.execution_count, model.statistics.last_inference_ms) == (0, 0)


async def test_the_instance_continues_after_a_failed_batch() -> None:
    model = ScheduledModel(takes_s=None)
    first, second = model.send(), model.send()
    model.host.fail(BACKEND_FAILED)
    model.host.finish()
    assert (model.reason(first), model.reason(second)) == (FailureReason.BACKEND, None)


async def test_a_host_that_rejects_a_batch_fails_it_and_no_client_waits_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = ScheduledModel(DynamicBatching())

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(model.host, "submit", refuse)
    inference = model.send()
    await turn()
    await turn()
    error = model.error(inference)
    assert error is not None
    assert "can't start new thread" in error.message
    model.nothing_left()


async def test_too_few_responses_leave_no_request_without_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ScheduledModel(DynamicBatching())
    one, two = model.send(), model.send()
    await turn()
    model.host.finish_with([make_response(one)])
    assert model.reason(one) is FailureReason.BACKEND, "it is not known whose response it is"
    assert model.reason(two) is FailureReason.BACKEND
    assert "invalid responses" in caplog.text
    model.nothing_left()


async def test_a_response_that_cannot_be_sent_does_not_affect_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ScheduledModel(DynamicBatching())

    def explode(_: InferResponse) -> None:
        raise ValueError("the connection is gone")

    unlucky = make_inference(on_response=explode)
    model.scheduler.submit(unlucky)
    lucky = model.send()
    await turn()
    with caplog.at_level(logging.ERROR):
        model.host.finish()
    assert model.error(lucky) is None
    assert unlucky.request.id in caplog.text
    assert "the connection is gone" in caplog.text
    model.nothing_left()


async def test_a_response_to_a_completed_request_is_dropped() -> None:
    model = ScheduledModel(DynamicBatching())
    settled, other = model.send(), model.send()
    await turn()
    settled.completed = True
    model.host.finish()
    assert other.on_cancel is None, "a client that keeps it keeps no scheduler alive"
    assert [request_id for request_id, _, _ in model.answered] == ids(other)
    assert model.statistics.success_count == 1
    model.nothing_left()


async def test_a_client_may_send_its_next_request_from_its_callback() -> None:
    model = ScheduledModel(DynamicBatching(), takes_s=0.010)
    seen: list[float] = []

    def again(_: InferResponse) -> None:
        seen.append(model.now_ms)
        if len(seen) < 3:
            model.scheduler.submit(make_inference(on_response=again))

    model.scheduler.submit(make_inference(on_response=again))
    await asyncio.sleep(1)
    assert seen == [10.0, 20.0, 30.0]


@pytest.mark.parametrize("preserve", [False, True])
async def test_with_preserve_ordering_a_fast_instance_does_not_overtake_a_slow_one(
    *, preserve: bool
) -> None:
    model = ScheduledModel(
        DynamicBatching(preserve_ordering=preserve), instances=2, max_batch_size=1
    )
    slow, fast, next_ = model.send(), model.send(), model.send()
    await turn()
    model.hosts[1].finish()
    assert len(model.answered) == (0 if preserve else 1)
    assert model.hosts[1].out == [next_], "the instance works on although its answer waits"
    model.hosts[0].finish()
    model.hosts[1].finish()
    in_order = [request_id for request_id, _, _ in model.answered]
    assert in_order == (ids(slow, fast, next_) if preserve else ids(fast, slow, next_))
    model.nothing_left()


async def test_a_failed_batch_keeps_its_position_in_the_order() -> None:
    model = ScheduledModel(DynamicBatching(preserve_ordering=True), instances=2, max_batch_size=1)
    first, second = model.send(), model.send()
    await turn()
    model.hosts[1].finish()
    model.hosts[0].fail(BACKEND_FAILED)
    assert [request_id for request_id, _, _ in model.answered] == ids(first, second)
    assert model.reason(first) is FailureReason.BACKEND


async def test_the_inputs_of_a_batch_are_ready_when_its_host_says_so() -> None:
    statistics = ModelStatistics()
    dispatcher = ResponseDispatcher(
        model="m", version=1, statistics=statistics, clock=SystemClock()
    )
    request = make_inference()
    execution = Execution([make_response(request)], input_end_ns=5, output_start_ns=9)
    dispatcher.deliver(BatchOutcome([request], execution, None, 1, 10, 3))
    assert request.execution is not None
    assert (request.execution.start_ns, request.execution.input_end_ns) == (1, 3)
    counted = statistics
    assert (counted.compute_input_ns, counted.compute_infer_ns, counted.compute_output_ns) == (
        2,
        6,
        1,
    )


async def test_each_request_counts_its_own_queue_time_and_the_compute_time_of_its_batch() -> None:
    model = ScheduledModel(DynamicBatching())
    model.send(rows=2)
    await turn()
    await asyncio.sleep(0.002)
    model.send(rows=3)
    await asyncio.sleep(0.003)
    model.send(rows=1)
    model.host.finish(input_ns=1 * MS, output_ns=1 * MS)
    await asyncio.sleep(0.010)
    model.host.finish(input_ns=2 * MS, output_ns=3 * MS)
    statistics = model.statistics
    assert statistics.success_count == 3
    assert statistics.inference_count == 6
    assert statistics.execution_count == 2
    assert statistics.queue_ns == 3 * MS, "0 + 3 + 0: only the second waited"
    assert statistics.compute_input_ns == (1 + 2 * 2) * MS
    assert statistics.compute_infer_ns == (3 + 2 * 5) * MS
    assert statistics.compute_output_ns == (1 + 2 * 3) * MS
    assert statistics.success_ns == (5 + 13 + 10) * MS
    assert statistics.last_inference_ms == WALL_AT_START_NS // MS + 15
    assert {
        size: (entry.count, entry.compute_infer_ns) for size, entry in statistics.batches.items()
    } == {2: (1, 3 * MS), 4: (1, 5 * MS)}
    assert sum(statistics.request_time.counts) == 3
    assert sum(statistics.compute_time.counts) == 2
    assert statistics.fail_count == 0
    model.nothing_left()


def _counted(of: object) -> object:
    """All that statistics hold, in a form that compares."""
    if isinstance(of, Histogram):
        return of.counts, of.total
    if isinstance(of, BatchStatistics):
        return msgspec.structs.astuple(of)
    if isinstance(of, Summaries):
        return {name: (each.count, each.total) for name, each in vars(of).items() if isinstance(each, Summary)}  # fmt: skip
    if isinstance(of, dict):
        return {key: _counted(value) for key, value in of.items()}
    return of


@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails"])
@pytest.mark.parametrize("completed", [False, True], ids=["waits", "has gone"])
@pytest.mark.parametrize(
    "options",
    [MetricsOptions(), MetricsOptions(histogram_latencies=True, summary_latencies=True)],
    ids=["usual", "with latencies"],
)
async def test_a_request_that_runs_alone_counts_as_one_that_runs_beside_another(
    options: MetricsOptions, *, completed: bool, fails: bool
) -> None:
    clock, us = LoopClock(asyncio.get_running_loop()), 1_000
    await asyncio.sleep(1)  # times of 0 mean that there is none
    seen = []
    for beside in (False, True):
        statistics = ModelStatistics(options, clock=clock)
        dispatcher = ResponseDispatcher(model="m", version=3, statistics=statistics, clock=clock)
        answered: list[InferResponse] = []
        begun = clock.monotonic_ns()
        request = make_inference(rows=4, received_ns=begun - 9 * us, on_response=answered.append)
        request.queued_ns, request.completed = begun - 7 * us, completed
        error = BACKEND_FAILED if fails else None
        batch = [request]
        responses: list[InferResponse | None] = [make_response(request, error=error)]
        if beside:  # one that is answered later and has no rows, so that nothing of it is counted
            batch.append(make_inference(rows=0))
            responses.append(None)
        execution = Execution(responses, begun + 3 * us, begun + 5 * us, padding_rows=2)
        start, end, input_end = begun + us, begun + 11 * us, begun + 4 * us
        dispatcher.deliver(BatchOutcome(batch, execution, None, start, end, input_end))
        times = request.execution
        seen.append(
            (
                {name: _counted(value) for name, value in vars(statistics).items()},
                len(answered),
                times and (times.version, times.start_ns, times.input_end_ns, times.output_start_ns, times.end_ns, times.responded_ns),
            )
        )  # fmt: skip
        assert times is None or times.requests == len(batch)
    if fails:  # an execution counts unless all its requests failed, which the other one did not
        for counts, *_ in seen:
            for name in ("execution_count", "padding_rows", "last_inference_ms", "batches", "compute_time", "batch_size"):  # fmt: skip
                del counts[name]
    assert seen[0] == seen[1]


async def test_pending_counts_requests_that_are_accepted_and_not_in_execution() -> None:
    model = ScheduledModel(DynamicBatching(), max_batch_size=2)
    pending = []
    for _ in range(3):
        model.send()
        pending.append(model.statistics.pending)
    await turn()
    pending.append(model.statistics.pending)
    model.host.finish()
    pending.append(model.statistics.pending)
    assert pending == [1, 2, 3, 1, 0]
    assert model.scheduler.inflight() == 1


@pytest.mark.parametrize("count", [1, 2])
async def test_a_request_is_counted_before_anything_else_runs_that_its_response_causes(
    count: int,
) -> None:
    model = ScheduledModel(DynamicBatching())
    seen: list[tuple[int, int]] = []
    statistics = model.statistics

    def look() -> None:
        seen.append((statistics.success_count, statistics.execution_count))

    def sent(_: InferResponse) -> None:
        asyncio.get_running_loop().call_soon(look)

    for _ in range(count):
        model.scheduler.submit(make_inference(on_response=sent))
    await turn()
    model.host.finish()
    await turn()
    assert seen == [(count, 1)] * count


async def test_the_time_of_a_response_that_the_statistics_have_is_kept_for_traces() -> None:
    model = ScheduledModel(DynamicBatching())
    good, bad = model.send(), model.send()
    await turn()
    model.host.respond = lambda inference: make_response(
        inference, error=BACKEND_FAILED if inference is bad else None
    )
    await asyncio.sleep(0.005)
    model.host.finish()
    for each in (good, bad):
        assert each.execution is not None
        assert each.execution.responded_ns == each.received_ns + 5 * MS
    failed = model.send()
    await turn()
    await asyncio.sleep(0.002)
    model.host.fail(BACKEND_FAILED)
    assert failed.answered_ns == failed.received_ns + 2 * MS


class Told:
    """The trace of an inference, as far as a batch is concerned."""

    def __init__(self, events: list[str]) -> None:
        self._events = events

    def answers_begin(self) -> None:
        self._events.append("begin")

    def answers_end(self) -> None:
        self._events.append("end")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_trace_learns_when_the_responses_of_its_batch_begin_and_end(*, fails: bool) -> None:
    model, events = ScheduledModel(DynamicBatching()), list[str]()
    both = [model.send(), model.send()]
    await turn()

    def answered(_: InferResponse) -> None:
        events.append("response")
        if fails:
            raise ValueError

    for each in both:
        each.on_response = answered
        each.traced = typing.cast("typing.Any", Told(events))
    model.host.finish()
    assert events == ["begin", "response", "response", "end"]
