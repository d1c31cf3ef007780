"""The strategy `oldest`: the next requests of the candidate sequences are batched by age, as in the dynamic batcher (row 13.10).

Pure. Of each slot at most one request is issued: it waits in the queue in front of the instance, or is executed. The next one follows
when that one has come back, so that a sequence keeps its order.
"""

from naiad.core.inference import Inference
from naiad.scheduling.batching import BatchingPolicy, BatchRun, Dispatch, WaitUntil, next_batch
from naiad.scheduling.queue import InferenceQueue
from naiad.scheduling.sequence.slot import Prepare, Sequence, Slot, Taken, oldest_waiting_ns
from naiad.scheduling.sequence.table import SequenceTable
from naiad.scheduling.timers.wakeup import NEVER


class OldestBatcher:
    """Implements `SlotBatcher`.

    Args:
        number: tells instances apart.
        candidates: how many slots.
        table: of the model's sequences.
        model: its name, for messages.
        policy: how batches are formed.
        prepare: called with each request before it is queued; None for nothing.
    """

    def __init__(
        self,
        number: int,
        *,
        candidates: int,
        table: SequenceTable,
        model: str,
        policy: BatchingPolicy,
        prepare: Prepare | None = None,
    ) -> None:
        self.number = number
        self.slots = [Slot(self, row) for row in range(candidates)]
        self.usable = False
        self._table = table
        self._prepare = prepare
        self._queue = InferenceQueue(model=model, batching=None)
        self._run = BatchRun(self._queue, policy)
        self._max_rows = 1 if policy.single else policy.max_rows
        self._issued: dict[Inference, tuple[Taken, int]] = {}

    @property
    def waits(self) -> bool:
        """Whether a request waits for a batch."""
        return bool(self._queue.size)

    def changed(self, slot: Slot, now: int) -> None:
        """See `SlotBatcher`: issue the next request, if the one before it has come back."""
        sequence = slot.sequence
        if slot.busy or sequence is None or not sequence.waiting:
            return
        taken = self._table.take(slot, now)
        inference = taken.inference
        if self._prepare is not None:
            self._prepare(sequence, inference)
        # The queue counts the delay from here, the statistics from the arrival.
        self._issued[inference] = taken, inference.queued_ns
        self._queue.push(inference, now)

    def withdraw(self, slot: Slot, inference: Inference, now: int) -> bool:
        """See `SlotBatcher`."""
        if not self._queue.remove(inference):
            return False
        del self._issued[inference]
        slot.busy = False
        return True

    def drop(self) -> list[Taken]:
        """See `SlotBatcher`."""
        self._queue.take(self._queue.size)
        dropped = [taken for taken, _ in self._issued.values()]
        self._issued.clear()
        for taken in dropped:
            taken.slot.busy = False
        return dropped

    def next(self, now: int, *, draining: bool = False) -> Dispatch | WaitUntil | None:
        """What the free instance does next; None if no request waits. `draining`: no sequence may start, so none is waited for."""
        return next_batch(self._run, now, draining=draining)

    def take(self, count: int, now: int) -> list[Taken | None]:
        """The requests of a batch."""
        batch: list[Taken | None] = []
        for inference in self._queue.take(count):
            taken, inference.queued_ns = self._issued.pop(inference)
            batch.append(taken)
        return batch

    def batches_before(self, sequence: Sequence | None) -> int:
        """See `Batcher`: a request behind others of its sequence is issued when they have come back, and is then the last one in the queue."""
        queued = self._queue.size
        own = 0 if sequence is None else len(sequence.waiting)
        if sequence is not None and any(
            taken.sequence is sequence for taken, _ in self._issued.values()
        ):
            own += 1
        return own * -(-max(queued, 1) // self._max_rows) if own else queued // self._max_rows

    def oldest_ns(self) -> int:
        """See `Batcher`."""
        issued = min((arrived_ns for _, arrived_ns in self._issued.values()), default=NEVER)
        return min(issued, oldest_waiting_ns(self.slots))
