"""The table of sequences: which slot each one has, which wait for a slot, and which are over (rows 13.2 to 13.18).

Pure: `now` is an argument, and responses are sent elsewhere: what ends a request early returns it. Every operation costs the same with ten
requests and with ten thousand, apart from those that end many.

A sequence is open while further requests may come. It has a slot or waits in the backlog, whole. A slot is given back as soon as a closed sequence has no
waiting request any more, and gets its next sequence once the last request has come back.
"""

import collections
import heapq
import itertools

from naiad.core.inference import Inference
from naiad.core.request import SEQUENCE_END, SEQUENCE_START
from naiad.metrics.statistics import SequenceCounts, SequenceEnd
from naiad.scheduling.queue import MICROSECOND_NS
from naiad.scheduling.sequence.errors import stopping, unknown_sequence
from naiad.scheduling.sequence.slot import Key, Sequence, Slot, SlotBatcher, Taken
from naiad.scheduling.speed.times import BatchTimes
from naiad.scheduling.timers.wakeup import NEVER

_REMEMBERED = 1024
"""How many sequences that were ended early are remembered, for the error of their next request."""

_STALE = 64


class SequenceTable:
    """The sequences of one model version.

    Args:
        model: its name, for messages.
        idle_ns: how long an open sequence keeps its slot without a request.
        iterative: every request is a sequence of its own, and ends it when it is not rescheduled (row 13.23).

    Attributes:
        open: the sequences that take further requests, by correlation ID.
        backlog: those that wait for a slot, in the order in which they get one.
        idle: the open ones without a request, and since when (monotonic), the longest first.
        slots: how many slots usable instances have.
        ended: how many sequences were ended early, by reason.
        conflicts: how often a sequence started that had not ended.
        stopping: no sequence may start.
        held: how long sequences keep their slots.
    """

    def __init__(self, *, model: str, idle_ns: int, iterative: bool = False) -> None:
        self._model = model
        self._idle_ns = idle_ns
        self._iterative = iterative
        self.open: dict[Key, Sequence] = {}
        self.backlog = collections.OrderedDict[Sequence, None]()
        self.idle = collections.OrderedDict[Sequence, int]()
        self.slots = 0
        self.ended = dict.fromkeys(SequenceEnd, 0)
        self.conflicts = 0
        self.stopping = False
        self.held = BatchTimes()
        self._free: list[tuple[int, int, Slot]] = []
        self._deadlines: list[tuple[int, int, Sequence]] = []
        self._pushed = itertools.count()
        self._over = collections.OrderedDict[Key, SequenceEnd]()
        self._next_key = itertools.count(1)

    @property
    def free_slots(self) -> int:
        """How many slots of usable instances no sequence has."""
        return sum(slot.sequence is None and slot.batcher.usable for _, _, slot in self._free)

    def counts(self) -> SequenceCounts:
        """What the metrics page shows."""
        return SequenceCounts(
            open=len(self.open),
            waiting=len(self.backlog),
            slots=self.slots,
            used=self.slots - self.free_slots,
            ended=self.ended,
        )

    def new_key(self) -> int:
        """A correlation ID that no sequence has."""
        return next(key for key in self._next_key if key not in self.open)

    def accept(self, inference: Inference, now: int) -> Sequence:
        """Add a request to its sequence, which it may start.

        Raises:
            InferenceError: INVALID_ARG: it is not the first one and its sequence is unknown; UNAVAILABLE: no sequence may start.
        """
        request = inference.request
        key, flags = request.correlation_id, request.flags
        sequence = self.open.get(key)
        if flags & SEQUENCE_START:
            if self.stopping:
                raise stopping(request, self._model)
            if sequence is not None:
                self.conflicts += 1
        elif sequence is None:
            raise unknown_sequence(request, self._model, self._over.get(key), self._idle_ns)
        if sequence is None:
            sequence = Sequence(key, inference)
            self._over.pop(key, None)
            if not flags & SEQUENCE_END:
                self.open[key] = sequence
        elif flags & SEQUENCE_END:
            del self.open[key]
        if flags & SEQUENCE_END:
            sequence.closed = True
        self._add(sequence, inference, now)
        return sequence

    def _add(self, sequence: Sequence, inference: Inference, now: int) -> None:
        """Add a request to a sequence."""
        sequence.last = inference
        sequence.waiting.append(inference)
        self.idle.pop(sequence, None)
        slot = sequence.slot
        if slot is not None:
            slot.batcher.changed(slot, now)
        elif sequence in self.backlog:
            self._set_deadline(sequence, inference, now)
        elif (free := self._take_free()) is not None:
            self._assign(free, sequence, now)
        else:
            self.backlog[sequence] = None
            self._set_deadline(sequence, inference, now)

    def take(self, slot: Slot, now: int) -> Taken:
        """The next request of a slot's sequence, for a batch. A sequence that has no further one gives its slot back if it is closed."""
        sequence = slot.sequence
        assert sequence is not None
        inference = sequence.waiting.popleft()
        sequence.taken += 1
        slot.busy = True
        if sequence.closed and not sequence.waiting and not self._iterative:
            self._release(slot, now)
        return Taken(slot, sequence, inference)

    def came_back(self, taken: Taken, now: int, *, rescheduled: bool = False) -> None:
        """A request that was taken is no longer executed; `rescheduled`: it goes behind the other requests of its sequence."""
        sequence, slot = taken.sequence, taken.slot
        sequence.taken -= 1
        slot.busy = False
        if rescheduled:
            sequence.waiting.append(taken.inference)
        elif self._iterative:
            self._close(sequence, None, now)
        elif not sequence.closed and not sequence.waiting and not sequence.taken:
            self.idle[sequence] = now
        if slot.sequence is None:
            self.refill(slot, now)
        else:
            slot.batcher.changed(slot, now)

    def cancel(self, sequence: Sequence, inference: Inference, now: int) -> list[Inference]:
        """A client has gone: its sequence ends, with the requests behind this one (row 13.17).

        Returns:
            The requests that end now: itself, unless it is executed, and those behind it; of a sequence in the backlog all.
        """
        waiting, home = sequence.waiting, sequence.home
        lost: list[Inference] = []
        if home is not None and inference in waiting:
            while not lost or lost[-1] is not inference:
                lost.append(waiting.pop())
            lost.reverse()
        else:
            if home is not None and home.batcher.withdraw(home, inference, now):
                lost.append(inference)
                sequence.taken -= 1
            lost.extend(waiting)
            waiting.clear()
        self._close(sequence, SequenceEnd.CANCELLED, now)
        if home is not None:
            home.batcher.changed(home, now)
            self.refill(home, now)
        return lost

    def end(self, key: Key, reason: SequenceEnd, now: int) -> list[Inference]:
        """End an open sequence early; returns its requests that no batch has."""
        sequence = self.open.get(key)
        if sequence is None:
            return []
        home = sequence.home
        lost = list(sequence.waiting)
        sequence.waiting.clear()
        self._close(sequence, reason, now)
        if home is not None:
            home.batcher.changed(home, now)
        return lost

    def close_all(self, reason: SequenceEnd, now: int) -> None:
        """Close every open sequence: no further request is taken; those that wait still run."""
        for sequence in list(self.open.values()):
            self._close(sequence, reason, now)

    def expire(self, now: int) -> tuple[list[Inference], list[Sequence]]:
        """Apply the times that are over.

        Returns:
            The requests of sequences whose timeout in the backlog is over (row 13.13), and the sequences that were idle for too long (row 13.14).
        """
        lost: list[Inference] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            due, _, sequence = heapq.heappop(self._deadlines)
            if sequence.due_ns == due and sequence in self.backlog:
                lost.extend(sequence.waiting)
                sequence.waiting.clear()
                self._close(sequence, SequenceEnd.TIMEOUT, now)
        idle: list[Sequence] = []
        while self.idle:
            sequence, since = next(iter(self.idle.items()))
            if since + self._idle_ns > now:
                break
            if not sequence.last.completed:  # its model still sends responses
                self.idle[sequence] = now
                self.idle.move_to_end(sequence)
                continue
            idle.append(sequence)
            self._close(sequence, SequenceEnd.IDLE, now)
        return lost, idle

    def next_free(self) -> Slot | None:
        """The slot of the next sequence that starts: the free one with the lowest row, so that batches are small and sequences spread over instances (row 13.25)."""
        while self._free:
            slot = self._free[0][2]
            if slot.sequence is None and slot.batcher.usable:
                return slot
            heapq.heappop(self._free)
            slot.listed = False
        return None

    def next_due(self) -> int:
        """When `expire` may have something to do (monotonic nanoseconds); NEVER if not."""
        deadlines = self._deadlines
        while deadlines and (
            deadlines[0][2].due_ns != deadlines[0][0] or deadlines[0][2] not in self.backlog
        ):
            heapq.heappop(deadlines)
        due = deadlines[0][0] if deadlines else NEVER
        if self.idle:
            due = min(due, next(iter(self.idle.values())) + self._idle_ns)
        return due

    def add(self, batcher: SlotBatcher, now: int) -> None:
        """An instance may be used: sequences get its free slots."""
        batcher.usable = True
        self.slots += len(batcher.slots)
        for slot in batcher.slots:
            self.refill(slot, now)

    def retire(self, batcher: SlotBatcher) -> None:
        """No further sequence gets a slot of this instance; those that have one keep it."""
        if batcher.usable:
            batcher.usable = False
            self.slots -= len(batcher.slots)

    def lose(self, batcher: SlotBatcher, now: int) -> list[Inference]:
        """An instance is lost, and with it what its model knew of its sequences: they end. Returns their requests that no batch has."""
        self.retire(batcher)
        lost: list[Inference] = []
        for taken in batcher.drop():
            taken.sequence.taken -= 1
            lost.append(taken.inference)
        for slot in batcher.slots:
            sequence = slot.sequence
            if sequence is not None:
                lost.extend(sequence.waiting)
                sequence.waiting.clear()
                self._close(sequence, SequenceEnd.INSTANCE, now)
                batcher.changed(slot, now)
        return lost

    def refill(self, slot: Slot, now: int) -> None:
        """Give a slot, if it is free, to the sequence that waits longest, or list it as free. A busy one is free once its request has come back."""
        if slot.sequence is not None or slot.busy or not slot.batcher.usable:
            return
        if slot.since_ns:
            self.held.record(now - slot.since_ns)
            slot.since_ns = 0
        if self.backlog:
            self._assign(slot, self.backlog.popitem(last=False)[0], now)
        elif not slot.listed:
            slot.listed = True
            heapq.heappush(self._free, (slot.row, slot.batcher.number, slot))

    def drop_backlog(self, reason: SequenceEnd, now: int) -> list[Inference]:
        """End every sequence that waits for a slot; returns its requests."""
        lost: list[Inference] = []
        for sequence in list(self.backlog):
            lost.extend(sequence.waiting)
            sequence.waiting.clear()
            self._close(sequence, reason, now)
        return lost

    def _close(self, sequence: Sequence, reason: SequenceEnd | None, now: int) -> None:
        """Take no further request of a sequence; with no waiting one it gives its slot back. `reason`: why it ends early; None if it does not."""
        if not sequence.closed:
            sequence.closed = True
            if self.open.get(sequence.key) is sequence:
                del self.open[sequence.key]
            self.idle.pop(sequence, None)
            if reason is not None:
                self._remember(sequence.key, reason)
        if not sequence.waiting:
            self.backlog.pop(sequence, None)
            sequence.due_ns = 0
            slot = sequence.slot
            if slot is not None and not (self._iterative and sequence.taken):
                self._release(slot, now)

    def _remember(self, key: Key, reason: SequenceEnd) -> None:
        self.ended[reason] += 1
        self._over[key] = reason
        self._over.move_to_end(key)
        if len(self._over) > _REMEMBERED:
            self._over.popitem(last=False)

    def _set_deadline(self, sequence: Sequence, inference: Inference, now: int) -> None:
        """The earliest timeout of its requests ends a sequence in the backlog."""
        timeout_us = inference.request.timeout_us
        if not timeout_us:
            return
        due = now + timeout_us * MICROSECOND_NS
        if sequence.due_ns and sequence.due_ns <= due:
            return
        sequence.due_ns = due
        if len(self._deadlines) > 2 * len(self.backlog) + _STALE:
            self._deadlines = [entry for entry in self._deadlines if entry[2].due_ns == entry[0]]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (due, next(self._pushed), sequence))

    def _assign(self, slot: Slot, sequence: Sequence, now: int) -> None:
        slot.sequence, sequence.slot, sequence.home = sequence, slot, slot
        slot.since_ns = now
        sequence.due_ns = 0
        slot.batcher.changed(slot, now)

    def _release(self, slot: Slot, now: int) -> None:
        sequence = slot.sequence
        assert sequence is not None
        slot.sequence = sequence.slot = None
        self.refill(slot, now)

    def _take_free(self) -> Slot | None:
        slot = self.next_free()
        if slot is not None:
            heapq.heappop(self._free)
            slot.listed = False
        return slot
