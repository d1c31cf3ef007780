"""The batch decision as tables: what is queued, and what runs now, and why."""

import collections.abc
import typing

import msgspec
import numpy as np
import pytest

from naiad.config.model_config import DynamicBatching, QueuePolicy, TensorSpec, TimeoutAction
from naiad.core.datatypes import INT32
from naiad.core.inference import Inference
from naiad.core.tensor import Tensor
from naiad.metrics.statistics import CloseReason
from naiad.scheduling.batching import (
    BatchRun,
    Dispatch,
    WaitUntil,
    batchable,
    batching_policy,
    next_batch,
    next_prefetch,
    plan_batching,
)
from naiad.scheduling.queue import InferenceQueue
from tests.support.inferences import make_config, make_inference, make_spec, make_tensor

US = 1_000
FULL, PREFERRED, DELAY = CloseReason.FULL, CloseReason.PREFERRED, CloseReason.DELAY
IDLE, SHAPE, STOP, SINGLE = (
    CloseReason.IDLE,
    CloseReason.SHAPE,
    CloseReason.STOP,
    CloseReason.SINGLE,
)


class Batch(typing.NamedTuple):
    """A batch that runs, and why."""

    batch: list[Inference]
    reason: CloseReason


class Batcher:
    """A queue and a policy of one model, with the clock in the test's hand."""

    def __init__(
        self,
        batching: DynamicBatching | None,
        *,
        max_batch_size: int = 8,
        inputs: collections.abc.Sequence[TensorSpec] = (make_spec(),),
    ) -> None:
        config = make_config(batching=batching, max_batch_size=max_batch_size, inputs=inputs)
        self.queue = InferenceQueue(model="m", batching=batching)
        self.policy = plan_batching(config)
        self.run = BatchRun(self.queue, self.policy)

    def push(self, *tensors: Tensor, now: int = 0, rows: int = 1, priority: int = 0) -> Inference:
        inference = make_inference(*tensors, rows=rows, priority=priority)
        self.queue.push(inference, now)
        return inference

    def decide(self, now: int = 0, *, draining: bool = False) -> Dispatch | WaitUntil | None:
        queued = list(self.queue)
        decision = next_batch(self.run, now, draining=draining)
        assert list(self.queue) == queued, "a decision changes nothing"
        return decision

    def dispatch(self, now: int = 0, *, draining: bool = False) -> Batch:
        decision = self.decide(now, draining=draining)
        assert isinstance(decision, Dispatch)
        return self.take(decision)

    def ahead(self, now: int = 0, *, draining: bool = False) -> Batch | None:
        """The batch that a busy instance gets in advance."""
        queued = list(self.queue)
        decision = next_prefetch(self.run, now, draining=draining)
        assert list(self.queue) == queued, "a decision changes nothing"
        return None if decision is None else self.take(decision)

    def take(self, decision: Dispatch) -> Batch:
        return Batch(self.queue.take(decision.count), decision.reason)

    def waits(self, now: int = 0) -> WaitUntil:
        decision = self.decide(now)
        assert isinstance(decision, WaitUntil)
        return decision


# Rows of the queued requests, then the batches that leave one after another, each by its rows and its reason.
WITHOUT_DELAY = [
    pytest.param((), [1], [([1], IDLE)], id="one request runs alone at once"),
    pytest.param((), [1] * 3, [([1] * 3, IDLE)], id="what is queued runs together"),
    pytest.param((), [1] * 8, [([1] * 8, FULL)], id="exactly full"),
    pytest.param(
        (), [1] * 20, [([1] * 8, FULL), ([1] * 8, FULL), ([1] * 4, IDLE)], id="ceil(20 / 8) batches"
    ),
    pytest.param((), [3, 4, 2], [([3, 4], FULL), ([2], IDLE)], id="a request is never split"),
    pytest.param((), [8, 8], [([8], FULL), ([8], FULL)], id="a full request is a batch"),
    pytest.param((), [5, 5, 3], [([5], FULL), ([5, 3], FULL)], id="no overtaking to fill a gap"),
    pytest.param((4,), [1] * 3, [([1] * 3, IDLE)], id="below the preferred size nothing waits"),
    pytest.param(
        (4,), [1] * 6, [([1] * 4, PREFERRED), ([1] * 2, IDLE)], id="cut to the preferred size"
    ),
    pytest.param(
        (2, 4), [1] * 7, [([1] * 4, PREFERRED), ([1] * 2, PREFERRED), ([1], IDLE)],
        id="the largest preferred size first",
    ),
    pytest.param((4,), [3, 2], [([3], PREFERRED), ([2], IDLE)], id="the next would pass every size"),
    pytest.param((2, 6), [2, 3], [([2], PREFERRED), ([3], IDLE)], id="a preferred size on the way"),
    pytest.param((4,), [6, 1], [([6], PREFERRED), ([1], IDLE)], id="already above every preferred size"),
    pytest.param((4, 8), [1] * 9, [([1] * 8, FULL), ([1], IDLE)], id="the largest is max_batch_size"),
]  # fmt: skip


