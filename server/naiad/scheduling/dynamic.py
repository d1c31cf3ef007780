"""The scheduler of a model version: a queue in front of its instances, for the dynamic batcher and the default scheduler.

It applies the decisions of `queue` and `batching` on the event loop, with one timer. Requests that arrive
in one iteration of the loop are considered together at its end, so that they share a batch even if the delay is 0, and while
several clients send requests, those of the next iterations as well: a hand-over costs as much as several requests. The default scheduler
has nothing to wait for and sends at once. A batch that comes back frees its instance, which gets
the next batch before the responses are sent: the instance works while the loop writes.

Ownership: from `enqueue` on, an inference is in the queue, in exactly one batch, deferred (its batch came back before its
responses), or completed. The state is consistent when a response callback is called, because that may enqueue and cancel.
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
from naiad.scheduling.batching import BatchingPolicy, WaitUntil, next_batch
from naiad.scheduling.ordering import Reordering
from naiad.scheduling.queue import InferenceQueue
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from naiad.scheduling.scheduler import Occupancy
from naiad.scheduling.timer import Timer

_log = logging.getLogger(__name__)

UNLOAD_GRACE_S = 30.0
"""How long a model that is being unloaded may take to finish requests whose clients have all gone, including a batch that hangs."""

UNLOAD_LIMIT_S = 3600.0
"""How long it may take for other requests. A client that still waits then gets an error."""

GATHERING_NS = 500_000
"""How long a free instance waits at most while every iteration of the loop brings another request. Half a millisecond of a busy loop is
about as many requests as a batch holds."""


class _InstanceSlot:
    """An instance: its host, whether it can run batches, its current batch and the ticket of that in the order of all batches."""

    __slots__ = ("batch", "host", "on_outcome", "ticket", "usable")

    def __init__(
        self, host: Host, came_back: collections.abc.Callable[["_InstanceSlot", BatchOutcome], None]
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
        queue: empty; owned by the scheduler.
        policy: how batches are formed.
        dispatcher: counts and responds.
        preserve_ordering: responses leave in the order in which batches were sent (row 12.9).
        hold: send nothing before this many requests have come (row 12.19).
        hosts: the instances; of several free ones the one that worked last is used, because its memory is warm.
        statistics: counts pending requests and closed batches.
        clock: gives the time.
        loop: the event loop in which every method is called.
    """

    def __init__(
        self,
        *,
        model: str,
        queue: InferenceQueue,
        policy: BatchingPolicy,
        dispatcher: ResponseDispatcher,
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
        self._dispatcher = dispatcher
        self._order = Reordering[BatchOutcome]() if preserve_ordering else None
        self._hold = hold
        self._hosts = tuple(hosts)
        self._statistics = statistics
        self._now = clock.monotonic_ns
        self._loop = loop
        self._slots = [_InstanceSlot(host, self._came_back) for host in reversed(self._hosts)]
        self._free = list(self._slots)
        self._usable = len(self._slots)
        for host in self._hosts:
            host.answers_to(self._on_deferred)
        self._deferred = set[Inference]()
        self._owned = 0
        self._scheduling = False
        self._scheduling_is_due = False
        self._enough_rows = 0
        self._gathered = 0
        self._gathering_until_ns = 0
        self._several_clients = False
        self._timer = Timer(loop=loop, clock=clock, callback=self._schedule)
        self._stopping = False
        self._drained = asyncio.Event()
        for slot in self._slots:
            slot.host.watch(functools.partial(self._usable_changed, slot))

    def enqueue(self, inference: Inference) -> None:
        """See `Scheduler`. A refused inference is not counted here: the error's `reason` says under which counter it belongs."""
        if self._stopping or not self._usable:
            raise self._shutting_down(inference) if self._stopping else self._no_instance()
        if inference.cancelled:
            raise InferenceError(ErrorCode.CANCELLED, "", reason=FailureReason.CANCELED)
        queue, now = self._queue, self._now()
        try:
            queue.push(inference, now)
        except InferenceError:
            # It may be full only because the last arrivals are not scheduled yet, or because a timer is late.
            self._schedule_now()
            queue.push(inference, now)
        inference.on_cancel = self._withdraw
        self._owned += 1
        self._statistics.pending += 1
        if self._hold:
            self._hold -= 1
        if self._scheduling_is_due or self._hold:
            return
        if self._free and queue.rows >= self._enough_rows:
            if self._policy.single:
                self._schedule_now()
            else:
                self._scheduling_is_due = True
                if self._several_clients:
                    self._gathered = 0
                    self._gathering_until_ns = now + GATHERING_NS
                    self._loop.call_soon(self._gather)
                else:
                    self._loop.call_soon(self._schedule_now)
        if inference.deadline_ns:
            self._timer.set(inference.deadline_ns, now, exact=False)

    def inflight(self) -> int:
        """See `Scheduler`."""
        return self._owned

    def occupancy(self) -> Occupancy:
        """See `Scheduler`."""
        order, slots = self._order, self._slots[::-1]
        due = [slot.batch for slot in slots if order is not None and slot.ticket == order.due]
        return Occupancy(
            [(slot.host.name, slot.batch) for slot in slots],
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
            self._schedule_now()
            self._check_drained()
        last = self._loop.time() + UNLOAD_LIMIT_S
        while not self._drained.is_set():
            unwanted = self._unwanted()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), UNLOAD_GRACE_S)
                break
            still = self._unwanted()
            if still and still <= unwanted:
                why = f"every client has gone for more than {UNLOAD_GRACE_S:g} s"
                self._abort(why, ErrorCode.CANCELLED, FailureReason.CANCELED)
            elif self._loop.time() >= last:
                why = f"they did not end in {UNLOAD_LIMIT_S:g} s"
                self._abort(why, ErrorCode.UNAVAILABLE, FailureReason.BACKEND)
        await asyncio.gather(*(host.close() for host in self._hosts))

    def _unwanted(self) -> set[Inference]:
        """The remaining inferences, if no client waits for any of them; else none."""
        left = self._deferred.union(*(slot.batch for slot in self._slots if slot.batch is not None))
        if self._owned != len(left) or not all(inference.cancelled for inference in left):
            return set()
        return left

    def _abort(self, why: str, code: ErrorCode, reason: FailureReason) -> None:
        """Fail the remaining inferences, which may never end: a stream that the model does not close, a batch that hangs."""
        _log.warning(
            "model '%s' is unloaded with %d requests unfinished: %s", self._model, self._owned, why
        )
        message = f"model '{self._model}' is unloaded with requests unfinished: {why}"
        error = InferenceError(code, message, reason=reason)
        for inference in self._queue.take(len(self._queue)):
            self._drop(inference, error)
        deferred, self._deferred = self._deferred, set[Inference]()
        self._owned -= len(deferred)
        for inference in deferred:
            self._dispatcher.fail(inference, error)
        for slot in self._slots:
            if slot.batch is not None:
                slot.host.abort(f"its model is unloaded with requests unfinished: {why}")
            if slot.batch is not None:  # a thread
                now = self._now()
                self._came_back(slot, BatchOutcome(slot.batch, None, error, now, now))
        self._check_drained()

    def _gather(self) -> None:
        """Schedule once an iteration of the loop brought no request, a batch is full, or it takes too long."""
        waiting = self._queue.rows
        if self._gathered < waiting < self._policy.max_rows and (
            self._now() < self._gathering_until_ns
        ):
            self._gathered = waiting
            self._loop.call_soon(self._gather)
        else:
            self._schedule_now()

    def _schedule_now(self) -> None:
        self._scheduling_is_due = False
        self._schedule(self._now())

    def _schedule(self, now: int) -> None:
        """Reject requests whose timeout is over, send the batches that can run, set the timer for the rest."""
        if self._hold or self._scheduling:
            return
        self._scheduling = True
        try:
            self._send_batches(now)
        finally:
            self._scheduling = False
        if due := self._queue.next_deadline():
            self._timer.set(due, now, exact=False)

    def _send_batches(self, now: int) -> None:
        queue, free = self._queue, self._free
        due = queue.next_deadline()
        if due and due <= now:
            for expired in queue.expire(now):
                self._reject_expired(expired, now)
        self._enough_rows = 0
        while free:
            decision = next_batch(queue, now, self._policy, draining=self._stopping)
            if decision is None:
                return
            if isinstance(decision, WaitUntil):
                self._enough_rows = decision.rows
                self._timer.set(decision.at_ns, now, exact=True)
                return
            self._statistics.record_close(decision.reason)
            self._send(free.pop(), queue.take(decision.count))

    def _send(self, slot: _InstanceSlot, batch: list[Inference]) -> None:
        self._statistics.pending -= len(batch)
        slot.batch = batch
        if self._order is not None:
            slot.ticket = self._order.sent()
        try:
            slot.host.submit(batch, slot.on_outcome)
        except Exception as failure:  # noqa: BLE001  whatever a host raises, no client may wait for ever
            message = f"model '{self._model}': its instance '{slot.host.name}' rejected the batch: {failure}"
            error = InferenceError(ErrorCode.INTERNAL, message, reason=FailureReason.BACKEND)
            now = self._now()
            self._loop.call_soon(slot.on_outcome, BatchOutcome(batch, None, error, now, now))

    def _came_back(self, slot: _InstanceSlot, outcome: BatchOutcome) -> None:
        if slot.batch is not outcome.batch:
            return  # it was aborted before
        ticket = slot.ticket
        slot.batch = None
        self._several_clients = len(outcome.batch) > 1 or bool(self._queue)
        if slot.usable:
            self._free.append(slot)
        if self._queue:
            self._schedule_now()
        if self._order is None:
            self._deliver(outcome)
        else:
            for due in self._order.came_back(ticket, outcome):
                self._deliver(due)

    def _usable_changed(self, slot: _InstanceSlot, usable: bool) -> None:  # noqa: FBT001  the signature of the callback
        """An instance cannot run batches any more, or can again. Without any, queued requests fail: a restart may take long, or for ever."""
        if slot.usable is usable:
            return
        slot.usable = usable
        if usable:
            self._usable += 1
            if slot.batch is None:
                self._free.append(slot)
            self._schedule_now()
            return
        self._usable -= 1
        if slot in self._free:
            self._free.remove(slot)
        if not self._usable:
            for inference in self._queue.take(len(self._queue)):
                self._drop(inference, self._no_instance())

    def _deliver(self, outcome: BatchOutcome) -> None:
        self._owned -= len(outcome.batch)
        execution = outcome.execution
        self._dispatcher.deliver(outcome)
        if execution is not None and None in execution.responses:
            deferred = [inference for inference in outcome.batch if not inference.settled]
            self._deferred.update(deferred)
            self._owned += len(deferred)
        self._check_drained()

    def _on_deferred(self, answer: Answer) -> None:
        """A deferred response came, perhaps before its batch."""
        inference = answer.inference
        if answer.response.final and inference in self._deferred:
            self._deferred.remove(inference)
            self._owned -= 1
        flow = inference.flow
        if flow is not None:
            flow.coming(answer.weight)
        self._dispatcher.respond(answer)
        if flow is not None:
            flow.arrived(answer.weight)
        self._check_drained()

    def _withdraw(self, inference: Inference) -> None:
        """The client has gone. In a batch the inference stays (a flag tells the model, row 12.16), in the queue it ends now."""
        if self._queue.remove(inference):
            self._drop(
                inference, InferenceError(ErrorCode.CANCELLED, "", reason=FailureReason.CANCELED)
            )

    def _reject_expired(self, inference: Inference, now: int) -> None:
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
        """End an inference that was removed from the queue."""
        self._owned -= 1
        self._statistics.pending -= 1
        self._dispatcher.fail(inference, error)
        self._check_drained()

    def _check_drained(self) -> None:
        if self._stopping and not self._owned:
            self._timer.cancel()
            self._drained.set()

    def _no_instance(self) -> InferenceError:
        return unavailable(
            f"model '{self._model}' has no running instance: its worker process ended and is being restarted. Send the request "
            "again later, or to another server.",
            reason=FailureReason.BACKEND,
        )

    def _shutting_down(self, inference: Inference) -> InferenceError:
        return unavailable(
            f"{inference.request.label}Server is stopping, scheduler for model has stopped accepting new inference "
            f"requests: model '{self._model}' is being shut down. Send it to another server, or again later."
        )
