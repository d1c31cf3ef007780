"""The instances of a model with sequences: their batches are formed, sent and taken back here, on the event loop.

Each instance has a pool of its own, because a sequence belongs to one instance: its next request never runs on another. Requests that arrive in one
iteration of the loop are considered together at its end. Which sequence has which slot is the table's decision, and what is in a batch that of the batcher.
"""

import asyncio
import collections.abc
import functools
import itertools
import logging
import typing

import msgspec

from naiad.core.inference import Inference
from naiad.errors import InferenceError
from naiad.hosts.host import BatchOutcome, HostedInstance
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.batching import WaitUntil
from naiad.scheduling.instances.pool import InstancePool
from naiad.scheduling.instances.slot import InstanceSlot
from naiad.scheduling.occupancy import Occupancy
from naiad.scheduling.sequence.instance import ScheduledInstance
from naiad.scheduling.sequence.plan import SequencePlan
from naiad.scheduling.sequence.preparation import Preparation
from naiad.scheduling.sequence.slot import Sequence, Slot, Taken
from naiad.scheduling.timers.timer import Timer

_log = logging.getLogger(__name__)

MakePool = collections.abc.Callable[[HostedInstance], InstancePool]

OnCancel = collections.abc.Callable[[Inference], None]


class BatchEvents(typing.Protocol):
    """The scheduler, as the batches call it."""

    def cancelled(self, sequence: Sequence, inference: Inference) -> None:
        """The client of a request is gone."""
        ...

    def not_rescheduled(self, inference: Inference) -> None:
        """A request was to come back, and its client is gone; it is not pending."""
        ...

    def instance_lost(self, instance: ScheduledInstance) -> None:
        """Its worker ended."""
        ...

    def completed(self) -> None:
        """There are fewer requests than before; called while the model is unloaded."""
        ...