@pytest.mark.parametrize(("preferred", "queued", "batches"), WITHOUT_DELAY)
def test_without_a_delay(
    preferred: tuple[int, ...], queued: list[int], batches: list[tuple[list[int], CloseReason]]
) -> None:
    batcher = Batcher(DynamicBatching(preferred_batch_sizes=preferred))
    for rows in queued:
        batcher.push(rows=rows)
    left: list[tuple[list[int], CloseReason]] = []
    while batcher.queue:
        batch, reason = batcher.dispatch()
        left.append(([inference.batch_size for inference in batch], reason))
    assert left == batches


# Delay 100 us; rows that came at 0 us; the time of the question; what happens.
WITH_DELAY = [
    pytest.param((4, 8), [1], 0, "wait 4", id="one request waits for the first preferred size"),
    pytest.param((4, 8), [1] * 5, 0, ([1] * 4, PREFERRED), id="a preferred size goes at once"),
    pytest.param((4, 8), [3, 3], 0, "wait 8", id="a skipped preferred size is not waited for"),
    pytest.param((4, 8), [3, 3, 3], 0, ([3, 3], FULL), id="full, because the next does not fit"),
    pytest.param((4,), [3, 3], 0, ([3], PREFERRED), id="nothing more can make a preferred size"),
    pytest.param((4,), [5], 0, ([5], PREFERRED), id="larger than every preferred size"),
    pytest.param((), [1] * 7, 99, "wait 8", id="the default preferred size is max_batch_size"),
    pytest.param((), [1] * 7, 100, ([1] * 7, DELAY), id="the delay is over"),
    pytest.param((), [1] * 9, 100, ([1] * 8, FULL), id="the delay is over and it is full"),
    pytest.param((4,), [1] * 6, 100, ([1] * 6, DELAY), id="overdue, everything that fits goes"),
    pytest.param((4,), [1] * 6, 99, ([1] * 4, PREFERRED), id="in time, the preferred size goes"),
]  # fmt: skip


@pytest.mark.parametrize(("preferred", "queued", "now_us", "expected"), WITH_DELAY)
def test_with_a_delay(
    preferred: tuple[int, ...],
    queued: list[int],
    now_us: int,
    expected: str | tuple[list[int], CloseReason],
) -> None:
    batcher = Batcher(DynamicBatching(preferred_batch_sizes=preferred, max_queue_delay_us=100))
    for rows in queued:
        batcher.push(rows=rows)
    decision = batcher.decide(now_us * US)
    if isinstance(decision, WaitUntil):
        assert decision.at_ns == 100 * US
        assert f"wait {decision.rows}" == expected
    else:
        assert decision is not None
        batch, reason = batcher.take(decision)
        assert ([inference.batch_size for inference in batch], reason) == expected


def test_the_delay_counts_from_the_oldest_request_of_the_batch() -> None:
    batcher = Batcher(
        DynamicBatching(max_queue_delay_us=100, priority_levels=2, default_priority_level=2)
    )
    batcher.push(now=10 * US)
    batcher.push(now=60 * US, priority=1)
    assert batcher.waits(60 * US).at_ns == 110 * US


def test_when_no_other_request_will_come_a_batch_does_not_wait() -> None:
    batcher = Batcher(DynamicBatching(max_queue_delay_us=100))
    batcher.push()
    assert batcher.dispatch(draining=True).reason is STOP


def test_nothing_queued_is_nothing_to_do() -> None:
    assert Batcher(DynamicBatching()).decide() is None
    assert Batcher(None).decide() is None


@pytest.mark.parametrize(
    ("batching", "max_batch_size"), [(None, 8), (DynamicBatching(max_queue_delay_us=100), 0)]
)
def test_each_request_runs_alone_by_default_and_without_a_batch_dimension(
    batching: DynamicBatching | None, max_batch_size: int
) -> None:
    batcher = Batcher(batching, max_batch_size=max_batch_size)
    arrived = [batcher.push(), batcher.push()]
    for inference in arrived:
        decision = batcher.dispatch()
        assert (decision.batch, decision.reason) == ([inference], SINGLE)


