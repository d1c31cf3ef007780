"""The queue of a model: which request is next, which is refused, and which has timed out.

Pure: `now` is an argument, and responses are sent elsewhere. A level of priority is an ordered dict, so that taking the first
request, adding one and removing any one of them (a cancel) all cost the same with ten waiting and with ten thousand,
and a removed request is really gone: it does not count for `max_queue_size` and holds no memory. Deadlines are in a
heap beside the levels; entries of removed requests are dropped when they come up, or all at once when they outnumber the others.
"""

import bisect
import collections
import collections.abc
import heapq

from naiad.config.model_config import DynamicBatching, QueuePolicy, TimeoutAction
from naiad.core.inference import Inference
from naiad.core.request import InferRequest
from naiad.errors import ErrorCode, FailureReason, InferenceError

MICROSECOND_NS = 1_000

_UNLIMITED = DynamicBatching()
_STALE_DEADLINES = 64


class _Level:
    """One priority level: `waiting` are in time, `delayed` exceeded their timeout (row 12.13)."""

    __slots__ = ("delayed", "policy", "waiting")

    def __init__(self, policy: QueuePolicy) -> None:
        self.policy = policy
        self.waiting: collections.OrderedDict[Inference, None] = collections.OrderedDict()
        self.delayed: collections.OrderedDict[Inference, None] = collections.OrderedDict()


