"""The scheduler in virtual time: everything that is queued ends once, at its time, and is counted."""

import asyncio
import collections.abc
import logging

import pytest

from naiad.config.model_config import DynamicBatching, QueuePolicy, TensorSpec, TimeoutAction
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.metrics.statistics import CloseReason, ModelStatistics
from naiad.scheduling.factory import HOLD_VARIABLE, make_scheduler
from tests.support.clock import WALL_AT_START_NS, LoopClock
from tests.support.hosts import ScriptedHost
from tests.support.inferences import (
    make_config,
    make_inference,
    make_response,
    make_spec,
    make_tensor,
)

pytestmark = pytest.mark.looptime

MS = 1_000_000
BACKEND_FAILED = InferenceError(ErrorCode.INTERNAL, "broken", reason=FailureReason.BACKEND)


class Model:
    """A scheduler, its hosts and everything that its clients saw."""

    def __init__(
        self,
        batching: DynamicBatching | None = None,
        *,
        instances: int = 1,
        takes_s: float | None = None,
        max_batch_size: int = 8,
        inputs: collections.abc.Sequence[TensorSpec] = (make_spec(),),
    ) -> None:
        loop = asyncio.get_running_loop()
        self.clock = LoopClock(loop)
        self.hosts = [
            ScriptedHost(clock=self.clock, loop=loop, name=f"m_0_{k}", takes_s=takes_s)
            for k in range(instances)
        ]
        self.statistics = ModelStatistics()
        self.scheduler = make_scheduler(
            config=make_config(batching=batching, max_batch_size=max_batch_size, inputs=inputs),
            version=1,
            hosts=self.hosts,
            statistics=self.statistics,
            clock=self.clock,
            loop=loop,
        )
        self.answered: list[tuple[str, float, InferResponse]] = []

    @property
    def host(self) -> ScriptedHost:
        return self.hosts[0]

    def send(
        self, *tensors: Tensor, rows: int = 1, priority: int = 0, timeout_us: int = 0
    ) -> Inference:
        def on_response(response: InferResponse) -> None:
            self.answered.append((response.id, self.now_ms, response))

        inference = make_inference(
            *tensors,
            rows=rows,
            priority=priority,
            timeout_us=timeout_us,
            received_ns=self.clock.monotonic_ns(),
            on_response=on_response,
        )
        self.scheduler.enqueue(inference)
        return inference

    @property
    def now_ms(self) -> float:
        return self.clock.monotonic_ns() / MS

    def when(self, inference: Inference) -> float:
        """When it was answered, in milliseconds; exactly once."""
        times = [at for request_id, at, _ in self.answered if request_id == inference.request.id]
        assert len(times) == 1
        return times[0]

    def error(self, inference: Inference) -> InferenceError | None:
        responses = [each for request_id, _, each in self.answered if request_id == inference.request.id]  # fmt: skip
        assert len(responses) == 1
        return responses[0].error

    def reason(self, inference: Inference) -> FailureReason | None:
        error = self.error(inference)
        return None if error is None else error.reason

    def nothing_left(self) -> None:
        assert self.statistics.pending == 0
        assert self.scheduler.inflight() == 0