def test_a_request_of_higher_priority_joins_the_head_of_a_forming_batch_and_pushes_the_last_out() -> None:  # fmt: skip
    batcher = Batcher(
        DynamicBatching(max_queue_delay_us=100, priority_levels=2, default_priority_level=2),
        max_batch_size=3,
    )
    low = [batcher.push(rows=1), batcher.push(rows=1)]
    assert batcher.waits().rows == 0, "any new request may change the batch"
    high = batcher.push(rows=2, priority=1)
    decision = batcher.dispatch()
    assert (decision.batch, decision.reason) == ([high, low[0]], FULL)
    assert list(batcher.queue) == low[1:]


def test_a_batch_may_hold_several_priorities() -> None:
    batcher = Batcher(DynamicBatching(priority_levels=3, default_priority_level=2))
    low, high = batcher.push(priority=3), batcher.push(priority=1)
    assert batcher.dispatch().batch == [high, low]


def test_a_delay_policy_may_put_new_requests_before_waiting_ones_so_every_arrival_is_looked_at() -> None:  # fmt: skip
    policy = QueuePolicy(timeout_action=TimeoutAction.DELAY, default_timeout_us=10)
    batcher = Batcher(DynamicBatching(max_queue_delay_us=100, default_queue_policy=policy))
    batcher.push()
    assert batcher.waits().rows == 0


def test_another_shape_ends_the_batch_but_another_batch_size_does_not() -> None:
    batcher = Batcher(DynamicBatching(), inputs=[make_spec("x", -1)])
    same = [
        batcher.push(make_tensor("x", 1, 4)),
        batcher.push(make_tensor("x", 2, 4), rows=2),
    ]
    other = batcher.push(make_tensor("x", 1, 5))
    batcher.push(make_tensor("x", 1, 4))
    decision = batcher.dispatch()
    assert (decision.batch, decision.reason) == (same, SHAPE)
    assert batcher.dispatch().batch == [other]


def test_another_shape_ends_the_batch_although_the_delay_is_not_over() -> None:
    batcher = Batcher(DynamicBatching(max_queue_delay_us=100), inputs=[make_spec("x", -1)])
    first = batcher.push(make_tensor("x", 1, 4))
    assert batcher.waits().rows == 0
    batcher.push(make_tensor("x", 1, 5))
    decision = batcher.dispatch()
    assert (decision.batch, decision.reason) == ([first], SHAPE)


def test_inputs_are_compared_by_name_and_not_by_place() -> None:
    batcher = Batcher(DynamicBatching(), inputs=[make_spec("x", -1), make_spec("z", -1)])
    batcher.push(make_tensor("x", 1, 4), make_tensor("z", 1, 2))
    batcher.push(make_tensor("z", 1, 2), make_tensor("x", 1, 4))
    batcher.push(make_tensor("z", 1, 4), make_tensor("x", 1, 2))
    decision = batcher.dispatch()
    assert (len(decision.batch), decision.reason) == (2, SHAPE)


def test_inputs_of_fixed_shape_are_not_compared() -> None:
    policy = Batcher(DynamicBatching()).policy
    assert policy.same_shape == frozenset()
    assert not policy.same_inputs
    assert policy.append_only


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (["x"], ["x"], True),
        (["x", "z"], ["z", "x"], True),
        (["x"], ["x", "z"], False),
        (["x", "z"], ["x"], False),
        (["x", "z"], ["x", "w"], False),
    ],
)
def test_requests_with_other_optional_inputs_are_not_batched_together(
    first: list[str], second: list[str], *, together: bool
) -> None:
    inputs = [make_spec("x"), make_spec("z", optional=True), make_spec("w", optional=True)]
    batcher = Batcher(DynamicBatching(), inputs=inputs)
    for names in (first, second):
        batcher.push(*(make_tensor(name, 1, 1) for name in names))
    decision = batcher.dispatch()
    assert len(decision.batch) == (2 if together else 1)
    assert decision.reason is (IDLE if together else SHAPE)


@pytest.mark.parametrize(("value", "together"), [(7, True), (8, False)])
def test_shape_tensors_are_compared_by_value(value: int, *, together: bool) -> None:
    spec = TensorSpec(name="s", datatype=INT32, dims=(1,), is_shape_tensor=True)
    batcher = Batcher(DynamicBatching(), inputs=[spec])
    for each in (7, value):
        batcher.push(Tensor("s", INT32, (1, 1), np.array([[each]], np.int32)))
    assert len(batcher.dispatch().batch) == (2 if together else 1)


def test_shape_tensors_are_compared_by_shape_too() -> None:
    spec = TensorSpec(name="s", datatype=INT32, dims=(-1, -1), is_shape_tensor=True)
    batcher = Batcher(DynamicBatching(), inputs=[spec])
    for shape in ((1, 2, 3), (1, 3, 2)):
        batcher.push(Tensor("s", INT32, shape, np.ones(shape, np.int32)))
    assert len(batcher.dispatch().batch) == 1


