"""The queue with numbers: order, limits, timeouts, and what leaving costs."""

import functools

import pytest

from naiad.config.model_config import DynamicBatching, QueuePolicy, TimeoutAction
from naiad.core.inference import Inference
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.scheduling.queue import InferenceQueue
from tests.support.calls import calls_of
from tests.support.inferences import make_inference

US = 1_000


def queue_of(batching: DynamicBatching | None = None) -> InferenceQueue:
    return InferenceQueue(model="m", batching=batching)


def with_policy(policy: QueuePolicy) -> InferenceQueue:
    return queue_of(DynamicBatching(default_queue_policy=policy))


def push(
    queue: InferenceQueue, now: int = 0, *, rows: int = 1, priority: int = 0, timeout_us: int = 0
) -> Inference:
    inference = make_inference(rows=rows, priority=priority, timeout_us=timeout_us)
    queue.push(inference, now)
    return inference


def test_without_priorities_first_in_is_first_out_whatever_priority_is_requested() -> None:
    queue = queue_of()
    arrived = [push(queue, priority=priority) for priority in (3, 1, 2)]
    assert list(queue) == arrived
    assert queue.take(2) == arrived[:2]
    assert queue.take(5) == arrived[2:]
    assert len(queue) == 0
    assert {inference.priority_level for inference in arrived} == {0}


def test_higher_priority_goes_first_and_order_is_kept_inside_a_level() -> None:
    queue = queue_of(DynamicBatching(priority_levels=3, default_priority_level=2))
    low, high, low_too, middle, high_too = (push(queue, priority=p) for p in (3, 1, 3, 2, 1))
    assert list(queue) == [high, high_too, middle, low, low_too]
    assert queue.take(4) == [high, high_too, middle, low]
    assert queue.take(9) == [low_too]


@pytest.mark.parametrize(("requested", "level"), [(0, 2), (1, 1), (3, 3), (4, 2), (2**63, 2)])
def test_priority_zero_or_out_of_range_means_the_default_level(requested: int, level: int) -> None:
    queue = queue_of(DynamicBatching(priority_levels=3, default_priority_level=2))
    assert push(queue, priority=requested).priority_level == level


def test_a_level_that_is_empty_costs_nothing_although_a_client_may_choose_among_billions() -> None:
    queue = queue_of(DynamicBatching(priority_levels=2**40, default_priority_level=1))
    for priority in range(1, 1_000):
        assert queue.remove(push(queue, priority=priority))
    assert queue.kept == 0


def test_rows_are_those_of_the_requests_that_wait() -> None:
    queue = queue_of()
    three, two = push(queue, rows=3), push(queue, rows=2)
    assert queue.rows == 5
    queue.remove(three)
    assert (queue.rows, len(queue)) == (2, 1)
    assert queue.take(1) == [two]
    assert (queue.rows, len(queue)) == (0, 0)


def test_a_full_level_refuses_with_the_request_id_the_limit_and_what_to_do() -> None:
    queue = with_policy(QueuePolicy(max_queue_size=2))
    push(queue)
    push(queue)
    refused = make_inference()
    with pytest.raises(InferenceError) as caught:
        queue.push(refused, 0)
    error = caught.value
    assert error.code is ErrorCode.UNAVAILABLE
    assert error.reason is FailureReason.REJECTED
    assert error.message.startswith(
        f"[request id: {refused.request.id}] Exceeds maximum queue size"
    )
    assert "max_queue_size: 2" in error.message
    assert len(queue) == 2


def test_a_cancelled_request_takes_no_place_of_a_full_queue() -> None:
    queue = with_policy(QueuePolicy(max_queue_size=2))
    first, second = push(queue), push(queue)
    assert queue.remove(first)
    third = push(queue)
    assert list(queue) == [second, third]
    assert not queue.remove(first)


def test_a_limit_counts_requests_of_its_own_level_only() -> None:
    queue = queue_of(
        DynamicBatching(
            priority_levels=2,
            default_priority_level=2,
            queue_policies={1: QueuePolicy(max_queue_size=1)},
        )
    )
    for _ in range(5):
        push(queue, priority=2)
    push(queue, priority=1)
    with pytest.raises(InferenceError, match="priority level 1 of model 'm'"):
        push(queue, priority=1)


