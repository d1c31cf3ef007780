"""The scheduler of a model with sequences: applies the decisions of the table and of the batchers of the instances on the event loop.

Each instance has a pool of its own, because a sequence belongs to one instance: its next request never runs on another. Requests that arrive in one
iteration of the loop are considered together at its end.

Ownership: from `submit` on, a request is in the table, in the queue of a batcher, in a pool, or completed. The state is consistent when a response
callback is called, because that may submit and cancel.
"""

import asyncio
import collections.abc
import contextlib
import functools
import itertools
import logging

import msgspec

from naiad.config.model_config import ModelConfig
from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.core.request import SEQUENCE_START
from naiad.errors import ErrorCode, FailureReason, InferenceError, unavailable
from naiad.hosts.host import BatchOutcome, HostedInstance
from naiad.metrics.statistics import ModelStatistics, SequenceEnd
from naiad.scheduling.batching import WaitUntil
from naiad.scheduling.instance_pool import InstancePool
from naiad.scheduling.instance_slot import InstanceSlot
from naiad.scheduling.occupancy import Occupancy
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from naiad.scheduling.scheduler import UNLOAD_GRACE_S, drain
from naiad.scheduling.sequence import errors
from naiad.scheduling.sequence.instance import ScheduledInstance
from naiad.scheduling.sequence.outlook import SequenceOutlook
from naiad.scheduling.sequence.plan import SequencePlan
from naiad.scheduling.sequence.preparation import Preparation
from naiad.scheduling.sequence.slot import Sequence, Taken
from naiad.scheduling.sequence.states import SequenceStates
from naiad.scheduling.timer import Timers

_log = logging.getLogger(__name__)

MakePool = collections.abc.Callable[[HostedInstance], InstancePool]

OnCancel = collections.abc.Callable[[Inference], None]

SEQUENCE_GRACE_S = UNLOAD_GRACE_S
"""How long sequences that are open when their model is unloaded may take to end."""

_WARNING_NS = 10_000_000_000
"""At most one warning of sequences that start twice in this time."""


