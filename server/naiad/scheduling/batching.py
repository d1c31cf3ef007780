"""Which requests run together, and when: the dynamic batcher's decision as one function of (queue, now, policy).

Pure: it reads the queue and does not change it, knows neither a clock nor an instance, and is called only when an instance is free; the
scheduler takes the batch out of the queue. The rules are rows 12.2 to 12.10:
a batch is a run from the head of the queue, so the order inside a priority level is kept; a request of higher
priority that arrives while a batch waits for more requests goes to its head, because that forms the batch again.
Without a delay, queued requests run at once, cut to the largest preferred size that they fill.
"""

import collections.abc
import itertools

import msgspec

from naiad.config.model_config import (
    DynamicBatching,
    ModelConfig,
    QueuePolicy,
    TensorSpec,
    TimeoutAction,
)
from naiad.core.inference import Inference
from naiad.core.record import Record
from naiad.core.tensor import Tensor
from naiad.metrics.statistics import CloseReason
from naiad.scheduling.queue import MICROSECOND_NS, InferenceQueue
from naiad.scheduling.strategy import Strategy


class BatchingPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A model's settings, in the form in which the decision needs them.

    Attributes:
        single: every request runs alone, regardless of its batch size (rows 12.1, 12.22).
        max_rows: the most batch rows of a batch.
        preferred: sizes that run at once, in rows, ascending.
        delay_ns: how long the oldest request of a batch may wait for more requests.
        same_shape: inputs whose shapes must agree: those with a dimension of any size that are not ragged (row 12.7).
        same_values: inputs whose values must agree: shape tensors.
        same_inputs: requests must bring the same set of inputs, for some are optional (row 12.8).
        append_only: whether a new request always goes behind the queued ones and could share a batch with any of them.
        prefetches: whether a batch may be formed before an instance is free: no request could overtake it.
        times_out: whether a request may have a timeout, which counts while a batch waits.
        awaits_follow_ups: whether an instance may wait for requests where the config does not say when a batch waits (`follow_ups`).
        prefetch_rows: with fewer rows in the queue none is, which saves looking at them with each arrival.
    """

    single: bool
    max_rows: int
    preferred: tuple[int, ...]
    delay_ns: int
    same_shape: frozenset[str]
    same_values: frozenset[str]
    same_inputs: bool
    append_only: bool
    prefetches: bool
    times_out: bool
    awaits_follow_ups: bool
    prefetch_rows: int


class Dispatch(Record, frozen=True):
    """Run a batch now.

    Attributes:
        count: its requests: so many from the head of the queue.
        reason: why it runs now.
    """

    count: int
    reason: CloseReason


class WaitUntil(Record, frozen=True):
    """Wait for more requests.

    Attributes:
        at_ns: decide again at this time.
        rows: or when the queue holds this many rows, if that is earlier; 0: at any new request.
    """

    at_ns: int
    rows: int


_MOST_ROWS = 1 << 62
_SINGLE = Dispatch(1, CloseReason.SINGLE)
_IDLE = CloseReason.IDLE  # looking up a member of an enum takes longer


def plan_batching(config: ModelConfig, *, has_strategy: bool = False) -> BatchingPolicy:
    """The policy of a model with the dynamic batcher or the default scheduler; `has_strategy`: a strategy of its own decides too."""
    policy = batching_policy(config.inputs, config.max_batch_size, config.dynamic_batching)
    if not has_strategy:
        return policy
    return msgspec.structs.replace(policy, append_only=False, awaits_follow_ups=False)


def batching_policy(
    inputs: collections.abc.Iterable[TensorSpec],
    max_batch_size: int,
    batching: DynamicBatching | None,
) -> BatchingPolicy:
    """The policy of a queue in front of instances; `batching` is None where every request runs alone."""
    inputs = tuple(inputs)
    max_rows = max(1, max_batch_size)
    same_values = frozenset(spec.name for spec in inputs if spec.is_shape_tensor)
    same_shape = frozenset(spec.name for spec in inputs if -1 in spec.dims and not spec.ragged)
    same_shape -= same_values
    same_inputs = any(spec.optional for spec in inputs)
    if batching is None or not max_batch_size:
        batching, single = DynamicBatching(), True
    else:
        single = False
    preferred = tuple(sorted(set(batching.preferred_batch_sizes))) or (max_rows,)
    in_order = _first_in_first_out(batching)
    return BatchingPolicy(
        single=single,
        max_rows=max_rows,
        preferred=preferred,
        delay_ns=batching.max_queue_delay_us * MICROSECOND_NS,
        same_shape=same_shape,
        same_values=same_values,
        same_inputs=same_inputs,
        append_only=in_order and not (same_shape or same_values or same_inputs),
        prefetches=in_order,
        times_out=any(policy.default_timeout_us for policy in _policies(batching)),
        awaits_follow_ups=not (single or batching.max_queue_delay_us or preferred != (max_rows,)),
        prefetch_rows=1 if single else preferred[-1] if in_order else _MOST_ROWS,
    )


class BatchRun:
    """The requests from the head of a queue that could run together, kept from one decision to the next.

    A request that was added behind all others extends the run, so that a decision costs the same however many requests wait. After any other
    change of the queue (a cancel, a timeout, a batch that was taken, a request of higher priority) the run is formed again.

    Args:
        queue: the model's.
        policy: the model's.
        strategy: the model's own, asked for each request that the policy lets join; None without one.

    Attributes:
        queue: as given; only read.
        policy: as given.
        count: how many requests.
        rows: their batch rows.
        oldest_ns: arrival of the first of them.
        preferred_count: how many of them make the best preferred size; 0 if none does.
        closed: why no other request can join; None if one could.
    """

    __slots__ = (
        "_compares", "_reordered", "_strategy", "closed", "count", "oldest_ns", "policy", "preferred_count", "queue", "rows",
    )  # fmt: skip

    def __init__(
        self, queue: InferenceQueue, policy: BatchingPolicy, strategy: Strategy | None = None
    ) -> None:
        self._strategy = strategy
        self.queue = queue
        self.policy = policy
        self._compares = bool(policy.same_shape or policy.same_values or policy.same_inputs)
        self._reordered = -1
        self.count = self.rows = self.oldest_ns = self.preferred_count = 0
        self.closed: CloseReason | None = None

    def update(self) -> None:
        """Take in what has happened to the queue."""
        queue = self.queue
        if self._reordered != queue.reordered:
            self._reordered = queue.reordered
            self.count = self.rows = self.oldest_ns = self.preferred_count = 0
            self.closed = None
            self._extend(iter(queue))
        elif self.closed is None and self.count < queue.size:
            # An open run holds the whole queue, so these arrived since the last decision.
            arrived = list(itertools.islice(reversed(queue), queue.size - self.count))
            self._extend(reversed(arrived))

    def _extend(self, arrived: collections.abc.Iterator[Inference]) -> None:
        preferred, max_rows = self.policy.preferred, self.policy.max_rows
        largest = preferred[-1]
        # Not kept between decisions: it would hold the tensors of a request that has long left.
        head = next(iter(self.queue), None) if self._compares else None
        count, rows, strategy = self.count, self.rows, self._strategy
        for inference in arrived:
            grown = rows + inference.batch_size
            if not count:
                self.oldest_ns = inference.queued_ns
                if strategy is not None:
                    strategy.begin()
                    strategy.include(inference)  # it is the batch, whatever the strategy says
            else:
                if grown > largest and not self.preferred_count:
                    # It passes every preferred size: the requests so far count as a preferred batch.
                    self.preferred_count = count
                if grown > max_rows:
                    self.closed = CloseReason.FULL
                    break
                if head is not None and not batchable(head, inference, self.policy):
                    self.closed = CloseReason.SHAPE
                    break
                if strategy is not None and not strategy.include(inference):
                    self.closed = CloseReason.STRATEGY
                    break
                self.oldest_ns = min(self.oldest_ns, inference.queued_ns)
            rows = grown
            count += 1
            if rows in preferred:
                self.preferred_count = count
            if rows >= max_rows:
                self.closed = CloseReason.FULL
                break
        self.count, self.rows = count, rows


def next_batch(run: BatchRun, now: int, *, draining: bool = False) -> Dispatch | WaitUntil | None:
    """What a free instance does next; None if the queue is empty.

    Args:
        run: of the queue, whose timeouts are applied up to `now`. The queue is only read: the caller takes the batch out of it.
        now: monotonic nanoseconds.
        draining: no more requests will arrive, so a batch does not wait for any (shutdown).
    """
    queue, policy = run.queue, run.policy
    if not queue.size:
        return None
    if policy.single:
        return _SINGLE
    delay = policy.delay_ns
    if not delay and policy.append_only and queue.rows < policy.preferred[0]:
        # The usual case: everything that waits fits, no preferred size was passed on the way, and more requests are not waited for.
        return Dispatch(queue.size, _IDLE)
    run.update()
    overdue = delay > 0 and (draining or now - run.oldest_ns >= delay)
    if run.preferred_count and not overdue:
        full = run.closed is CloseReason.FULL and run.preferred_count == run.count
        reason = CloseReason.FULL if full else CloseReason.PREFERRED
        return Dispatch(run.preferred_count, reason)
    because = run.closed or _reason_to_run(run, overdue=overdue, draining=draining)
    if because is None:
        enough = 0
        if policy.append_only:
            enough = next(size for size in policy.preferred if size > run.rows)
        return WaitUntil(run.oldest_ns + delay, enough)
    return Dispatch(run.count, because)


def runs_at_once(arrived: list[Inference], policy: BatchingPolicy) -> bool:
    """Whether requests that arrive at an empty queue are the batch that `next_batch` would give, whatever arrives behind them."""
    return not (policy.single or policy.delay_ns) and (
        policy.append_only and sum([each.batch_size for each in arrived]) < policy.preferred[0]
    )


def next_prefetch(run: BatchRun, now: int, *, draining: bool = False) -> Dispatch | None:
    """The batch that a busy instance gets in advance: the next one, if it is the same whatever arrives before the instance is free.

    A batch that could still grow stays in the queue, even if its delay is over: handed over early it would be smaller, and each request
    that arrives later would wait for one more execution.

    Args:
        run: as for `next_batch`.
        now: monotonic nanoseconds.
        draining: no more requests will arrive, so no batch can grow.
    """
    policy = run.policy
    if not policy.prefetches or (run.queue.rows < policy.prefetch_rows and not draining):
        return None
    decision = next_batch(run, now, draining=draining)
    if not isinstance(decision, Dispatch):
        return None
    if policy.single or draining:
        return decision
    run.update()
    cut = decision.reason is CloseReason.PREFERRED and run.rows >= policy.preferred[-1]
    return decision if cut or run.closed is not None else None


def _reason_to_run(run: BatchRun, *, overdue: bool, draining: bool) -> CloseReason | None:
    """Why a batch that could still grow runs now; None if it waits."""
    if overdue:
        return CloseReason.STOP if draining else CloseReason.DELAY
    if run.rows >= run.policy.preferred[-1]:
        return CloseReason.PREFERRED
    return None if run.policy.delay_ns else CloseReason.IDLE


def batchable(one: Inference, other: Inference, policy: BatchingPolicy) -> bool:
    """Whether two requests may share a batch: the same inputs and, beside the batch dimension, the same shapes."""
    mine: collections.abc.Sequence[Tensor] = one.request.inputs
    theirs = other.request.inputs
    if policy.same_inputs and len(mine) != len(theirs):
        return False
    for index, tensor in enumerate(theirs):
        peer: Tensor | None = mine[index] if index < len(mine) else None
        if peer is None or peer.name != tensor.name:
            peer = next((candidate for candidate in mine if candidate.name == tensor.name), None)
            if peer is None:
                return False
        if tensor.name in policy.same_shape:
            if peer.shape[1:] != tensor.shape[1:]:
                return False
        elif tensor.name in policy.same_values and (
            peer.shape[1:] != tensor.shape[1:] or peer.array.tobytes() != tensor.array.tobytes()
        ):
            return False
    return True


def _first_in_first_out(batching: DynamicBatching) -> bool:
    return not batching.priority_levels and not any(
        policy.default_timeout_us and policy.timeout_action is TimeoutAction.DELAY
        for policy in _policies(batching)
    )


def _policies(batching: DynamicBatching) -> tuple[QueuePolicy, ...]:
    return (batching.default_queue_policy, *batching.queue_policies.values())