@pytest.mark.parametrize(
    ("default_us", "override", "requested_us", "deadline_us"),
    [
        (0, False, 0, 0),
        (0, True, 50, 0),
        (100, False, 50, 100),
        (100, True, 0, 100),
        (100, True, 50, 50),
        (100, True, 100, 100),
        (100, True, 500, 100),
    ],
)
def test_a_request_s_own_timeout_counts_only_where_allowed_and_smaller(
    default_us: int, requested_us: int, deadline_us: int, *, override: bool
) -> None:
    queue = with_policy(QueuePolicy(default_timeout_us=default_us, allow_timeout_override=override))
    inference = push(queue, timeout_us=requested_us)
    assert inference.deadline_ns == queue.next_deadline() == deadline_us * US


def test_expired_requests_of_a_reject_policy_leave_at_their_deadline_and_not_before() -> None:
    queue = with_policy(QueuePolicy(default_timeout_us=100))
    early, late = push(queue, 0), push(queue, 30 * US)
    assert queue.next_deadline() == 100 * US
    assert queue.expire(100 * US - 1) == []
    assert queue.expire(100 * US) == [early]
    assert list(queue) == [late]
    assert queue.next_deadline() == 130 * US
    assert queue.expire(10**9) == [late]
    assert (queue.next_deadline(), queue.rows) == (0, 0)


def test_a_shorter_timeout_of_a_later_request_expires_first() -> None:
    queue = with_policy(QueuePolicy(default_timeout_us=100, allow_timeout_override=True))
    patient, hasty = push(queue), push(queue, timeout_us=10)
    assert queue.expire(10 * US) == [hasty]
    assert list(queue) == [patient]


def test_expired_requests_of_a_delay_policy_run_behind_their_level_and_are_never_rejected() -> None:
    delay = QueuePolicy(timeout_action=TimeoutAction.DELAY, default_timeout_us=100)
    queue = queue_of(
        DynamicBatching(priority_levels=2, default_priority_level=1, queue_policies={1: delay})
    )
    old, below, fresh = push(queue, 0), push(queue, 0, priority=2), push(queue, 50 * US)
    assert queue.expire(100 * US) == []
    assert list(queue) == [fresh, old, below]
    newest = push(queue, 110 * US)
    assert queue.expire(150 * US) == []
    assert queue.take(3) == [newest, old, fresh]
    assert queue.remove(below)


def test_a_delayed_request_can_still_be_cancelled() -> None:
    queue = with_policy(QueuePolicy(timeout_action=TimeoutAction.DELAY, default_timeout_us=1))
    inference = push(queue)
    queue.expire(10 * US)
    assert queue.remove(inference)
    assert (len(queue), queue.next_deadline()) == (0, 0)


def test_a_delayed_request_counts_for_the_limit_of_its_level() -> None:
    queue = with_policy(
        QueuePolicy(timeout_action=TimeoutAction.DELAY, default_timeout_us=1, max_queue_size=1)
    )
    push(queue)
    queue.expire(10 * US)
    with pytest.raises(InferenceError, match="Exceeds maximum queue size"):
        push(queue, 10 * US)


def test_deadlines_of_requests_that_left_are_not_kept() -> None:
    queue = with_policy(QueuePolicy(default_timeout_us=10**9))
    stays = push(queue)
    for now in range(10_000):
        queue.remove(push(queue, now))
    assert queue.kept < 200
    assert queue.next_deadline() == stays.deadline_ns


def _push_and_take(queue: InferenceQueue, inferences: list[Inference]) -> None:
    for inference in inferences:
        queue.push(inference, 0)
        queue.take(1)


def test_ten_thousand_waiting_requests_are_no_more_work_than_ten() -> None:
    queues = {waiting: queue_of() for waiting in (10, 10_000)}
    work: dict[int, int] = {}
    for waiting, queue in queues.items():
        for _ in range(waiting):
            push(queue)
        inferences = [make_inference() for _ in range(1_000)]
        work[waiting] = calls_of(functools.partial(_push_and_take, queue, inferences))
    assert work[10_000] == work[10]