# Preferred sizes, rows of the queued requests, then the rows of the batch that a busy instance gets in advance, and why it is complete.
IN_ADVANCE = [
    pytest.param((), [], None, id="nothing is queued"),
    pytest.param((), [1] * 7, None, id="another request could join"),
    pytest.param((), [1] * 8, ([1] * 8, FULL), id="exactly full"),
    pytest.param((), [1] * 9, ([1] * 8, FULL), id="more than full"),
    pytest.param((), [5, 5], ([5], FULL), id="the next request does not fit"),
    pytest.param((4,), [1] * 3, None, id="below the preferred size"),
    pytest.param(
        (4,), [1] * 4, ([1] * 4, PREFERRED), id="cut to the preferred size whatever comes"
    ),
    pytest.param((4,), [6], ([6], PREFERRED), id="above every preferred size"),
    pytest.param((2, 4), [1] * 3, None, id="it could reach a larger preferred size"),
    pytest.param((2, 4), [1] * 5, ([1] * 4, PREFERRED), id="the largest preferred size"),
]


@pytest.mark.parametrize("delay_us", [0, 100])
@pytest.mark.parametrize(("preferred", "queued", "batch"), IN_ADVANCE)
def test_a_batch_is_prefetched_only_if_no_arrival_can_change_it(
    preferred: tuple[int, ...],
    queued: list[int],
    batch: tuple[list[int], CloseReason] | None,
    delay_us: int,
) -> None:
    batcher = Batcher(DynamicBatching(preferred_batch_sizes=preferred, max_queue_delay_us=delay_us))
    for rows in queued:
        batcher.push(rows=rows)
    ahead = batcher.ahead()
    shown = None
    if ahead is not None:
        shown = [each.batch_size for each in ahead.batch], ahead.reason
    assert shown == batch


def test_a_batch_whose_delay_is_over_is_not_prefetched_because_it_still_grows() -> None:
    batcher = Batcher(DynamicBatching(max_queue_delay_us=100))
    for _ in range(7):
        batcher.push()
    assert batcher.ahead(now=200 * US) is None
    assert batcher.dispatch(now=200 * US).reason is DELAY


def test_a_batch_that_ends_with_another_shape_is_prefetched_once_there_is_enough_for_a_full_one() -> None:  # fmt: skip
    batcher = Batcher(DynamicBatching(), inputs=[make_spec("x", -1)])
    short = [batcher.push(make_tensor("x", 1, 2)) for _ in range(3)]
    for _ in range(4):
        batcher.push(make_tensor("x", 1, 3))
    assert batcher.ahead() is None
    batcher.push(make_tensor("x", 1, 3))
    assert batcher.ahead() == (short, SHAPE)


def test_each_request_that_runs_alone_is_prefetched() -> None:
    batcher = Batcher(None)
    first, second = batcher.push(rows=2), batcher.push()
    assert batcher.ahead() == ([first], SINGLE)
    assert batcher.ahead() == ([second], SINGLE)


def test_when_no_other_request_will_come_every_batch_is_prefetched() -> None:
    batcher = Batcher(DynamicBatching(max_queue_delay_us=100))
    only = batcher.push()
    assert batcher.ahead() is None
    assert batcher.ahead(draining=True) == ([only], STOP)


@pytest.mark.parametrize(
    "batching",
    [
        DynamicBatching(priority_levels=2, default_priority_level=2),
        DynamicBatching(
            default_queue_policy=QueuePolicy(
                timeout_action=TimeoutAction.DELAY, default_timeout_us=100
            )
        ),
    ],
    ids=["priority levels", "delayed requests"],
)
def test_a_batch_that_a_request_could_overtake_is_not_prefetched(batching: DynamicBatching) -> None:
    batcher = Batcher(batching)
    for _ in range(8):
        batcher.push()
    assert batcher.ahead() is None
    assert batcher.dispatch().reason is FULL


def test_ragged_inputs_share_a_batch_whatever_their_shapes() -> None:
    ragged = msgspec.structs.replace(make_spec("x", -1), ragged=True)
    policy = batching_policy([ragged, make_spec("y", -1)], 8, DynamicBatching())
    assert policy.same_shape == {"y"}
    one, other = (
        make_inference(make_tensor("x", 1, size), make_tensor("y", 1, 2)) for size in (2, 3)
    )
    assert batchable(one, other, policy)
    third = make_inference(make_tensor("x", 1, 2), make_tensor("y", 1, 3))
    assert not batchable(one, third, policy)


def test_only_ragged_inputs_need_no_comparison() -> None:
    ragged = msgspec.structs.replace(make_spec("x", -1), ragged=True)
    assert batching_policy([ragged], 8, DynamicBatching()).append_only
