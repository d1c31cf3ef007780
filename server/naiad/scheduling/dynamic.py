"""The scheduler of a model version: a queue in front of its instances, for the dynamic batcher and the default scheduler.

It applies the decisions of `queue` and `batching` on the event loop, with one timer. Requests that arrive
in one iteration of the loop are considered together at its end, so that they share a batch even if the delay is 0, and while
several clients send requests, those of the next iterations as well: a hand-over costs as much as several requests. While one client sends one request after the
other (`ALONE`), and for the default scheduler, there is nothing to wait for: a request is sent at once.

A batch that is complete may be handed over before the instance is free (`next_prefetch`). Until it begins, its requests are waiting as those in
the queue: they count as pending and for `max_queue_size`, and a cancellation or the end of their timeout completes them at once. The instance still executes the batch with
them, and their responses are dropped.

Ownership: from `submit` on, an inference is in the queue, in the pool of instances, or completed. The state is consistent when a response
callback is called, because that may submit and cancel.
"""

import asyncio
import collections.abc
import itertools
import logging

from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts.host import BatchOutcome, HostedInstance
from naiad.metrics.statistics import CloseReason, ModelStatistics
from naiad.scheduling import refusals
from naiad.scheduling.batching import (
    BatchingPolicy,
    BatchRun,
    Dispatch,
    WaitUntil,
    next_batch,
    next_prefetch,
    runs_at_once,
)
from naiad.scheduling.follow_ups import FollowUps
from naiad.scheduling.instances.pool import InstancePool
from naiad.scheduling.occupancy import Occupancy
from naiad.scheduling.outlook import Outlook
from naiad.scheduling.queue import InferenceQueue, earliest_deadline
from naiad.scheduling.relays.calls import CallInProgress
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from naiad.scheduling.scheduler import drain
from naiad.scheduling.speed.deadline import DEADLINE_PARAMETER
from naiad.scheduling.strategy import Strategy
from naiad.scheduling.timers.timer import Timers
from naiad.scheduling.timers.wakeup import NEVER

_log = logging.getLogger(__name__)

GATHERING_NS = 500_000
"""How long a free instance waits at most while every iteration of the loop brings another request. Half a millisecond of a busy loop is
about as many requests as a batch holds."""
ALONE = 8
"""After so many short batches of one request in succession, with nothing waiting behind them, one client sends one request after the other. The next request is sent at once: at the end of the iteration
of the loop it would still be the only one. If it is not, the others wait for a short batch, and are considered together again."""
_IDLE = CloseReason.IDLE  # looking up a member of an enum takes longer


