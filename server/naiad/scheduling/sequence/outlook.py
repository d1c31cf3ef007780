"""What a request that comes now has to expect of a model with sequences: the state that others see, and the check of deadlines."""

import collections.abc
import itertools

from naiad.core.inference import Inference
from naiad.core.request import SEQUENCE_START
from naiad.metrics.queue_state import LevelState, QueueState
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.sequence.instance import ScheduledInstance
from naiad.scheduling.sequence.slot import Sequence
from naiad.scheduling.sequence.table import SequenceTable
from naiad.scheduling.speed.deadline import DEADLINE_PARAMETER, deadline_of, too_late
from naiad.scheduling.speed.estimate import Estimate, InstanceLoad, estimate, free_in
from naiad.scheduling.timers.wakeup import NEVER

_DEFAULT_LEVEL = 0


class SequenceOutlook:
    """Looks at a table and its instances, and changes neither.

    Args:
        model: the model's name, for messages.
        table: its sequences.
        instances: its instances by number; the scheduler's own.
        statistics: its counters.
        now: gives monotonic nanoseconds.
    """

    def __init__(
        self,
        *,
        model: str,
        table: SequenceTable,
        instances: collections.abc.Mapping[int, ScheduledInstance],
        statistics: ModelStatistics,
        now: collections.abc.Callable[[], int],
    ) -> None:
        self._model = model
        self._table = table
        self._instances = instances
        self._statistics = statistics
        self._now = now

    def state(self) -> QueueState:
        """What waits now; the estimate is that of a sequence that starts."""
        now = self._now()
        found = self._estimate(None, now)
        backlog = itertools.islice(self._table.backlog, 1)
        oldest = min(
            itertools.chain(
                (each.batcher.oldest_ns() for each in self._instances.values()),
                (each.waiting[0].queued_ns for each in backlog),
            ),
            default=NEVER,
        )
        loads = [load for each in self._usable() for load in each.pool.speeds.loads(now)]
        return QueueState(
            levels={
                _DEFAULT_LEVEL: LevelState(
                    self._statistics.pending, None if found is None else found.wait_ns
                )
            },
            default_level=_DEFAULT_LEVEL,
            oldest_wait_ns=0 if oldest == NEVER else now - oldest,
            instances=len(loads),
            busy=sum(each.pool.speeds.busy() for each in self._usable()),
            batch_ns=max((load.batch_ns for load in loads), default=0),
        )

    def check_deadline(self, inference: Inference) -> None:
        """Refuse a request that cannot be answered within the time that it names, as far as is known. Its sequence stays as it is.

        Raises:
            InferenceError: UNAVAILABLE: it cannot; INVALID_ARG: that is not a time.
        """
        request, table = inference.request, self._table
        value = request.parameters.get(DEADLINE_PARAMETER)
        if value is None:
            return
        deadline_ns = deadline_of(request, value)
        starts = bool(request.flags & SEQUENCE_START) or not request.correlation_id
        sequence = table.open.get(request.correlation_id)
        if table.stopping if starts else sequence is None:
            return  # the table refuses it, and says why
        now = self._now()
        found = self._estimate(sequence, now) or self._at_least(sequence, now)
        if found is not None and found.response_ns > deadline_ns:
            raise too_late(
                request,
                model=self._model,
                deadline_ns=deadline_ns,
                estimate=found,
                waiting=self._statistics.pending,
                instances=len(self._usable()),
            )

    def _usable(self) -> list[ScheduledInstance]:
        return [
            each for each in self._instances.values() if each.pool.usable and not each.is_removed
        ]

    def _estimate(self, sequence: Sequence | None, now: int) -> Estimate | None:
        """Of the next request of a sequence; None: of one that starts."""
        home = self._table.next_free() if sequence is None else sequence.slot
        if home is None:
            return self._in_backlog(sequence, now)
        instance = self._instances[home.batcher.number]
        ahead = instance.batcher.batches_before(sequence)
        return estimate(ahead, 1, instance.pool.speeds.loads(now))

    def _in_backlog(self, sequence: Sequence | None, now: int) -> Estimate | None:
        """Slots are free as often as recent sequences gave theirs back, and then its own requests run one by one."""
        table = self._table
        if sequence is None:
            before, own = len(table.backlog), 0
        else:
            before = next(
                (position for position, each in enumerate(table.backlog) if each is sequence), 0
            )
            own = len(sequence.waiting)
        batch_ns = self._batch_ns(now)
        slot = estimate(before, 1, self._slot_loads(now))
        if slot is None or not batch_ns:
            return None
        wait_ns = slot.wait_ns + own * batch_ns
        return Estimate(wait_ns, wait_ns + batch_ns)

    def _at_least(self, sequence: Sequence | None, now: int) -> Estimate | None:
        """What a request takes if a slot becomes free at once, where no sequence has ended yet that would say how long one is held."""
        batch_ns = self._batch_ns(now)
        wait_ns = 0 if sequence is None else len(sequence.waiting) * batch_ns
        return Estimate(wait_ns, wait_ns + batch_ns) if batch_ns else None

    def _batch_ns(self, now: int) -> int:
        """What a batch of the fastest instance takes; 0 if none has run."""
        return min(
            (
                load.batch_ns
                for each in self._usable()
                for load in each.pool.speeds.loads(now)
                if load.batch_ns
            ),
            default=0,
        )

    def _slot_loads(self, now: int) -> list[InstanceLoad]:
        """When each slot is free; one whose sequence has ended is so with its last batch."""
        held_ns = self._table.held.batch_ns
        found: list[InstanceLoad] = []
        for instance in self._usable():
            last_ns = max((load.free_in_ns for load in instance.pool.speeds.loads(now)), default=0)
            found += [
                InstanceLoad(
                    last_ns if slot.sequence is None else free_in(slot.since_ns, held_ns, now),
                    held_ns,
                )
                for slot in instance.batcher.slots
            ]
        return found