async def turn() -> None:
    """Let the loop run what is due now."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def ids(*inferences: Inference) -> list[str]:
    return [inference.request.id for inference in inferences]


# -- who runs with whom ------------------------------------------------------------------------------------


async def test_the_default_scheduler_sends_each_request_alone_and_at_once_to_a_free_instance() -> None:  # fmt: skip
    model = Model(instances=2)
    first, second, third, fourth = (model.send(rows=2) for _ in range(4))
    assert [host.ids for host in model.hosts] == [[ids(first)], [ids(second)]]
    model.hosts[1].finish()
    model.hosts[0].finish()
    assert [host.ids[-1] for host in model.hosts] == [ids(fourth), ids(third)]
    assert model.statistics.closes[CloseReason.SINGLE] == 4


async def test_requests_of_one_turn_of_the_loop_share_a_batch_although_the_delay_is_zero() -> None:
    model = Model(DynamicBatching())
    arrived = [model.send() for _ in range(5)]
    assert model.host.batches == []
    await turn()
    assert model.host.ids == [ids(*arrived)]
    assert model.statistics.closes[CloseReason.IDLE] == 1


async def test_what_queues_while_the_instance_is_busy_runs_in_the_fewest_batches() -> None:
    model = Model(DynamicBatching(), takes_s=0.010)
    model.send()
    await turn()
    for _ in range(20):
        model.send()
    await asyncio.sleep(1)
    assert [len(batch) for batch in model.host.batches] == [1, 8, 8, 4]
    assert model.statistics.closes[CloseReason.FULL] == 2
    assert {count: entry.count for count, entry in model.statistics.batches.items()} == {
        1: 1,
        8: 2,
        4: 1,
    }
    model.nothing_left()


async def test_several_instances_work_side_by_side() -> None:
    model = Model(DynamicBatching(), instances=3, takes_s=0.010)
    for _ in range(24):
        model.send()
    await asyncio.sleep(0.011)
    assert [len(host.batches) for host in model.hosts] == [1, 1, 1]
    assert len(model.answered) == 24


async def test_a_request_waits_for_company_no_longer_than_the_delay() -> None:
    model = Model(DynamicBatching(max_queue_delay_us=5_000), takes_s=0.001)
    first = model.send()
    await asyncio.sleep(0.004)
    second = model.send()
    await asyncio.sleep(0.1)
    assert model.host.ids == [ids(first, second)]
    assert (model.when(first), model.when(second)) == (6.0, 6.0)
    assert model.statistics.closes[CloseReason.DELAY] == 1


async def test_a_full_batch_does_not_wait_for_the_delay() -> None:
    model = Model(DynamicBatching(max_queue_delay_us=10_000_000), takes_s=0.001)
    arrived = []
    for _ in range(8):
        arrived.append(model.send())
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.010)
    assert model.host.ids == [ids(*arrived)]
    assert model.when(arrived[-1]) == 8.0


async def test_a_cancel_of_the_oldest_does_not_shorten_the_others_delay() -> None:
    model = Model(DynamicBatching(max_queue_delay_us=10_000), takes_s=0)
    oldest = model.send()
    await asyncio.sleep(0.004)
    other = model.send()
    oldest.cancel()
    await asyncio.sleep(1)
    assert model.when(other) == 14.0


async def test_at_most_one_timer_is_armed_and_none_after_stop() -> None:
    policy = QueuePolicy(default_timeout_us=60_000_000, allow_timeout_override=True)
    model = Model(DynamicBatching(max_queue_delay_us=20_000, default_queue_policy=policy))
    loop = asyncio.get_running_loop()
    armed: set[asyncio.TimerHandle] = set()
    call_later = loop.call_later

    def watch(
        delay: float, callback: collections.abc.Callable[..., object], *args: object
    ) -> asyncio.TimerHandle:
        handle = call_later(delay, callback, *args)
        armed.add(handle)
        return handle

    loop.call_later = watch  # type: ignore[assignment, method-assign]  # to count timers
    for timeout_us in (30_000, 20_000, 10_000, 40_000):
        model.send(timeout_us=timeout_us)
        await turn()
        assert sum(not handle.cancelled() for handle in armed) == 1
    del loop.call_later
    stopping = asyncio.create_task(model.scheduler.stop())
    await turn()
    model.host.finish()
    await stopping
    assert all(handle.cancelled() for handle in armed)


async def test_a_request_of_higher_priority_overtakes_what_waits() -> None:
    model = Model(
        DynamicBatching(priority_levels=2, default_priority_level=2), max_batch_size=2, takes_s=0.01
    )
    model.send()
    await turn()
    low = [model.send() for _ in range(3)]
    high = model.send(priority=1)
    await asyncio.sleep(1)
    assert model.host.ids[1:] == [ids(high, low[0]), ids(*low[1:])]


async def test_requests_of_another_shape_run_in_a_batch_of_their_own() -> None:
    model = Model(DynamicBatching(), inputs=[make_spec("x", -1)], takes_s=0.01)
    small, large = model.send(make_tensor("x", 1, 2)), model.send(make_tensor("x", 1, 3))
    await asyncio.sleep(1)
    assert model.host.ids == [ids(small), ids(large)]
    assert model.statistics.closes[CloseReason.SHAPE] == 1


# -- limits and timeouts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("spacing_s", [0, 0.000_001, 0.010])
async def test_a_limit_of_two_admits_exactly_two_beside_what_runs(spacing_s: float) -> None:
    policy = QueuePolicy(max_queue_size=2)
    model = Model(DynamicBatching(default_queue_policy=policy), max_batch_size=1)
    model.send()
    refused: list[FailureReason] = []
    for _ in range(6):
        await asyncio.sleep(spacing_s)
        try:
            model.send()
        except InferenceError as error:
            refused.append(error.reason)
    assert refused == [FailureReason.REJECTED] * 4
    assert model.scheduler.inflight() == 3
    assert model.statistics.pending == 2
    assert model.statistics.fail_count == 0, "who asked counts a refusal, by its reason"


async def test_a_burst_in_one_turn_is_not_refused_while_an_instance_is_free() -> None:
    policy = QueuePolicy(max_queue_size=2)
    model = Model(DynamicBatching(default_queue_policy=policy), instances=2)
    for _ in range(6):
        model.send()
    with pytest.raises(InferenceError, match="Exceeds maximum queue size"):
        model.send()


async def test_a_request_is_rejected_at_its_timeout_although_the_instance_is_busy() -> None:
    policy = QueuePolicy(default_timeout_us=200_000)
    model = Model(DynamicBatching(default_queue_policy=policy), takes_s=10)
    running = model.send()
    await asyncio.sleep(0.1)
    waiting = model.send()
    await asyncio.sleep(20)
    assert model.when(running) == 10_000
    assert model.when(waiting) == pytest.approx(300, abs=1)
    error = model.error(waiting)
    assert error is not None
    assert error.code is ErrorCode.UNAVAILABLE
    assert error.message.startswith("Request timeout expired: it waited 200.0 ms")
    assert "may wait 200.0 ms" in error.message
    assert model.statistics.failures[FailureReason.REJECTED] == 1
    assert model.statistics.fail_ns == pytest.approx(200 * MS, abs=MS)
    assert len(model.host.batches) == 1
    model.nothing_left()


async def test_a_request_s_own_shorter_timeout_counts_where_the_model_allows_it() -> None:
    policy = QueuePolicy(default_timeout_us=200_000, allow_timeout_override=True)
    model = Model(DynamicBatching(default_queue_policy=policy), takes_s=10)
    model.send()
    await turn()
    patient, hasty = model.send(), model.send(timeout_us=50_000)
    await asyncio.sleep(1)
    assert model.when(hasty) == pytest.approx(50, abs=1)
    assert model.when(patient) == pytest.approx(200, abs=1)


async def test_the_default_scheduler_knows_no_timeout() -> None:
    model = Model(takes_s=10)
    model.send(timeout_us=1)
    late = model.send(timeout_us=1)
    await asyncio.sleep(30)
    assert (model.when(late), model.error(late)) == (20_000, None)


async def test_delayed_requests_run_after_those_in_time_and_are_never_rejected() -> None:
    policy = QueuePolicy(timeout_action=TimeoutAction.DELAY, default_timeout_us=5_000)
    model = Model(DynamicBatching(default_queue_policy=policy), max_batch_size=1, takes_s=0.010)
    model.send()
    await turn()
    late = model.send()
    await asyncio.sleep(0.006)
    fresh = model.send()
    await asyncio.sleep(1)
    assert model.host.ids[1:] == [ids(fresh), ids(late)]
    assert model.error(late) is None


# -- cancel ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batching", [None, DynamicBatching()])
async def test_a_cancel_in_the_queue_ends_it_at_once_and_it_never_runs(
    batching: DynamicBatching | None,
) -> None:
    model = Model(batching, max_batch_size=1)
    running, gone, stays = model.send(), model.send(), model.send()
    await turn()
    assert model.statistics.pending == 2
    gone.cancel()
    gone.cancel()
    error = model.error(gone)
    assert error is not None
    assert (error.code, error.message) == (ErrorCode.CANCELLED, "")
    assert model.statistics.failures[FailureReason.CANCELED] == 1
    assert model.statistics.pending == 1
    model.host.finish()
    model.host.finish()
    assert model.host.ids == [ids(running), ids(stays)]
    model.nothing_left()


async def test_a_cancel_during_execution_sets_the_flag_and_harms_nobody() -> None:
    model = Model(DynamicBatching())
    one, two = model.send(), model.send()
    await turn()
    one.cancel()
    assert one.cancelled
    assert model.answered == []
    model.host.finish()
    assert (model.error(one), model.error(two)) == (None, None)
    model.nothing_left()


async def test_who_left_before_it_was_queued_is_refused_as_cancelled() -> None:
    model = Model(DynamicBatching())
    inference = make_inference()
    inference.cancel()
    with pytest.raises(InferenceError) as caught:
        model.scheduler.enqueue(inference)
    assert caught.value.code is ErrorCode.CANCELLED
    model.nothing_left()


# -- failures ----------------------------------------------------------------------------------------------


async def test_one_bad_request_fails_alone() -> None:
    model = Model(DynamicBatching())
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


async def test_a_batch_that_fails_as_a_whole_fails_everybody_in_it_and_is_no_execution() -> None:
    model = Model(DynamicBatching())
    both = [model.send(), model.send()]
    await turn()
    model.host.fail(BACKEND_FAILED)
    assert [model.reason(each) for each in both] == [FailureReason.BACKEND] * 2
    assert model.answered[0][2].model_version == 1
    assert model.statistics.failures[FailureReason.BACKEND] == 2
    assert (model.statistics.execution_count, model.statistics.batches) == (0, {})
    assert model.statistics.success_count == 0
    model.nothing_left()


async def test_a_batch_whose_requests_all_failed_is_no_execution() -> None:
    model = Model(DynamicBatching())
    model.host.respond = lambda inference: make_response(inference, error=BACKEND_FAILED)
    model.send()
    await turn()
    model.host.finish()
    assert model.statistics.failures[FailureReason.BACKEND] == 1
    assert (model.statistics.execution_count, model.statistics.last_inference_ms) == (0, 0)


async def test_the_instance_goes_on_after_a_failed_batch() -> None:
    model = Model(takes_s=None)
    first, second = model.send(), model.send()
    model.host.fail(BACKEND_FAILED)
    model.host.finish()
    assert (model.reason(first), model.reason(second)) == (FailureReason.BACKEND, None)


async def test_a_host_that_cannot_take_a_batch_fails_it_and_nobody_waits_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Model(DynamicBatching())

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


async def test_too_few_responses_leave_nobody_without_an_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Model(DynamicBatching())
    one, two = model.send(), model.send()
    await turn()
    model.host.finish_with([make_response(one)])
    assert model.error(one) is None
    assert model.reason(two) is FailureReason.BACKEND
    assert "cannot be used" in caplog.text
    model.nothing_left()


async def test_an_answer_that_cannot_be_delivered_does_not_harm_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Model(DynamicBatching())

    def explode(_: InferResponse) -> None:
        raise ValueError("the connection is gone")

    unlucky = make_inference(on_response=explode)
    model.scheduler.enqueue(unlucky)
    lucky = model.send()
    await turn()
    with caplog.at_level(logging.ERROR):
        model.host.finish()
    assert model.error(lucky) is None
    assert unlucky.request.id in caplog.text
    assert "the connection is gone" in caplog.text
    model.nothing_left()


async def test_a_response_for_somebody_who_has_his_answer_is_dropped() -> None:
    model = Model(DynamicBatching())
    settled, other = model.send(), model.send()
    await turn()
    settled.settled = True
    model.host.finish()
    assert [request_id for request_id, _, _ in model.answered] == ids(other)
    assert model.statistics.success_count == 1
    model.nothing_left()


async def test_a_client_may_send_its_next_request_from_its_answer() -> None:
    model = Model(DynamicBatching(), takes_s=0.010)
    seen: list[float] = []

    def again(_: InferResponse) -> None:
        seen.append(model.now_ms)
        if len(seen) < 3:
            model.scheduler.enqueue(make_inference(on_response=again))

    model.scheduler.enqueue(make_inference(on_response=again))
    await asyncio.sleep(1)
    assert seen == [10.0, 20.0, 30.0]


# -- order -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preserve", [False, True])
async def test_with_preserve_ordering_a_fast_instance_does_not_overtake_a_slow_one(
    *, preserve: bool
) -> None:
    model = Model(DynamicBatching(preserve_ordering=preserve), instances=2, max_batch_size=1)
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


async def test_a_failed_batch_keeps_its_place_in_the_order() -> None:
    model = Model(DynamicBatching(preserve_ordering=True), instances=2, max_batch_size=1)
    first, second = model.send(), model.send()
    await turn()
    model.hosts[1].finish()
    model.hosts[0].fail(BACKEND_FAILED)
    assert [request_id for request_id, _, _ in model.answered] == ids(first, second)
    assert model.reason(first) is FailureReason.BACKEND


# -- counting ----------------------------------------------------------------------------------------------


async def test_each_request_counts_its_own_waiting_and_its_whole_batch_s_computing() -> None:
    model = Model(DynamicBatching())
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


async def test_pending_counts_what_was_accepted_and_is_not_with_an_instance() -> None:
    model = Model(DynamicBatching(), max_batch_size=2)
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


async def test_whoever_is_answered_finds_itself_counted() -> None:
    model = Model(DynamicBatching())
    seen: list[tuple[int, int]] = []
    statistics = model.statistics

    def look(_: InferResponse) -> None:
        seen.append((statistics.success_count, statistics.execution_count))

    model.scheduler.enqueue(make_inference(on_response=look))
    await turn()
    model.host.finish()
    assert seen == [(1, 1)]


# -- the test hook and the end -----------------------------------------------------------------------------


async def test_the_hold_of_the_environment_keeps_requests_until_enough_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(HOLD_VARIABLE, "3")
    policy = QueuePolicy(default_timeout_us=1_000)
    model = Model(DynamicBatching(default_queue_policy=policy), takes_s=0.001)
    late = [model.send(), model.send()]
    await asyncio.sleep(1)
    assert model.answered == []
    last = model.send()
    await asyncio.sleep(1)
    assert model.host.ids == [ids(last)]
    assert [model.reason(each) for each in late] == [FailureReason.REJECTED] * 2


async def test_the_hold_is_not_for_the_default_scheduler_and_must_be_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(HOLD_VARIABLE, "3")
    direct = Model()
    direct.send()
    assert len(direct.host.batches) == 1
    monkeypatch.setenv(HOLD_VARIABLE, "many")
    model = Model(DynamicBatching())
    model.send()
    await turn()
    assert len(model.host.batches) == 1


@pytest.mark.parametrize("batching", [None, DynamicBatching(max_queue_delay_us=60_000_000)])
async def test_stop_refuses_new_requests_finishes_all_it_has_and_closes_the_hosts(
    batching: DynamicBatching | None,
) -> None:
    model = Model(batching, max_batch_size=2, instances=2, takes_s=0.010)
    arrived = [model.send() for _ in range(7)]
    stopping = asyncio.create_task(model.scheduler.stop())
    await turn()
    with pytest.raises(InferenceError) as caught:
        model.send()
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert (
        "Server is stopping, scheduler for model has stopped accepting new inference requests"
        in caught.value.message
    )
    assert [host.closed for host in model.hosts] == [0, 0]
    await stopping
    assert [model.error(each) for each in arrived] == [None] * 7
    assert model.now_ms <= 40
    assert all(host.closed for host in model.hosts)
    model.nothing_left()


async def test_stop_sends_a_forming_batch_and_says_why() -> None:
    model = Model(DynamicBatching(max_queue_delay_us=60_000_000), takes_s=0.001)
    model.send()
    await turn()
    await model.scheduler.stop()
    assert model.statistics.closes[CloseReason.STOP] == 1


async def test_stop_ends_at_once_when_nothing_is_left_and_again_when_called_again() -> None:
    model = Model(DynamicBatching())
    await asyncio.gather(model.scheduler.stop(), model.scheduler.stop())
    await model.scheduler.stop()
    assert model.now_ms == 0
    assert model.host.closed


async def test_stop_lets_queued_requests_time_out_and_be_cancelled() -> None:
    policy = QueuePolicy(default_timeout_us=5_000)
    model = Model(DynamicBatching(default_queue_policy=policy), max_batch_size=1, takes_s=1)
    running, expires, leaves = model.send(), model.send(), model.send()
    await turn()
    stopping = asyncio.create_task(model.scheduler.stop())
    await turn()
    leaves.cancel()
    await stopping
    assert [model.reason(each) for each in (running, expires, leaves)] == [
        None,
        FailureReason.REJECTED,
        FailureReason.CANCELED,
    ]
    assert model.when(expires) == pytest.approx(5, abs=1)
    model.nothing_left()


async def test_stop_releases_what_the_environment_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOLD_VARIABLE, "9")
    model = Model(DynamicBatching(), takes_s=0.001)
    held = model.send()
    await model.scheduler.stop()
    assert model.error(held) is None
