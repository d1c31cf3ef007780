"""The strategy `direct`: a sequence's slot is its row of the batch (rows 13.6, 13.7, 13.11).

Pure. A batch has the next request of each slot that has one, up to the highest of these; a slot below it without one gets a null row, so that every
sequence stays in its row. A request whose shapes differ from those of the batch's first one stays for the next batch, with a null row in its place.
"""

import math

from naiad.core.inference import Inference
from naiad.metrics.statistics import CloseReason
from naiad.scheduling.batching import BatchingPolicy, Dispatch, WaitUntil, batchable
from naiad.scheduling.sequence.slot import Prepare, Sequence, Slot, Taken, oldest_waiting_ns
from naiad.scheduling.sequence.table import SequenceTable
from naiad.scheduling.timers.wakeup import NEVER


class DirectBatcher:
    """Implements `SlotBatcher`.

    Args:
        number: tells instances apart.
        rows: how many slots.
        table: of the model's sequences.
        policy: which requests may share a batch.
        delay_ns: how long the oldest request waits while fewer slots have one than `utilization` says.
        utilization: the part of the slots with which a batch does not wait; 0: none waits.
        prepare: called with the requests that a batch may take, before it is formed; None for nothing.
    """

    def __init__(
        self,
        number: int,
        *,
        rows: int,
        table: SequenceTable,
        policy: BatchingPolicy,
        delay_ns: int,
        utilization: float,
        prepare: Prepare | None = None,
    ) -> None:
        self.number = number
        self.slots = [Slot(self, row) for row in range(rows)]
        self.usable = False
        self._table = table
        self._prepare = prepare
        self._policy = policy
        self._compares = bool(policy.same_shape or policy.same_values or policy.same_inputs)
        self._delay_ns = delay_ns if utilization else 0
        self._enough = math.ceil(rows * utilization)
        self._ready = set[int]()
        self._oldest_ns = NEVER

    @property
    def waits(self) -> bool:
        """Whether a request waits for a batch."""
        return bool(self._ready)

    def changed(self, slot: Slot, now: int) -> None:
        """See `SlotBatcher`."""
        sequence = slot.sequence
        if sequence is None or not sequence.waiting:
            self._ready.discard(slot.row)
        elif slot.row not in self._ready:
            self._ready.add(slot.row)
            self._oldest_ns = min(self._oldest_ns, sequence.waiting[0].queued_ns)

    def withdraw(self, slot: Slot, inference: Inference, now: int) -> bool:
        """See `SlotBatcher`: what was taken is in a batch."""
        return False

    def drop(self) -> list[Taken]:
        """See `SlotBatcher`: what was taken is in a batch."""
        return []

    def next(self, now: int, *, draining: bool = False) -> Dispatch | WaitUntil | None:
        """What the free instance does next; None if no request waits. `draining`: no sequence may start, so none is waited for."""
        ready = len(self._ready)
        if not ready:
            return None
        if ready == len(self.slots):
            return Dispatch(ready, CloseReason.FULL)
        if not self._delay_ns or ready >= self._enough:
            return Dispatch(ready, CloseReason.IDLE)
        if draining:
            return Dispatch(ready, CloseReason.STOP)
        due = self._oldest_ns + self._delay_ns
        if due <= now:
            # The oldest one may have left; then the next one is.
            self._oldest_ns = min(self._head(row).queued_ns for row in self._ready)
            due = self._oldest_ns + self._delay_ns
        return Dispatch(ready, CloseReason.DELAY) if due <= now else WaitUntil(due, self._enough)

    def take(self, count: int, now: int) -> list[Taken | None]:
        """The requests of a batch, one for each row; None for a null row. The last one is in no case a null row."""
        self._oldest_ns = NEVER
        taken: list[Taken | None] = [None] * (max(self._ready) + 1)
        rows = sorted(self._ready)
        if self._prepare is not None:
            for row in rows:
                sequence = self.slots[row].sequence
                assert sequence is not None
                self._prepare(sequence, sequence.waiting[0])
        first = self._head(rows[0])
        for row in rows:
            slot = self.slots[row]
            if self._compares and not batchable(first, self._head(row), self._policy):
                self._oldest_ns = min(self._oldest_ns, self._head(row).queued_ns)
                continue
            taken[row] = self._table.take(slot, now)
            self._ready.discard(row)
            self.changed(slot, now)  # with the arrival of its next request
        while taken[-1] is None:
            taken.pop()
        return taken

    def batches_before(self, sequence: Sequence | None) -> int:
        """See `Batcher`: each batch has one request of every row."""
        return 0 if sequence is None else len(sequence.waiting)

    def oldest_ns(self) -> int:
        """See `Batcher`."""
        return oldest_waiting_ns(self.slots)

    def _head(self, row: int) -> Inference:
        sequence = self.slots[row].sequence
        assert sequence is not None
        return sequence.waiting[0]
