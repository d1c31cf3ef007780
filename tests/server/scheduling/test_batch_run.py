"""The run of a batch is kept between decisions: it decides as one that is formed from the whole queue, and an arrival costs the same however many wait."""

import gc
import weakref

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from typing_extensions import override

from naiad.config.model_config import DynamicBatching, QueuePolicy, TensorSpec, TimeoutAction
from naiad.core.datatypes import INT32
from naiad.core.inference import Inference
from naiad.core.tensor import Tensor
from naiad.errors import InferenceError
from naiad.scheduling import batching
from naiad.scheduling.batching import (
    BatchingPolicy,
    BatchRun,
    Dispatch,
    WaitUntil,
    next_batch,
    next_prefetch,
    plan_batching,
)
from naiad.scheduling.queue import InferenceQueue
from tests.support.inferences import make_config, make_inference, make_spec

US = 1_000
MAX_ROWS = 8
BATCHINGS = st.builds(
    DynamicBatching,
    preferred_batch_sizes=st.sampled_from([(), (2,), (2, 4), (3, 5, 8)]),
    max_queue_delay_us=st.sampled_from([0, 50, 5_000]),
    priority_levels=st.sampled_from([0, 3]),
    default_priority_level=st.just(2),
    default_queue_policy=st.builds(
        QueuePolicy,
        timeout_action=st.sampled_from(TimeoutAction),
        default_timeout_us=st.sampled_from([0, 100]),
        allow_timeout_override=st.just(value=True),
        max_queue_size=st.sampled_from([0, 12]),
    ),
)
INPUTS = st.sampled_from(
    [
        (make_spec(),),
        (make_spec("x", -1),),
        (make_spec("x", -1), make_spec("z", 1, optional=True)),
    ]
)


def made(
    lengths: tuple[int, ...], *, rows: int = 1, priority: int = 0, timeout_us: int = 0
) -> Inference:
    """A request with an input of so many columns, and another one for each further length."""
    tensors = [
        Tensor(name, INT32, (rows, length), np.zeros((rows, length), np.int32))
        for name, length in zip("xz", lengths, strict=False)
    ]
    return make_inference(*tensors, rows=rows, priority=priority, timeout_us=timeout_us)


class Decisions(RuleBasedStateMachine):
    """One queue, and a run that is kept through whatever happens to it."""

    @initialize(batching=BATCHINGS, inputs=INPUTS)
    def start(self, batching: DynamicBatching, inputs: tuple[TensorSpec, ...]) -> None:
        self.now = 1
        self.queue = InferenceQueue(model="m", batching=batching)
        self.policy = plan_batching(
            make_config(batching=batching, max_batch_size=MAX_ROWS, inputs=inputs)
        )
        self.run = BatchRun(self.queue, self.policy)
        self.sent: list[Inference] = []

    @rule(
        rows=st.sampled_from([1, 1, 1, 2, 3, MAX_ROWS]),
        lengths=st.sampled_from([(4,), (4,), (4,), (5,), (4, 1)]),
        priority=st.integers(0, 3),
        timeout_us=st.sampled_from([0, 10, 60]),
        count=st.integers(1, 4),
    )
    def arrive(
        self, rows: int, lengths: tuple[int, ...], priority: int, timeout_us: int, count: int
    ) -> None:
        for _ in range(count):
            inference = made(lengths, rows=rows, priority=priority, timeout_us=timeout_us)
            try:
                self.queue.push(inference, self.now)
            except InferenceError:
                return
            self.sent.append(inference)

    @rule(which=st.integers(0, 63))
    def cancel(self, which: int) -> None:
        if self.sent:
            self.queue.remove(self.sent[which % len(self.sent)])

    @rule(passed_us=st.sampled_from([1, 20, 70, 10_000]))
    def time_passes(self, passed_us: int) -> None:
        self.now += passed_us * US
        self.queue.expire(self.now)

    @rule(draining=st.booleans())
    def send(self, draining: bool) -> None:  # noqa: FBT001  hypothesis gives it by name
        decision = next_batch(self.run, self.now, draining=draining)
        if isinstance(decision, Dispatch):
            self.queue.take(decision.count)

    @rule(draining=st.booleans())
    def decide(self, draining: bool) -> None:  # noqa: FBT001  hypothesis gives it by name
        self._same(draining=draining)

    @invariant()
    def the_queue_is_the_same_from_both_ends(self) -> None:
        assert list(reversed(self.queue)) == list(self.queue)[::-1]

    @override
    def teardown(self) -> None:
        self._same(draining=False)

    def _same(self, *, draining: bool) -> None:
        """As from scratch; only now and then, because a decision brings the run up to date."""
        for decide in (next_batch, next_prefetch):
            fresh = decide(BatchRun(self.queue, self.policy), self.now, draining=draining)
            # Decisions have no equality of their own.
            assert repr(decide(self.run, self.now, draining=draining)) == repr(fresh)