class InferenceQueue:
    """The queued requests of one model: priority levels, first in first out inside each of them.

    Args:
        model: the model's name, for messages.
        batching: levels and their policies; None for the default scheduler: one level without limits (row 12.1).

    Attributes:
        size: how many requests are queued; as `len`, without a call.
        rows: batch rows of all queued requests.
        deadlines: a heap; empty if no request has a deadline. Read only.
        prefetched: requests that were taken and wait in an instance (`next_prefetch`): they count for `max_queue_size`. The scheduler sets it.
        reordered: counts the changes other than a request added behind all others; after one, what was known of the order is no longer true.
    """

    __slots__ = (
        "_batching", "_is_unlimited", "_levels", "_model", "_only", "_order", "_pushed", "deadlines", "prefetched", "reordered", "rows",
        "size",
    )  # fmt: skip

    def __init__(self, *, model: str, batching: DynamicBatching | None) -> None:
        self._model = model
        self._batching = _UNLIMITED if batching is None else batching
        self._only: _Level | None = None
        self._levels: dict[int, _Level] = {}
        self._order: list[int] = []
        if not self._batching.priority_levels:
            self._only = self._levels[0] = _Level(self._batching.policy_of(0))
            self._order.append(0)
        policy = self._batching.policy_of(0)
        self._is_unlimited = not (policy.max_queue_size or policy.default_timeout_us)
        self.deadlines: list[tuple[int, int, Inference]] = []
        self._pushed = 0
        self.prefetched = 0
        self.reordered = 0
        self.size = 0
        self.rows = 0

    def __len__(self) -> int:
        return self.size

    @property
    def kept(self) -> int:
        """How many levels and deadlines are kept in memory; those of removed requests may be among them, but never many."""
        return len(self._levels) + len(self._order) + len(self.deadlines)

    def __iter__(self) -> collections.abc.Iterator[Inference]:
        """The requests in the order in which they run."""
        for priority in self._order:
            level = self._levels[priority]
            yield from level.waiting
            if level.delayed:
                yield from level.delayed

    def __reversed__(self) -> collections.abc.Iterator[Inference]:
        """The requests, the one that runs last first."""
        for priority in reversed(self._order):
            level = self._levels[priority]
            if level.delayed:
                yield from reversed(level.delayed)
            yield from reversed(level.waiting)

    def __contains__(self, inference: Inference) -> bool:
        level = self._levels.get(inference.priority_level)
        return level is not None and (inference in level.waiting or inference in level.delayed)

    def push(self, inference: Inference, now: int) -> None:
        """Add a request; sets its `queued_ns`, `priority_level` (row 4.14) and `deadline_ns` (row 12.14).

        Raises:
            InferenceError: UNAVAILABLE, its level is full (row 12.11); it is not queued.
        """
        level, priority = self._only, 0
        if level is not None and self._is_unlimited:  # as of most models; nothing is delayed then
            inference.queued_ns = now
            level.waiting[inference] = None
            self.size += 1
            self.rows += inference.batch_size
            return
        if level is None:
            priority = self._batching.level_of(inference.request.priority)
            level = self._level_at(priority)
        policy = level.policy
        limit = policy.max_queue_size
        if limit and len(level.waiting) + len(level.delayed) + self.prefetched >= limit:
            raise queue_full(inference.request, model=self._model, limit=limit, priority=priority)
        inference.queued_ns = now
        inference.priority_level = priority
        if policy.default_timeout_us:
            self._set_deadline(inference, now + _timeout_us(inference, policy) * MICROSECOND_NS)
        level.waiting[inference] = None
        if level.delayed or priority != self._order[-1]:
            self.reordered += 1
        self.size += 1
        self.rows += inference.batch_size

    @property
    def is_plain(self) -> bool:
        """Whether it has one level, without limits, deadlines and requests that are delayed."""
        level = self._only
        return level is not None and self._is_unlimited and not level.delayed

    def push_plain(self, inferences: list[Inference]) -> None:
        """Add requests, whose `queued_ns` is set, to a queue that is plain."""
        level = self._only
        assert level is not None, "it is plain"
        level.waiting.update(dict.fromkeys(inferences))
        self.size += len(inferences)
        self.rows += sum([each.batch_size for each in inferences])

    def remove(self, inference: Inference) -> bool:
        """Remove a request because its client has gone; False if it is not in the queue."""
        level = self._levels.get(inference.priority_level)
        if level is None:
            return False
        if inference in level.waiting:
            del level.waiting[inference]
        elif inference in level.delayed:
            del level.delayed[inference]
        else:
            return False
        self.reordered += 1
        self._count_removed(inference)
        self._drop_empty(inference.priority_level, level)
        return True

    def take(self, count: int) -> list[Inference]:
        """Remove and return the first `count` requests."""
        self.reordered += 1
        if count >= self.size:
            level = self._only
            batch = list(self if level is None or level.delayed else level.waiting)
            self.size = self.rows = 0
            self.deadlines.clear()
            if self._only is None:
                self._levels.clear()
                self._order.clear()
            else:
                self._only.waiting.clear()
                self._only.delayed.clear()
            return batch
        batch = []
        while len(batch) < count:
            priority = self._order[0]
            level = self._levels[priority]
            for requests in (level.waiting, level.delayed):
                while requests and len(batch) < count:
                    batch.append(requests.popitem(last=False)[0])
            self._drop_empty(priority, level)
        for inference in batch:
            self._count_removed(inference)
        return batch

    def expire(self, now: int) -> list[Inference]:
        """Apply the timeouts that are over: requests with REJECT are removed and returned, those with DELAY go behind their level."""
        rejected: list[Inference] = []
        while (deadline := self.next_deadline()) and deadline <= now:
            inference = heapq.heappop(self.deadlines)[2]
            level = self._levels[inference.priority_level]
            del level.waiting[inference]
            self.reordered += 1
            if level.policy.timeout_action is TimeoutAction.DELAY:
                level.delayed[inference] = None
            else:
                rejected.append(inference)
                self._count_removed(inference)
                self._drop_empty(inference.priority_level, level)
        return rejected

    def waiting(self) -> dict[int, int]:
        """How many requests wait, by level, the highest first; a level without any may be missing."""
        return {
            priority: len(level.waiting) + len(level.delayed)
            for priority, level in ((each, self._levels[each]) for each in self._order)
        }

    def oldest_ns(self) -> int:
        """When the request came that waits longest; 0 if none waits."""
        first = (
            next(iter(requests)).queued_ns
            for level in self._levels.values()
            for requests in (level.waiting, level.delayed)
            if requests
        )
        return min(first, default=0)

    def rows_before(self, priority: int) -> float:
        """About how many rows run before a request of a level that comes now: those of its level and of higher ones."""
        count = sum(each for level, each in self.waiting().items() if level <= priority)
        return count * self.rows / self.size if count else 0.0

    def level_of(self, priority: int) -> int:
        """The level of a request that names this priority (row 4.14)."""
        return 0 if self._only is not None else self._batching.level_of(priority)

    def next_deadline(self) -> int:
        """When `expire` has something to do (monotonic ns); 0 means never."""
        deadlines = self.deadlines
        while deadlines:
            deadline, _, inference = deadlines[0]
            if self._in_time(inference):
                return deadline
            heapq.heappop(deadlines)
        return 0

    def _level_at(self, priority: int) -> _Level:
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = _Level(self._batching.policy_of(priority))
            bisect.insort(self._order, priority)
        return level

    def _set_deadline(self, inference: Inference, deadline: int) -> None:
        inference.deadline_ns = deadline
        if len(self.deadlines) > 2 * self.size + _STALE_DEADLINES:
            self.deadlines = [entry for entry in self.deadlines if self._in_time(entry[2])]
            heapq.heapify(self.deadlines)
        self._pushed += 1
        heapq.heappush(self.deadlines, (deadline, self._pushed, inference))

    def _in_time(self, inference: Inference) -> bool:
        level = self._levels.get(inference.priority_level)
        return level is not None and inference in level.waiting

    def _count_removed(self, inference: Inference) -> None:
        self.size -= 1
        self.rows -= inference.batch_size

    def _drop_empty(self, priority: int, level: _Level) -> None:
        """Drop a level without requests: clients choose levels, and there may be billions."""
        if level is not self._only and not level.waiting and not level.delayed:
            del self._levels[priority]
            self._order.remove(priority)


def queue_full(request: InferRequest, *, model: str, limit: int, priority: int) -> InferenceError:
    """The error of a request for which a queue has no place (row 12.11); `priority`: the full level, 0 without levels."""
    where = f"priority level {priority} of model" if priority else "model"
    return InferenceError(
        ErrorCode.UNAVAILABLE,
        f"{request.label}Exceeds maximum queue size: {limit} requests wait already for {where} "
        f"'{model}' (max_queue_size: {limit} in its queue policy). Send it again later, or to another "
        "server; more instances or a larger max_queue_size admit more.",
        reason=FailureReason.REJECTED,
    )


def _timeout_us(inference: Inference, policy: QueuePolicy) -> int:
    requested = inference.request.timeout_us
    if policy.allow_timeout_override and 0 < requested < policy.default_timeout_us:
        return requested
    return policy.default_timeout_us


def earliest_deadline(batch: list[Inference], never: int) -> int:
    """The earliest deadline of the inferences that wait; `never` if none has one."""
    return min(
        (each.deadline_ns for each in batch if each.deadline_ns and not each.completed),
        default=never,
    )
