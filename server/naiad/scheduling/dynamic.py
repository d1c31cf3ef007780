"""The scheduler of a model version: a queue in front of its instances, for the dynamic batcher and the default scheduler.

It carries out what `queue` and `batching` decide, on the event loop, with one alarm. Requests that come
in one turn of the loop are looked at together at its end, so that they share a batch even where the delay is 0, and while
several clients keep asking, the next turns' as well: a hand-over costs as much as several requests. The default scheduler
has nothing to wait for and sends at once. A batch that comes back frees its instance, which gets
the next batch before anybody is answered: the instance works while the loop writes.

Ownership: from `enqueue` on, an inference is in the queue, in exactly one batch, among those that are answered apart from
a batch that came back, or settled. A client's callback is
called with the books in order, because it may enqueue and cancel.
"""

import asyncio
import collections.abc
import contextlib
import functools
import logging

from naiad.backends.backend import Answer
from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.errors import ErrorCode, FailureReason, InferenceError, unavailable
from naiad.hosts.host import BatchOutcome, Host, OnOutcome
from naiad.metrics.statistics import MICROSECOND, ModelStatistics
from naiad.scheduling.alarm import Alarm
from naiad.scheduling.batching import BatchingPolicy, WaitUntil, next_batch
from naiad.scheduling.ordering import Reordering
from naiad.scheduling.queue import InferenceQueue
from naiad.scheduling.scheduler import Occupancy
from naiad.scheduling.settlement import Settlement

_log = logging.getLogger(__name__)

PATIENCE_S = 30.0
"""How long a model that is being unloaded may take to finish requests of which every client has left, a batch that hangs included."""

LONGEST_S = 3600.0
"""How long it may take for others. A client that still waits then is told."""

GATHERING_NS = 500_000
"""How long a free instance waits at most while every turn of the loop brings another request. Half a millisecond of a busy loop is
about as many requests as a batch holds."""


class _Place:
    """A host, whether it can run batches, and the batch that is out there with its place among all batches."""

    __slots__ = ("batch", "host", "on_outcome", "ticket", "usable")

    def __init__(
        self, host: Host, came_back: collections.abc.Callable[["_Place", BatchOutcome], None]
    ) -> None:
        self.host = host
        self.batch: list[Inference] | None = None
        self.ticket = 0
        self.usable = True
        self.on_outcome: OnOutcome = functools.partial(came_back, self)