TestDecisions = Decisions.TestCase
TestDecisions.settings = hypothesis.settings(
    parent=hypothesis.settings.default, stateful_step_count=60
)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Inference]:
    """The requests that were compared with the head of the queue."""
    seen: list[Inference] = []
    batchable = batching.batchable

    def note(one: Inference, other: Inference, policy: BatchingPolicy) -> bool:
        seen.append(other)
        return batchable(one, other, policy)

    monkeypatch.setattr(batching, "batchable", note)
    return seen


def waiting_run(batching: DynamicBatching, count: int) -> tuple[InferenceQueue, BatchRun]:
    """A run of so many requests with a variable dimension, and a decision after each."""
    config = make_config(batching=batching, max_batch_size=1_000, inputs=(make_spec("x", -1),))
    queue = InferenceQueue(model="m", batching=batching)
    run = BatchRun(queue, plan_batching(config))
    for now in range(count):
        queue.push(made((4,), priority=2), now)
        assert isinstance(next_batch(run, now), WaitUntil)
    return queue, run


def test_an_arrival_is_compared_once_however_many_wait(compared: list[Inference]) -> None:
    queue, run = waiting_run(DynamicBatching(max_queue_delay_us=1_000_000), 300)
    assert len(compared) == 299
    assert run.count == len(queue) == 300


def test_a_cancel_forms_the_run_again_and_arrivals_after_it_extend_it(
    compared: list[Inference],
) -> None:
    queue, run = waiting_run(DynamicBatching(max_queue_delay_us=1_000_000), 10)
    compared.clear()
    queue.remove(next(iter(queue)))
    for now in range(10, 15):
        queue.push(made((4,)), now)
        next_batch(run, now)
    assert len(compared) == 9 + 4
    assert run.oldest_ns == 1


def test_a_request_of_higher_priority_forms_the_run_again_and_one_of_the_lowest_extends_it(
    compared: list[Inference],
) -> None:
    levels = DynamicBatching(
        max_queue_delay_us=1_000_000, priority_levels=2, default_priority_level=2
    )
    queue, run = waiting_run(levels, 10)
    compared.clear()
    first = made((5,), priority=1)
    queue.push(first, 10)
    assert isinstance(next_batch(run, 10), Dispatch), "the others have another shape"
    assert (run.count, len(compared)) == (1, 1)
    queue.remove(first)
    next_batch(run, 11)
    compared.clear()
    last = made((4,), priority=2)
    queue.push(last, 12)
    next_batch(run, 12)
    assert compared == [last]


def test_an_arrival_before_a_delayed_request_forms_the_run_again(
    compared: list[Inference],
) -> None:
    delays = QueuePolicy(timeout_action=TimeoutAction.DELAY, default_timeout_us=100)
    queue, run = waiting_run(
        DynamicBatching(max_queue_delay_us=1_000_000, default_queue_policy=delays), 5
    )
    queue.expire(1_000 * US)
    assert isinstance(next_batch(run, 1_000 * US), WaitUntil)
    compared.clear()
    queue.push(made((5,)), 1_000 * US)
    assert isinstance(next_batch(run, 1_000 * US), Dispatch), "the delayed ones have another shape"
    assert (run.count, len(compared)) == (1, 1)


def test_a_run_holds_no_request_that_has_left_the_queue() -> None:
    queue, run = waiting_run(DynamicBatching(max_queue_delay_us=1_000_000), 3)
    tensors = [weakref.ref(inference.request.inputs[0].array) for inference in queue]
    queue.take(3)
    gc.collect()
    assert run.count == 3, "no decision since"
    assert [tensor() for tensor in tensors] == [None] * 3