class DynamicScheduler:
    """Implements `Scheduler`.

    Args:
        model: the model's name, for messages.
        queue: empty; owned by the scheduler.
        policy: how batches are formed.
        strategy: the model's own, which is closed with the scheduler.
        dispatcher: counts and responds.
        hold: send nothing before this many requests have arrived (row 12.19).
        pool: the instances; of several free ones the one that worked last is used, because its memory is warm.
        statistics: counts pending requests and closed batches.
        timers: those of the loop.
        clock: gives the time.
        loop: the event loop in which every method is called.
    """

    def __init__(
        self,
        *,
        model: str,
        queue: InferenceQueue,
        policy: BatchingPolicy,
        strategy: Strategy | None = None,
        dispatcher: ResponseDispatcher,
        hold: int,
        pool: InstancePool,
        statistics: ModelStatistics,
        timers: Timers,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._model = model
        self._queue = queue
        self._policy = policy
        self._run = BatchRun(queue, policy, strategy)
        self._strategy = strategy
        self._dispatcher = dispatcher
        self._hold = hold
        self._pool = pool
        self._free = pool.free
        self.statistics = statistics
        self._now = clock.monotonic_ns
        self._loop = loop
        self._scheduling = False
        self._scheduling_is_due = False
        self._enough_rows = 0
        self._gathered = 0
        self._gathering_until_ns = 0
        self._gathers = False
        self._alone = 0  # short batches of one request so far, see `ALONE`
        self._follow_ups = FollowUps(queue, policy) if policy.awaits_follow_ups else None
        self._on_cancel = self._withdraw  # one object for all inferences
        self._timer = timers.timer(self._schedule)
        self._prefetched_due_ns = NEVER
        self._stopping = False
        self._drained = asyncio.Event()
        self._outlook = Outlook(
            model=model, queue=queue, policy=policy, pool=pool, now=clock.monotonic_ns
        )
        statistics.queue = self._outlook.state
        pool.open(on_free=self._on_free, on_begun=self._on_begun, on_lost=self._on_lost)

    def submit(self, inference: Inference) -> None:
        """See `Scheduler`. A refused inference is not counted here: the error's `reason` names its counter."""
        if self._stopping or not self._pool.usable:
            raise (
                refusals.stopping(inference, model=self._model)
                if self._stopping
                else refusals.no_instance(self._model)
            )
        if inference.cancelled or DEADLINE_PARAMETER in inference.request.parameters:
            self._check(inference)
        queue, now = self._queue, self._now()
        try:
            queue.push(inference, now)
        except InferenceError:
            # It may be full only because the last arrivals are not scheduled yet, or because a timer is late.
            self._schedule()
            queue.push(inference, now)
        inference.on_cancel = self._on_cancel
        self.statistics.pending += 1
        if self._hold:
            self._hold -= 1
        if self._scheduling_is_due or self._hold:
            return
        self._arrived(now)
        if inference.deadline_ns:
            self._timer.set(inference.deadline_ns, exact=False)

    def submit_together(
        self, inferences: collections.abc.Iterable[Inference]
    ) -> list[tuple[Inference, InferenceError]]:
        """See `SubmitsTogether`."""
        refused: list[tuple[Inference, InferenceError]] = []
        if self._stopping or self._hold or not self._pool.usable or not self._queue.is_plain:
            for inference in inferences:
                try:
                    self.submit(inference)
                except InferenceError as error:
                    refused.append((inference, error))
            return refused
        now, on_cancel = self._now(), self._on_cancel
        accepted: list[Inference] = []
        for inference in inferences:
            if inference.cancelled or DEADLINE_PARAMETER in inference.request.parameters:
                try:
                    self._check(inference)
                except InferenceError as error:
                    refused.append((inference, error))
                    continue
            inference.queued_ns = now
            inference.on_cancel = on_cancel
            accepted.append(inference)
        if accepted and not self._send_at_once(accepted, now):
            self._queue.push_plain(accepted)
            self.statistics.pending += len(accepted)
            if not self._scheduling_is_due:
                self._arrived(now)
        return refused

    def _send_at_once(self, accepted: list[Inference], now: int) -> bool:
        """Send calls of an ensemble to a free instance past the empty queue; False unless all of them run now whatever else arrives.

        Nothing is gathered if they are most of its requests. Fewer meet others on their way, with which they cost less.
        """
        pool, follow_ups = self._pool, self._follow_ups
        if (
            not self._free
            or self._queue.size
            or self._scheduling
            or self._scheduling_is_due
            or pool.speeds.mixed
            or (follow_ups is not None and follow_ups.is_active)
            or not runs_at_once(accepted, self._policy)
            or not _most_of_all(accepted)
        ):
            return False
        slot = pool.acquire(pool.last_used)
        if slot is None:
            return False
        self.statistics.closes[_IDLE] += 1
        pool.send(slot, accepted, now)
        return True

    def _arrived(self, now: int) -> None:
        """Requests were queued: schedule in this iteration of the loop or at its end, if that can have an effect."""
        queue = self._queue
        if (
            queue.rows >= self._enough_rows
            if self._free
            else self._pool.prefetcher is not None
            and queue.rows >= self._policy.prefetch_rows
            and self._pool.may_prefetch()
        ):
            if self._policy.single or (
                self._alone >= ALONE and self._free and not self._scheduling
            ):
                self._schedule(now)
            else:
                self._scheduling_is_due = True
                if self._gathers:
                    self._gathered = 0
                    self._gathering_until_ns = now + GATHERING_NS
                    self._loop.call_soon(self._gather)
                else:
                    self._loop.call_soon(self._schedule)

    def _check(self, inference: Inference) -> None:
        """Refuse what is cancelled already, and what would be answered too late."""
        if inference.cancelled:
            raise InferenceError(ErrorCode.CANCELLED, "", reason=FailureReason.CANCELED)
        self._outlook.check_deadline(inference)

    def inflight(self) -> int:
        """See `Scheduler`."""
        return self._queue.size + self._pool.inflight

    def occupancy(self) -> Occupancy:
        """See `Scheduler`."""
        pool = self._pool
        return Occupancy(pool.executions(), self._queue.__contains__, pool.kept())

    def ready_now(self) -> bool | None:
        """See `Scheduler`."""
        return self._pool.ready_now()

    async def ready(self) -> bool:
        """See `Scheduler`."""
        return await self._pool.ready()

    def resize(
        self,
        added: collections.abc.Iterable[HostedInstance],
        removed: collections.abc.Iterable[HostedInstance],
    ) -> None:
        """See `Scheduler`."""
        self._pool.resize(added, removed)

    async def stop(self) -> None:
        """See `Scheduler`."""
        if not self._stopping:
            self._stopping = True
            self._hold = 0
            self._pool.on_completed = self._check_drained
            self._schedule()
            self._check_drained()
        await drain(self._drained, abandoned=self._abandoned, abort=self._abort)
        if self._strategy is not None:
            self._strategy.close()
        await self._pool.close()
        self.statistics.queue = None

    def _abandoned(self) -> set[Inference]:
        """All remaining inferences, if no client waits for any of them; else none."""
        return set() if self._queue.size else self._pool.abandoned()

    def _abort(self, why: str, code: ErrorCode, reason: FailureReason) -> None:
        _log.warning(
            "model '%s' is unloaded with %d requests unfinished: %s",
            self._model,
            self.inflight(),
            why,
        )
        message = f"model '{self._model}' is unloaded with requests unfinished: {why}"
        error = InferenceError(code, message, reason=reason)
        for inference in self._queue.take(self._queue.size):
            self._drop(inference, error)
        self._pool.abort(f"its model is unloaded with requests unfinished: {why}", error)

    def _gather(self) -> None:
        """Schedule once an iteration of the loop brought no request, a batch is full, or it takes too long."""
        waiting = self._queue.rows
        if self._gathered < waiting < self._policy.max_rows and (
            self._now() < self._gathering_until_ns
        ):
            self._gathered = waiting
            self._loop.call_soon(self._gather)
        else:
            self._schedule()

    def _schedule(self, now: int = 0) -> None:
        """Reject requests whose timeout is over, send the batches that can run, set the timer for the rest.

        Args:
            now: monotonic nanoseconds; 0: look at the clock.
        """
        self._scheduling_is_due = False
        if self._hold or self._scheduling:
            return
        now = now or self._now()
        self._scheduling = True
        try:
            self._send_batches(now)
            queue = self._queue
            if (queue.size and self._pool.prefetcher is not None) or (
                queue.prefetched or self._prefetched_due_ns != NEVER
            ):
                self._prefetch(now)
        finally:
            self._scheduling = False
        if self._queue.deadlines and (due := self._queue.next_deadline()):
            self._timer.set(due, exact=False)
        if self._prefetched_due_ns != NEVER:
            self._timer.set(self._prefetched_due_ns, exact=False)

    def _send_batches(self, now: int) -> None:
        queue, free, pool = self._queue, self._free, self._pool
        if queue.deadlines and 0 < queue.next_deadline() <= now:
            for expired in queue.expire(now):
                self._reject_expired(expired, now)
        self._enough_rows = 0
        while free:
            decision = next_batch(self._run, now, draining=self._stopping)
            if decision is None:
                return
            if (
                self._follow_ups is not None
                and self._follow_ups.is_active
                and (pool.usable == 1 or self._works_alone())
                and isinstance(decision, Dispatch)
                and decision.reason is _IDLE
                and not self._stopping
            ):
                decision = self._follow_ups.wait(queue.rows, now) or decision
            if isinstance(decision, WaitUntil):
                self._enough_rows = decision.rows
                self._timer.set(decision.at_ns, exact=True)
                return
            preferred = pool.last_used
            if pool.speeds.mixed:
                preferred = pool.speeds.fastest()
                if again := pool.speeds.awaits_faster(self._outlook.batches(), now):
                    self._timer.set(again, exact=False)
                    return
            slot = pool.acquire(preferred)
            if slot is None:
                return
            self.statistics.closes[decision.reason] += 1
            self.statistics.pending -= decision.count
            pool.send(slot, self._take(decision.count), now)

    def _prefetch(self, now: int) -> None:
        """Reject requests of a prefetched batch whose timeout is over; send the next batch if the instance may have it."""
        pool, queue = self._pool, self._queue
        if self._prefetched_due_ns <= now:
            waiting = list(itertools.chain.from_iterable(pool.prefetched()))
            for inference in waiting:
                if 0 < inference.deadline_ns <= now and not inference.completed:
                    queue.prefetched -= 1
                    self._reject_expired(inference, now)
            self._prefetched_due_ns = earliest_deadline(waiting, NEVER)
        slot = pool.prefetcher
        if slot is None or not pool.may_prefetch():
            return
        decision = next_prefetch(self._run, now, draining=self._stopping)
        if decision is not None:
            self.statistics.closes[decision.reason] += 1
            has_deadlines = bool(queue.deadlines)
            batch = self._take(decision.count)
            if has_deadlines:
                due = earliest_deadline(batch, NEVER)
                self._prefetched_due_ns = min(due, self._prefetched_due_ns)
            queue.prefetched += decision.count
            pool.send(slot, batch)

    def _works_alone(self) -> bool:
        """Whether one of several instances has all the work: slower ones beside it stand idle. Of one alone that is known without this call."""
        speeds = self._pool.speeds
        return speeds.mixed and not speeds.busy()

    def _take(self, count: int) -> list[Inference]:
        """Take a batch that is sent now out of the queue."""
        follow_ups = self._follow_ups
        if (
            follow_ups is not None
            and follow_ups.is_active
            and (self._pool.usable == 1 or self._works_alone())
        ):
            follow_ups.taken(count)
        return self._queue.take(count)

    def _on_free(self, outcome: BatchOutcome | None) -> None:
        """An instance is free: its batch came back (see `InstancePool.open`), or for another reason (None)."""
        queue = self._queue
        if outcome is not None:
            if len(outcome.batch) > 1 or queue.size:
                self._gathers, self._alone = True, 0
            else:
                self._gathers = False
                short = outcome.compute_end_ns - outcome.compute_start_ns < GATHERING_NS
                self._alone = self._alone + 1 if short else 0
            if self._follow_ups is not None and (self._pool.usable == 1 or self._works_alone()):
                self._follow_ups.came_back(outcome, self._now())
        if queue.size:
            self._schedule()

    def _on_begun(self, batch: list[Inference]) -> None:
        """A prefetched batch no longer waits; those of its requests that are completed do not any more."""
        waiting = sum(not inference.completed for inference in batch)
        self.statistics.pending -= waiting
        self._queue.prefetched -= waiting

    def _on_lost(self) -> None:
        """There is no usable instance: queued requests fail, because a restart may take long, or for ever."""
        for inference in self._queue.take(self._queue.size):
            self._drop(inference, refusals.no_instance(self._model))

    def _withdraw(self, inference: Inference) -> None:
        """The client has gone. In a batch that has begun the inference stays (a flag tells the model, row 12.16), before that it ends now."""
        if not self._queue.remove(inference):
            if not any(inference in batch for batch in self._pool.prefetched()):
                return
            self._queue.prefetched -= 1
        self._drop(
            inference, InferenceError(ErrorCode.CANCELLED, "", reason=FailureReason.CANCELED)
        )

    def _reject_expired(self, inference: Inference, now: int) -> None:
        self._drop(inference, refusals.timed_out(inference, model=self._model, now=now))

    def _drop(self, inference: Inference, error: InferenceError) -> None:
        """End an inference that was removed from the queue."""
        self.statistics.pending -= 1
        self._dispatcher.fail(inference, error)
        self._check_drained()

    def _check_drained(self) -> None:
        if self._stopping and not self._queue.size and not self._pool.inflight:
            self._timer.cancel()
            self._drained.set()


def _most_of_all(accepted: list[Inference]) -> bool:
    """Whether calls of one batch are more than half of what their ensemble has in progress."""
    call = accepted[0].on_response
    together = call.together if isinstance(call, CallInProgress) else None
    return together is None or 2 * len(accepted) > together.in_progress