class SequenceScheduler:
    """Implements `Scheduler`.

    Args:
        config: the model's; it has a sequence batcher.
        instances: the first ones.
        make_pool: makes the pool of one instance.
        dispatcher: counts and responds.
        statistics: counts pending requests and closed batches.
        hold: send nothing before so many requests wait in slots, and so many in the backlog (row 12.19).
        timers: those of the loop.
        clock: gives the time.
        loop: the event loop in which every method is called.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        instances: collections.abc.Sequence[HostedInstance],
        make_pool: MakePool,
        dispatcher: ResponseDispatcher,
        statistics: ModelStatistics,
        hold: tuple[int, int],
        timers: Timers,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._model = config.name
        states = SequenceStates(config) if config.states else None
        self._plan = plan = SequencePlan(config, prepare=None if states is None else states.prepare)
        self._table = plan.table
        self._iterative = plan.batching.iterative
        self._preparation = Preparation(config, plan.batching, states)
        self._make_pool = make_pool
        self._dispatcher = dispatcher
        self.statistics = statistics
        statistics.sequences = self._table.counts
        self._hold = hold
        self._holds = any(hold)
        self._now = clock.monotonic_ns
        self._loop = loop
        self._timer = timers.timer(self._on_time)
        self._stopping = False
        self._sequences_over = asyncio.Event()
        self._drained = asyncio.Event()
        self._closing = set[asyncio.Task[None]]()
        self._warned_ns = -_WARNING_NS
        self._warned_of = 0
        self._numbers = itertools.count()
        self._instances: dict[int, ScheduledInstance] = {}
        self._outlook = SequenceOutlook(
            model=config.name,
            table=self._table,
            instances=self._instances,
            statistics=statistics,
            now=clock.monotonic_ns,
        )
        statistics.queue = self._outlook.state
        for hosted in instances:
            self._add(hosted)

    def submit(self, inference: Inference) -> None:
        """See `Scheduler`."""
        self._check(inference)
        request, table = inference.request, self._table
        if not request.correlation_id:
            inference.request = msgspec.structs.replace(
                request, correlation_id=table.new_key(), flags=SEQUENCE_START
            )
        now = self._now()
        inference.queued_ns = now
        sequence = table.accept(inference, now)
        inference.on_cancel = functools.partial(self._cancel_waiting, sequence)
        self.statistics.pending += 1
        if table.conflicts != self._warned_of:
            self._warn_of_conflict(sequence, now)
        slot = sequence.home
        if slot is not None:
            self._wake(self._instances[slot.batcher.number], now)
        elif sequence.due_ns:
            self._timer.set(sequence.due_ns, exact=False)
        if self._holds:
            self._wake_all(now)

    def _check(self, inference: Inference) -> None:
        """Refuse what no sequence can take, what is cancelled already, and what would be answered too late."""
        if inference.batch_size > 1:
            raise errors.batched(self._model, inference.batch_size)
        if not inference.request.correlation_id and not self._iterative:
            raise errors.without_id(self._model)
        if not self._table.slots and not self._stopping:
            raise self._no_instance()
        if inference.cancelled:
            raise errors.cancelled()
        if inference.request.parameters:
            self._outlook.check_deadline(inference)

    def end_sequence(self, correlation_id: int | str) -> None:
        """End a sequence whose client has gone: its slot is free once its request in execution, if there is one, has come back."""
        now = self._now()
        sequence = self._table.open.get(correlation_id)
        if sequence is not None:
            lost = self._table.end(correlation_id, SequenceEnd.CANCELLED, now)
            self._after_end(sequence, lost, now)

    def has_sequence(self, correlation_id: int | str | None) -> bool:
        """Whether a sequence takes further requests; None: any."""
        is_open = self._table.open
        return bool(is_open) if correlation_id is None else correlation_id in is_open

    def inflight(self) -> int:
        """See `Scheduler`; an open sequence without a request counts as one, for its client will send another."""
        running = sum(
            each.pool.inflight - (0 if each.running is None else each.running.nulls)
            for each in self._instances.values()
        )
        return self.statistics.pending + running + len(self._table.idle)

    def occupancy(self) -> Occupancy:
        """See `Scheduler`."""
        executions: list[tuple[str, list[Inference] | None]] = []
        for instance in self._instances.values():
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

    def resize(
        self,
        added: collections.abc.Iterable[HostedInstance],
        removed: collections.abc.Iterable[HostedInstance],
    ) -> None:
        """See `Scheduler`: an instance that is removed serves its sequences until they are over."""
        for hosted in added:
            self._add(hosted)
        hosts = {hosted.host for hosted in removed}
        for instance in list(self._instances.values()):
            if instance.hosted.host in hosts:
                instance.is_removed = True
                instance.pool.on_completed = functools.partial(self._on_completed, instance)
                self._table.retire(instance.batcher)
                self._close_if_over(instance)
        self._wake_all(self._now())

    async def finish_sequences(self, seconds: float) -> None:
        """Let open sequences end, and start none; those that are open after that time take no further request (row 13.18)."""
        self._table.stopping = True
        for instance in self._instances.values():
            instance.pool.on_completed = functools.partial(self._on_completed, instance)
        self._check_drained()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._sequences_over.wait(), seconds)
        self._table.close_all(SequenceEnd.UNLOAD, self._now())
        self._check_drained()

    async def stop(self) -> None:
        """See `Scheduler`: no sequence starts, and the open ones get `SEQUENCE_GRACE_S` to end."""
        if not self._stopping:
            self._stopping = True
            self._holds = False
            self._wake_all(self._now())
        await self.finish_sequences(SEQUENCE_GRACE_S)
        await drain(self._drained, abandoned=self._abandoned, abort=self._abort)
        pools = [each.pool for each in self._instances.values()]
        await asyncio.gather(*(pool.close() for pool in pools), *self._closing)
        self.statistics.queue = None

    def _add(self, hosted: HostedInstance) -> None:
        number = next(self._numbers)
        pool = self._make_pool(hosted)
        instance = ScheduledInstance(hosted, pool, self._plan.batcher(number))
        self._instances[number] = instance
        self._table.add(instance.batcher, self._now())
        pool.open(
            on_free=functools.partial(self._on_free, instance),
            on_begun=_never,
            on_lost=functools.partial(self._on_lost, instance),
        )

    def _in_use(self) -> list[ScheduledInstance]:
        return [each for each in self._instances.values() if not each.is_removed]

    def _waits(self, inference: Inference) -> bool:
        """Whether a request waits for an instance: it has not been sent to one."""
        if inference.completed:
            return False
        return not any(
            inference in (batch or ())
            for each in self._instances.values()
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

    def _wake_all(self, now: int) -> None:
        for instance in list(self._instances.values()):
            if instance.batcher.waits:
                self._wake(instance, now)

    def _run_due(self, instance: ScheduledInstance) -> None:
        instance.is_due = False
        self._run(instance, self._now())

    def _run(self, instance: ScheduledInstance, now: int) -> None:
        """Send the next batch of a free instance, or set the timer."""
        pool = instance.pool
        if not pool.free or (self._holds and self._is_held()):
            return
        decision = instance.batcher.next(now, draining=self._stopping)
        if decision is None:
            return
        if isinstance(decision, WaitUntil):
            self._timer.set(decision.at_ns, exact=True)
            return
        slot = pool.acquire(None)
        if slot is None:
            return
        self.statistics.closes[decision.reason] += 1
        self._send(instance, slot, instance.batcher.take(decision.count, now), now)

    def _send(
        self, instance: ScheduledInstance, slot: InstanceSlot, rows: list[Taken | None], now: int
    ) -> None:
        """Execute a batch."""
        prepared = self._preparation.prepare(rows)
        instance.running = prepared
        batch = prepared.batch
        self.statistics.pending -= len(batch) - prepared.nulls
        instance.pool.send(slot, batch, now)
        for taken in rows:
            if taken is not None:
                inference = taken.inference
                inference.on_cancel = functools.partial(
                    self._cancel_running, taken.sequence, inference.on_cancel
                )

    def _on_free(self, instance: ScheduledInstance, outcome: BatchOutcome | None) -> None:
        """A batch came back (see `InstancePool.open`), or its instance is free or usable for another reason (None)."""
        now = self._now()
        if outcome is not None:
            self._came_back(instance, outcome, now)
        elif instance.pool.usable and not instance.batcher.usable and not instance.is_removed:
            self._table.add(instance.batcher, now)
        self._run(instance, now)
        self._set_timer()
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
                inference.on_cancel = functools.partial(self._cancel_waiting, taken.sequence)
                self.statistics.pending += 1
            self._table.came_back(taken, now, rescheduled=again)
        for inference in lost:
            self._dispatcher.fail(inference, errors.cancelled())

    def _on_lost(self, instance: ScheduledInstance) -> None:
        """Its worker ended: its sequences are over. With the last instance those without a slot are, too: a restart may take for ever."""
        now = self._now()
        lost = self._table.lose(instance.batcher, now)
        for inference in lost:
            self._drop(inference, errors.instance_lost(self._model))
        if not self._table.slots:
            for inference in self._table.drop_backlog(SequenceEnd.INSTANCE, now):
                self._drop(inference, self._no_instance())
        self._check_drained()

    def _on_time(self, now: int) -> None:
        """End what has waited or was idle for too long, and send the batches whose delay is over."""
        expired, _ = self._table.expire(now)
        for inference in expired:
            self._drop(inference, errors.timed_out(inference.request, self._model))
        for instance in list(self._instances.values()):
            if instance.batcher.waits:
                self._run(instance, now)
            if instance.is_removed:
                self._close_if_over(instance)
        self._set_timer()
        self._check_drained()

    def _set_timer(self) -> None:
        self._timer.set(self._table.next_due(), exact=False)

    def _cancel_waiting(self, sequence: Sequence, inference: Inference) -> None:
        """The client of a request that no batch has is gone."""
        now = self._now()
        self._after_end(sequence, self._table.cancel(sequence, inference, now), now)

    def _cancel_running(
        self, sequence: Sequence, tell: OnCancel | None, inference: Inference
    ) -> None:
        """The client of a request in execution is gone: its model may ask, and its sequence is over."""
        if tell is not None:
            tell(inference)
        self._cancel_waiting(sequence, inference)

    def _after_end(self, sequence: Sequence, lost: list[Inference], now: int) -> None:
        """A sequence was ended: respond to its requests, and have its slot used."""
        for inference in lost:
            self._drop(inference, errors.cancelled())
        if sequence.home is not None:
            instance = self._instances.get(sequence.home.batcher.number)
            if instance is not None:
                if instance.batcher.waits:
                    self._wake(instance, now)
                if instance.is_removed:
                    self._close_if_over(instance)
        self._check_drained()

    def _drop(self, inference: Inference, error: InferenceError) -> None:
        """End a request that no batch has."""
        self.statistics.pending -= 1
        self._dispatcher.fail(inference, error)

    def _on_completed(self, instance: ScheduledInstance) -> None:
        """An instance that is to be closed has fewer requests than before."""
        if instance.is_removed:
            self._close_if_over(instance)
        self._check_drained()

    def _close_if_over(self, instance: ScheduledInstance) -> None:
        """Close an instance that was removed, once no sequence has a slot of it and it owes no response."""
        number = instance.batcher.number
        if (
            instance.pool.inflight
            or instance.batcher.waits
            or any(slot.sequence is not None or slot.busy for slot in instance.batcher.slots)
            or self._instances.pop(number, None) is None
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
        in_slots = self.statistics.pending - backlogged
        self._holds = in_slots < self._hold[0] or backlogged < self._hold[1]
        return self._holds

    def _abandoned(self) -> set[Inference]:
        """All remaining inferences, if no client waits for any of them; else none."""
        if self.statistics.pending:
            return set()
        left = set[Inference]()
        for instance in self._instances.values():
            abandoned = instance.pool.abandoned()
            if instance.pool.inflight and not abandoned:
                return set()
            left |= abandoned
        return left

    def _abort(self, why: str, code: ErrorCode, reason: FailureReason) -> None:
        _log.warning(
            "model '%s' is unloaded with %d requests unfinished: %s",
            self._model,
            self.inflight(),
            why,
        )
        message = f"model '{self._model}' is unloaded with requests unfinished: {why}"
        error = InferenceError(code, message, reason=reason)
        now = self._now()
        lost = self._table.drop_backlog(SequenceEnd.UNLOAD, now)
        for instance in self._instances.values():
            lost += self._table.lose(instance.batcher, now)
        for inference in lost:
            self._drop(inference, error)
        for instance in list(self._instances.values()):
            instance.pool.abort(f"its model is unloaded with requests unfinished: {why}", error)
        self._check_drained()

    def _check_drained(self) -> None:
        if not self._table.stopping or self._table.open:
            return
        self._sequences_over.set()
        if not self._stopping:
            return
        if not self.statistics.pending and not any(
            each.pool.inflight for each in self._instances.values()
        ):
            self._timer.cancel()
            self._drained.set()

    def _warn_of_conflict(self, sequence: Sequence, now: int) -> None:
        """A sequence started again before its END (row 13.4)."""
        if now - self._warned_ns < _WARNING_NS:
            return
        count = self._table.conflicts - self._warned_of
        self._warned_ns, self._warned_of = now, self._table.conflicts
        _log.warning(
            "sequence %s for model '%s' has a conflict. The previous sequence did not end before this sequence start. Previous sequence "
            "will be terminated early. (%d such sequences since the last warning)",
            sequence.key,
            self._model,
            count,
        )

    def _no_instance(self) -> InferenceError:
        return unavailable(
            f"model '{self._model}' has no running instance: its worker process ended and is being restarted. Send the request "
            "again later, or to another server.",
            reason=FailureReason.BACKEND,
        )


def _never(_: list[Inference]) -> None:
    """No batch is prefetched: the next one depends on what comes of this one."""