class SequenceBatches:
    """See above.

    Args:
        plan: the sequence batcher of the model.
        make_pool: makes the pool of one instance.
        preparation: adds inputs to requests.
        statistics: counts pending requests and closed batches.
        hold: send nothing before so many requests wait in slots, and so many in the backlog (row 12.19).
        timer: the scheduler's: it calls `run_waiting`.
        now: gives monotonic nanoseconds.
        loop: the event loop in which every method is called.
        events: the scheduler.

    Attributes:
        instances: all of them, by number.
        holds: whether `hold` is not reached yet.
    """

    def __init__(
        self,
        plan: SequencePlan,
        *,
        make_pool: MakePool,
        preparation: Preparation,
        statistics: ModelStatistics,
        hold: tuple[int, int],
        timer: Timer,
        now: collections.abc.Callable[[], int],
        loop: asyncio.AbstractEventLoop,
        events: BatchEvents,
    ) -> None:
        self._plan = plan
        self._table = plan.table
        self._make_pool = make_pool
        self._preparation = preparation
        self._statistics = statistics
        self._hold = hold
        self.holds = any(hold)
        self._timer = timer
        self._now = now
        self._loop = loop
        self._events = events
        self._draining = False
        self._numbers = itertools.count()
        self._closing = set[asyncio.Task[None]]()
        self.instances: dict[int, ScheduledInstance] = {}

    def add(self, hosted: HostedInstance) -> None:
        """Use an instance."""
        number = next(self._numbers)
        pool = self._make_pool(hosted)
        instance = ScheduledInstance(hosted, pool, self._plan.batcher(number))
        self.instances[number] = instance
        self._table.add(instance.batcher, self._now())
        pool.open(
            on_free=functools.partial(self._on_free, instance),
            on_begun=_never,
            on_lost=functools.partial(self._events.instance_lost, instance),
        )

    def remove(self, removed: collections.abc.Iterable[HostedInstance]) -> None:
        """Close instances once their sequences are over."""
        hosts = {hosted.host for hosted in removed}
        for instance in list(self.instances.values()):
            if instance.hosted.host in hosts:
                instance.is_removed = True
                instance.pool.on_completed = functools.partial(self._on_completed, instance)
                self._table.retire(instance.batcher)
                self._close_if_over(instance)

    def watch_completions(self) -> None:
        """Call `completed` of the scheduler from now on."""
        for instance in self.instances.values():
            instance.pool.on_completed = functools.partial(self._on_completed, instance)

    def drain(self) -> None:
        """No sequence starts any more, so no batch waits for one."""
        self._draining = True
        self.holds = False
        self.wake_waiting(self._now())

    def wake(self, slot: Slot, now: int) -> None:
        """A slot's sequence has a request."""
        self._wake(self.instances[slot.batcher.number], now)

    def wake_waiting(self, now: int) -> None:
        """Consider every instance for which requests wait."""
        for instance in list(self.instances.values()):
            if instance.batcher.waits:
                self._wake(instance, now)

    def run_waiting(self, now: int) -> None:
        """Send the batches whose delay is over."""
        for instance in list(self.instances.values()):
            if instance.batcher.waits:
                self._run(instance, now)
            if instance.is_removed:
                self._close_if_over(instance)

    def slot_changed(self, slot: Slot, now: int) -> None:
        """A sequence that had this slot was ended: have it used."""
        instance = self.instances.get(slot.batcher.number)
        if instance is not None:
            if instance.batcher.waits:
                self._wake(instance, now)
            if instance.is_removed:
                self._close_if_over(instance)

    def running(self) -> int:
        """How many requests are in execution, or have sent a response and will send another."""
        return sum(
            each.pool.inflight - (0 if each.running is None else each.running.nulls)
            for each in self.instances.values()
        )

    def idle(self) -> bool:
        """Whether no instance has anything."""
        return not any(each.pool.inflight for each in self.instances.values())

    def occupancy(self) -> Occupancy:
        """See `Scheduler`."""
        executions: list[tuple[str, list[Inference] | None]] = []
        for instance in self.instances.values():
            executions += instance.pool.executions()
        return Occupancy(executions, self._waits)

    def ready_now(self) -> bool | None:
        """See `Scheduler`."""
        known = [each.pool.ready_now() for each in self._in_use()]
        if False in known:
            return False
        return None if None in known else True

    async def ready(self) -> bool:
        """See `Scheduler`."""
        return all(await asyncio.gather(*(each.pool.ready() for each in self._in_use())))

    def abandoned(self) -> set[Inference]:
        """All inferences of the instances, if no client waits for any of them; else none."""
        left = set[Inference]()
        for instance in self.instances.values():
            abandoned = instance.pool.abandoned()
            if instance.pool.inflight and not abandoned:
                return set()
            left |= abandoned
        return left

    def abort(self, why: str, error: InferenceError) -> None:
        """Fail all inferences of the instances; see `InstancePool.abort`."""
        for instance in list(self.instances.values()):
            instance.pool.abort(why, error)

    async def close(self) -> None:
        """Close the instances. Call it when they have nothing."""
        pools = [each.pool for each in self.instances.values()]
        await asyncio.gather(*(pool.close() for pool in pools), *self._closing)

    def _in_use(self) -> list[ScheduledInstance]:
        return [each for each in self.instances.values() if not each.is_removed]

    def _waits(self, inference: Inference) -> bool:
        """Whether a request waits for an instance: it has not been sent to one."""
        if inference.completed:
            return False
        return not any(
            inference in (batch or ())
            for each in self.instances.values()
            for _, batch in each.pool.executions()
        )

    def _wake(self, instance: ScheduledInstance, now: int) -> None:
        """Consider a free instance at the end of this iteration of the loop; at once if it runs one request at a time."""
        if instance.is_due or not instance.pool.free:
            return
        if self._plan.single:
            self._run(instance, now)
        else:
            instance.is_due = True
            self._loop.call_soon(self._run_due, instance)

    def _run_due(self, instance: ScheduledInstance) -> None:
        instance.is_due = False
        self._run(instance, self._now())

    def _run(self, instance: ScheduledInstance, now: int) -> None:
        """Send the next batch of a free instance, or set the timer."""
        pool = instance.pool
        if not pool.free or (self.holds and self._is_held()):
            return
        decision = instance.batcher.next(now, draining=self._draining)
        if decision is None:
            return
        if isinstance(decision, WaitUntil):
            self._timer.set(decision.at_ns, exact=True)
            return
        slot = pool.acquire(None)
        if slot is None:
            return
        self._statistics.closes[decision.reason] += 1
        self._send(instance, slot, instance.batcher.take(decision.count, now), now)

    def _send(
        self, instance: ScheduledInstance, slot: InstanceSlot, rows: list[Taken | None], now: int
    ) -> None:
        """Execute a batch."""
        prepared = self._preparation.prepare(rows)
        instance.running = prepared
        batch = prepared.batch
        self._statistics.pending -= len(batch) - prepared.nulls
        instance.pool.send(slot, batch, now)
        for taken in rows:
            if taken is not None:
                inference = taken.inference
                inference.on_cancel = functools.partial(
                    self._cancel_running, taken.sequence, inference.on_cancel
                )

    def _cancel_running(
        self, sequence: Sequence, tell: OnCancel | None, inference: Inference
    ) -> None:
        """The client of a request in execution is gone: its model may ask, and its sequence is over."""
        if tell is not None:
            tell(inference)
        self._events.cancelled(sequence, inference)

    def _on_free(self, instance: ScheduledInstance, outcome: BatchOutcome | None) -> None:
        """A batch came back (see `InstancePool.open`), or its instance is free or usable for another reason (None)."""
        now = self._now()
        if outcome is not None:
            self._came_back(instance, outcome, now)
        elif instance.pool.usable and not instance.batcher.usable and not instance.is_removed:
            self._table.add(instance.batcher, now)
        self._run(instance, now)
        self._timer.set(self._table.next_due(), exact=False)
        if instance.is_removed:
            self._close_if_over(instance)

    def _came_back(self, instance: ScheduledInstance, outcome: BatchOutcome, now: int) -> None:
        running, instance.running = instance.running, None
        if running is None:
            return
        self._preparation.keep_states(outcome)
        execution = outcome.execution
        rescheduled = () if execution is None else execution.rescheduled
        lost: list[Inference] = []
        for row, (taken, request) in enumerate(zip(running.taken, running.requests, strict=True)):
            if taken is None or request is None:
                continue
            inference = taken.inference
            again = row in rescheduled and not inference.completed
            if again and inference.cancelled:
                again = False
                lost.append(inference)
            if again:
                inference.request = msgspec.structs.replace(request, flags=0)
                inference.queued_ns = now
                inference.on_cancel = functools.partial(self._events.cancelled, taken.sequence)
                self._statistics.pending += 1
            self._table.came_back(taken, now, rescheduled=again)
        for inference in lost:
            self._events.not_rescheduled(inference)

    def _on_completed(self, instance: ScheduledInstance) -> None:
        """An instance that is to be closed has fewer requests than before."""
        if instance.is_removed:
            self._close_if_over(instance)
        self._events.completed()

    def _close_if_over(self, instance: ScheduledInstance) -> None:
        """Close an instance that was removed, once no sequence has a slot of it and it owes no response."""
        number = instance.batcher.number
        if (
            instance.pool.inflight
            or instance.batcher.waits
            or any(slot.sequence is not None or slot.busy for slot in instance.batcher.slots)
            or self.instances.pop(number, None) is None
        ):
            return
        closing = self._loop.create_task(self._close_removed(instance))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _close_removed(self, instance: ScheduledInstance) -> None:
        try:
            await instance.pool.close()
        except Exception:  # noqa: BLE001  whatever a host raises, the others serve on
            _log.exception(
                "closing instance '%s', which was removed, failed", instance.hosted.spec.name
            )

    def _is_held(self) -> bool:
        """Whether too few requests wait for the test hook of row 12.19."""
        backlogged = sum(len(sequence.waiting) for sequence in self._table.backlog)
        in_slots = self._statistics.pending - backlogged
        self.holds = in_slots < self._hold[0] or backlogged < self._hold[1]
        return self.holds


def _never(_: list[Inference]) -> None:
    """No batch is prefetched: the next one depends on what comes of this one."""
