"""The scheduler of a model with sequences: admits requests and ends sequences by the decisions of the table, on the event loop.

The batches of its instances are the work of `batches`.

Ownership: from `submit` on, a request is in the table, in the queue of a batcher, in a pool, or completed. The state is consistent when a response
callback is called, because that may submit and cancel.
"""

import asyncio
import collections.abc
import contextlib
import functools
import logging

import msgspec

from naiad.config.model_config import ModelConfig
from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.core.request import SEQUENCE_START
from naiad.errors import ErrorCode, FailureReason, InferenceError, unavailable
from naiad.hosts.host import HostedInstance
from naiad.metrics.statistics import ModelStatistics, SequenceEnd
from naiad.scheduling.occupancy import Occupancy
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from naiad.scheduling.scheduler import UNLOAD_GRACE_S, drain
from naiad.scheduling.sequence import errors
from naiad.scheduling.sequence.batches import MakePool, SequenceBatches
from naiad.scheduling.sequence.instance import ScheduledInstance
from naiad.scheduling.sequence.outlook import SequenceOutlook
from naiad.scheduling.sequence.plan import SequencePlan
from naiad.scheduling.sequence.preparation import Preparation
from naiad.scheduling.sequence.slot import Sequence
from naiad.scheduling.sequence.states import SequenceStates
from naiad.scheduling.timers.timer import Timers

_log = logging.getLogger(__name__)

SEQUENCE_GRACE_S = UNLOAD_GRACE_S
"""How long sequences that are open when their model is unloaded may take to end."""

_WARNING_NS = 10_000_000_000
"""At most one warning of sequences that start twice in this time."""


class SequenceScheduler:
    """Implements `Scheduler` and `BatchEvents`.

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
        plan = SequencePlan(config, prepare=None if states is None else states.prepare)
        self._table = plan.table
        self._iterative = plan.batching.iterative
        self._dispatcher = dispatcher
        self.statistics = statistics
        self._now = clock.monotonic_ns
        self._timer = timers.timer(self._on_time)
        self._stopping = False
        self._sequences_over = asyncio.Event()
        self._drained = asyncio.Event()
        self._warned_ns = -_WARNING_NS
        self._warned_of = 0
        self._batches = SequenceBatches(
            plan,
            make_pool=make_pool,
            preparation=Preparation(config, plan.batching, states),
            statistics=statistics,
            hold=hold,
            timer=self._timer,
            now=clock.monotonic_ns,
            loop=loop,
            events=self,
        )
        self._outlook = SequenceOutlook(
            model=config.name,
            table=self._table,
            instances=self._batches.instances,
            statistics=statistics,
            now=clock.monotonic_ns,
        )
        statistics.sequences = self._table.counts
        statistics.queue = self._outlook.state
        for hosted in instances:
            self._batches.add(hosted)

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
        inference.on_cancel = functools.partial(self.cancelled, sequence)
        self.statistics.pending += 1
        if table.conflicts != self._warned_of:
            self._warn_of_conflict(sequence, now)
        slot = sequence.home
        if slot is not None:
            self._batches.wake(slot, now)
        elif sequence.due_ns:
            self._timer.set(sequence.due_ns, exact=False)
        if self._batches.holds:
            self._batches.wake_waiting(now)

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
        return self.statistics.pending + self._batches.running() + len(self._table.idle)

    def occupancy(self) -> Occupancy:
        """See `Scheduler`."""
        return self._batches.occupancy()

    def ready_now(self) -> bool | None:
        """See `Scheduler`."""
        return self._batches.ready_now()

    async def ready(self) -> bool:
        """See `Scheduler`."""
        return await self._batches.ready()

    def resize(
        self,
        added: collections.abc.Iterable[HostedInstance],
        removed: collections.abc.Iterable[HostedInstance],
    ) -> None:
        """See `Scheduler`: an instance that is removed serves its sequences until they are over."""
        for hosted in added:
            self._batches.add(hosted)
        self._batches.remove(removed)
        self._batches.wake_waiting(self._now())

    async def finish_sequences(self, seconds: float) -> None:
        """Let open sequences end, and start none; those that are open after that time take no further request (row 13.18)."""
        self._table.stopping = True
        self._batches.watch_completions()
        self._check_drained()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._sequences_over.wait(), seconds)
        self._table.close_all(SequenceEnd.UNLOAD, self._now())
        self._check_drained()

    async def stop(self) -> None:
        """See `Scheduler`: no sequence starts, and the open ones get `SEQUENCE_GRACE_S` to end."""
        if not self._stopping:
            self._stopping = True
            self._batches.drain()
        await self.finish_sequences(SEQUENCE_GRACE_S)
        await drain(self._drained, abandoned=self._abandoned, abort=self._abort)
        await self._batches.close()
        self.statistics.queue = None

    def cancelled(self, sequence: Sequence, inference: Inference) -> None:
        """See `BatchEvents`; also of a request that no batch has."""
        now = self._now()
        self._after_end(sequence, self._table.cancel(sequence, inference, now), now)

    def not_rescheduled(self, inference: Inference) -> None:
        """See `BatchEvents`."""
        self._dispatcher.fail(inference, errors.cancelled())

    def instance_lost(self, instance: ScheduledInstance) -> None:
        """See `BatchEvents`: its sequences are over. With the last instance those without a slot are, too: a restart may take for ever."""
        now = self._now()
        lost = self._table.lose(instance.batcher, now)
        for inference in lost:
            self._drop(inference, errors.instance_lost(self._model))
        if not self._table.slots:
            for inference in self._table.drop_backlog(SequenceEnd.INSTANCE, now):
                self._drop(inference, self._no_instance())
        self._check_drained()

    def completed(self) -> None:
        """See `BatchEvents`."""
        self._check_drained()

    def _on_time(self, now: int) -> None:
        """End what has waited or was idle for too long, and send the batches whose delay is over."""
        expired, _ = self._table.expire(now)
        for inference in expired:
            self._drop(inference, errors.timed_out(inference.request, self._model))
        self._batches.run_waiting(now)
        self._timer.set(self._table.next_due(), exact=False)
        self._check_drained()

    def _after_end(self, sequence: Sequence, lost: list[Inference], now: int) -> None:
        """A sequence was ended: respond to its requests, and have its slot used."""
        for inference in lost:
            self._drop(inference, errors.cancelled())
        if sequence.home is not None:
            self._batches.slot_changed(sequence.home, now)
        self._check_drained()

    def _drop(self, inference: Inference, error: InferenceError) -> None:
        """End a request that no batch has."""
        self.statistics.pending -= 1
        self._dispatcher.fail(inference, error)

    def _abandoned(self) -> set[Inference]:
        """All remaining inferences, if no client waits for any of them; else none."""
        return set() if self.statistics.pending else self._batches.abandoned()

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
        for instance in self._batches.instances.values():
            lost += self._table.lose(instance.batcher, now)
        for inference in lost:
            self._drop(inference, error)
        self._batches.abort(f"its model is unloaded with requests unfinished: {why}", error)
        self._check_drained()

    def _check_drained(self) -> None:
        if not self._table.stopping or self._table.open:
            return
        self._sequences_over.set()
        if not self._stopping:
            return
        if not self.statistics.pending and self._batches.idle():
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