class DynamicScheduler:
    """Implements `Scheduler`.

    Args:
        model: the model's name, for messages.
        queue: empty; the scheduler's from now on.
        policy: how batches form.
        settlement: answers and counts.
        preserve_ordering: responses leave in the order in which batches were sent (row 12.9).
        hold: send nothing before this many requests came (row 12.19).
        hosts: the instances; of several free ones the one that worked last is taken, for its memory is warm.
        statistics: for what is counted before the answer: pending requests and closed batches.
        clock: the time.
        loop: whose thread calls every method.
    """

    def __init__(
        self,
        *,
        model: str,
        queue: InferenceQueue,
        policy: BatchingPolicy,
        settlement: Settlement,
        preserve_ordering: bool,
        hold: int,
        hosts: collections.abc.Sequence[Host],
        statistics: ModelStatistics,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._model = model
        self._queue = queue
        self._policy = policy
        self._settlement = settlement
        self._order = Reordering[BatchOutcome]() if preserve_ordering else None
        self._hold = hold
        self._hosts = tuple(hosts)
        self._statistics = statistics
        self._now = clock.monotonic_ns
        self._loop = loop
        self._places = [_Place(host, self._came_back) for host in reversed(self._hosts)]
        self._free = list(self._places)
        self._usable = len(self._places)
        for host in self._hosts:
            host.answers_to(self._answered)
        self._apart = set[Inference]()
        self._owned = 0
        self._in_turn = False
        self._turn_is_due = False
        self._enough_rows = 0
        self._gathered = 0
        self._gathering_until_ns = 0
        self._several_ask = False
        self._alarm = Alarm(loop=loop, clock=clock, ring=self._look)
        self._stopping = False
        self._drained = asyncio.Event()
        for place in self._places:
            place.host.watch(functools.partial(self._usable_changed, place))

    def enqueue(self, inference: Inference) -> None:
        """See `Scheduler`. Who is refused is not counted here: the error's `reason` says where it belongs."""
        if self._stopping or not self._usable:
            raise self._stopped(inference) if self._stopping else self._nowhere()
        if inference.cancelled:
            raise InferenceError(ErrorCode.CANCELLED, "", reason=FailureReason.CANCELED)
        queue, now = self._queue, self._now()
        try:
            queue.push(inference, now)
        except InferenceError:
            # It may be full only because nobody looked since the last arrivals, or because a timer is late.
            self._turn()
            queue.push(inference, now)
        inference.on_cancel = self._withdraw
        self._owned += 1
        self._statistics.pending += 1
        if self._hold:
            self._hold -= 1
        if self._turn_is_due or self._hold:
            return
        if self._free and queue.rows >= self._enough_rows:
            if self._policy.single:
                self._turn()
            else:
                self._turn_is_due = True
                if self._several_ask:
                    self._gathered = 0
                    self._gathering_until_ns = now + GATHERING_NS
                    self._loop.call_soon(self._gather)
                else:
                    self._loop.call_soon(self._turn)
        if inference.deadline_ns:
            self._alarm.set(inference.deadline_ns, now, exact=False)

    def inflight(self) -> int:
        """See `Scheduler`."""
        return self._owned

    def occupancy(self) -> Occupancy:
        """See `Scheduler`."""
        order, places = self._order, self._places[::-1]
        due = [each.batch for each in places if order is not None and each.ticket == order.due]
        return Occupancy(
            [(each.host.name, each.batch) for each in places],
            self._queue.__contains__,
            [
                (outcome.batch, batch)
                for batch in due
                if batch is not None and order is not None
                for outcome in order.early()
            ],
        )

    async def stop(self) -> None:
        """See `Scheduler`."""
        if not self._stopping:
            self._stopping = True
            self._hold = 0
            self._turn()
            self._check_drained()
        last = self._loop.time() + LONGEST_S
        while not self._drained.is_set():
            unwanted = self._unwanted()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), PATIENCE_S)
                break
            still = self._unwanted()
            if still and still <= unwanted:
                why = f"every client left more than {PATIENCE_S:g} s ago"
                self._give_up(why, ErrorCode.CANCELLED, FailureReason.CANCELED)
            elif self._loop.time() >= last:
                why = f"they did not end in {LONGEST_S:g} s"
                self._give_up(why, ErrorCode.UNAVAILABLE, FailureReason.BACKEND)
        await asyncio.gather(*(host.close() for host in self._hosts))

    def _unwanted(self) -> set[Inference]:
        """What is left, if no client waits for any of it; else nothing."""
        left = self._apart.union(*(each.batch for each in self._places if each.batch is not None))
        if self._owned != len(left) or not all(each.cancelled for each in left):
            return set()
        return left

    def _give_up(self, why: str, code: ErrorCode, reason: FailureReason) -> None:
        """What is left does not end, perhaps never: a stream whose end the model forgot, a batch that hangs."""
        _log.warning(
            "model '%s' is unloaded with %d requests unfinished: %s", self._model, self._owned, why
        )
        message = f"model '{self._model}' is unloaded with requests unfinished: {why}"
        error = InferenceError(code, message, reason=reason)
        for inference in self._queue.take(len(self._queue)):
            self._drop(inference, error)
        gone, self._apart = self._apart, set[Inference]()
        self._owned -= len(gone)
        for inference in gone:
            self._settlement.fail(inference, error)
        for place in self._places:
            if place.batch is not None:
                place.host.abort(f"its model is unloaded with requests unfinished: {why}")
            if place.batch is not None:  # a thread
                now = self._now()
                self._came_back(place, BatchOutcome(place.batch, None, error, now, now))
        self._check_drained()

    def _gather(self) -> None:
        """Look once a turn of the loop brought nobody new, or a batch is full, or it takes too long."""
        waiting = self._queue.rows
        if self._gathered < waiting < self._policy.max_rows and (
            self._now() < self._gathering_until_ns
        ):
            self._gathered = waiting
            self._loop.call_soon(self._gather)
        else:
            self._turn()

    def _turn(self) -> None:
        self._turn_is_due = False
        self._look(self._now())

    def _look(self, now: int) -> None:
        """Reject what is too late, send what can run, set the timer for the rest."""
        if self._hold or self._in_turn:
            return
        self._in_turn = True
        try:
            self._send_what_can_run(now)
        finally:
            self._in_turn = False
        if due := self._queue.next_deadline():
            self._alarm.set(due, now, exact=False)

    def _send_what_can_run(self, now: int) -> None:
        queue, free = self._queue, self._free
        due = queue.next_deadline()
        if due and due <= now:
            for late in queue.expire(now):
                self._reject_late(late, now)
        self._enough_rows = 0
        while free:
            decision = next_batch(queue, now, self._policy, draining=self._stopping)
            if decision is None:
                return
            if isinstance(decision, WaitUntil):
                self._enough_rows = decision.rows
                self._alarm.set(decision.at_ns, now, exact=True)
                return
            self._statistics.record_close(decision.reason)
            self._send(free.pop(), decision.batch)

    def _send(self, place: _Place, batch: list[Inference]) -> None:
        self._statistics.pending -= len(batch)
        place.batch = batch
        if self._order is not None:
            place.ticket = self._order.sent()
        try:
            place.host.submit(batch, place.on_outcome)
        except Exception as failure:  # noqa: BLE001  whatever a host does, nobody may wait for ever
            message = (
                f"model '{self._model}': its instance '{place.host.name}' took no batch: {failure}"
            )
            error = InferenceError(ErrorCode.INTERNAL, message, reason=FailureReason.BACKEND)
            now = self._now()
            self._loop.call_soon(place.on_outcome, BatchOutcome(batch, None, error, now, now))

    def _came_back(self, place: _Place, outcome: BatchOutcome) -> None:
        if place.batch is not outcome.batch:
            return  # it was given up before
        ticket = place.ticket
        place.batch = None
        self._several_ask = len(outcome.batch) > 1 or bool(self._queue)
        if place.usable:
            self._free.append(place)
        if self._queue:
            self._turn()
        if self._order is None:
            self._deliver(outcome)
        else:
            for due in self._order.came_back(ticket, outcome):
                self._deliver(due)

    def _usable_changed(self, place: _Place, usable: bool) -> None:  # noqa: FBT001  as hosts tell it
        """A host cannot run batches any more, or can again. With none left nobody waits: it may take long, or for ever."""
        if place.usable is usable:
            return
        place.usable = usable
        if usable:
            self._usable += 1
            if place.batch is None:
                self._free.append(place)
            self._turn()
            return
        self._usable -= 1
        if place in self._free:
            self._free.remove(place)
        if not self._usable:
            for inference in self._queue.take(len(self._queue)):
                self._drop(inference, self._nowhere())

    def _deliver(self, outcome: BatchOutcome) -> None:
        self._owned -= len(outcome.batch)
        execution = outcome.execution
        self._settlement.deliver(outcome)
        if execution is not None and None in execution.responses:
            apart = [inference for inference in outcome.batch if not inference.settled]
            self._apart.update(apart)
            self._owned += len(apart)
        self._check_drained()

    def _answered(self, answer: Answer) -> None:
        """A response came apart from its batch, which may still be out."""
        inference = answer.inference
        if answer.response.final and inference in self._apart:
            self._apart.remove(inference)
            self._owned -= 1
        flow = inference.flow
        if flow is not None:
            flow.coming(answer.weight)
        self._settlement.respond(answer)
        if flow is not None:
            flow.arrived(answer.weight)
        self._check_drained()

    def _withdraw(self, inference: Inference) -> None:
        """Its client left. In a batch it stays (the flag tells the model, row 12.16), in the queue it ends now."""
        if self._queue.remove(inference):
            self._drop(
                inference, InferenceError(ErrorCode.CANCELLED, "", reason=FailureReason.CANCELED)
            )

    def _reject_late(self, inference: Inference, now: int) -> None:
        waited_ms = (now - inference.queued_ns) / (1_000 * MICROSECOND)
        allowed_ms = (inference.deadline_ns - inference.queued_ns) / (1_000 * MICROSECOND)
        message = (
            f"Request timeout expired: it waited {waited_ms:.1f} ms for a free instance of model '{self._model}' and may wait "
            f"{allowed_ms:.1f} ms. Send it again later, or to another server; more instances or a larger "
            "default_timeout_microseconds in the model's queue policy let more requests through."
        )
        self._drop(
            inference,
            InferenceError(ErrorCode.UNAVAILABLE, message, reason=FailureReason.REJECTED),
        )

    def _drop(self, inference: Inference, error: InferenceError) -> None:
        """End an inference that has left the queue without a batch."""
        self._owned -= 1
        self._statistics.pending -= 1
        self._settlement.fail(inference, error)
        self._check_drained()

    def _check_drained(self) -> None:
        if self._stopping and not self._owned:
            self._alarm.cancel()
            self._drained.set()

    def _nowhere(self) -> InferenceError:
        return unavailable(
            f"model '{self._model}' has no instance that runs: its worker process ended and is being restarted. Send the request "
            "again later, or to another server.",
            reason=FailureReason.BACKEND,
        )

    def _stopped(self, inference: Inference) -> InferenceError:
        return unavailable(
            f"{inference.request.label}Server is stopping, scheduler for model has stopped accepting new inference "
            f"requests: model '{self._model}' is being shut down. Send it to another server, or again later."
        )
