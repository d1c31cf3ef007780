"""What a request that comes now has to expect of a queue in front of instances: the state that others see, and the check of deadlines."""

import collections.abc

from naiad.core.inference import Inference
from naiad.metrics.queue_state import LevelState, QueueState
from naiad.scheduling.batching import BatchingPolicy
from naiad.scheduling.instances.pool import InstancePool
from naiad.scheduling.queue import InferenceQueue
from naiad.scheduling.speed.deadline import DEADLINE_PARAMETER, deadline_of, too_late
from naiad.scheduling.speed.estimate import Estimate, InstanceLoad, estimate

_Loads = collections.abc.Sequence[InstanceLoad]


class Outlook:
    """Looks at a queue and its instances, and changes neither.

    Args:
        model: the model's name, for messages.
        queue: its queue.
        policy: how batches are formed.
        pool: its instances.
        now: gives monotonic nanoseconds.
    """

    def __init__(
        self,
        *,
        model: str,
        queue: InferenceQueue,
        policy: BatchingPolicy,
        pool: InstancePool,
        now: collections.abc.Callable[[], int],
    ) -> None:
        self._model = model
        self._queue = queue
        self._policy = policy
        self._pool = pool
        self._now = now

    def batches(self) -> int:
        """How many batches wait."""
        queue, policy = self._queue, self._policy
        return queue.size if policy.single else -(-queue.rows // policy.max_rows)

    def state(self) -> QueueState:
        """What waits now."""
        queue, now = self._queue, self._now()
        waiting = queue.waiting()
        default = queue.level_of(0)
        waiting[default] = waiting.get(default, 0) + queue.prefetched  # these only without levels
        loads = self._pool.speeds.loads(now)
        oldest = queue.oldest_ns()
        return QueueState(
            levels={
                level: LevelState(count, _wait_ns(self._estimate(level, loads)))
                for level, count in sorted(waiting.items())
            },
            default_level=default,
            oldest_wait_ns=now - oldest if oldest else 0,
            instances=len(loads),
            busy=self._pool.speeds.busy(),
            batch_ns=max((each.batch_ns for each in loads), default=0),
        )

    def check_deadline(self, inference: Inference) -> None:
        """Refuse a request that cannot be answered within the time that it names, as far as is known.

        Raises:
            InferenceError: UNAVAILABLE: it cannot; INVALID_ARG: that is not a time.
        """
        request = inference.request
        value = request.parameters.get(DEADLINE_PARAMETER)
        if value is None:
            return
        deadline_ns = deadline_of(request, value)
        loads = self._pool.speeds.loads(self._now())
        found = self._estimate(self._queue.level_of(request.priority), loads)
        if found is not None and found.response_ns > deadline_ns:
            raise too_late(
                request,
                model=self._model,
                deadline_ns=deadline_ns,
                estimate=found,
                waiting=self._queue.size + self._queue.prefetched,
                instances=len(loads),
            )

    def _estimate(self, level: int, loads: _Loads) -> Estimate | None:
        queue = self._queue
        if not self._policy.single:
            return estimate(queue.rows_before(level), self._policy.max_rows, loads)
        ahead = sum(count for other, count in queue.waiting().items() if other <= level)
        return estimate(ahead, 1, loads)


def _wait_ns(found: Estimate | None) -> int | None:
    return None if found is None else found.wait_ns
