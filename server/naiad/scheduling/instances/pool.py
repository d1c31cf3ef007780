"""The instances of a model version: which of them are free, what the others execute, and which inferences have no final response yet.

A scheduler decides which requests run together and when; it acquires an instance here and sends the batch to it. An instance is free,
busy (it executes a batch), waiting (it is idle, and its resources are used by others) or unusable (its worker is being restarted). When a
batch comes back its instance is free at once, and gets the next batch before the responses are sent: it works while the loop writes.

The only instance of a model may have a second batch handed over while it executes one (`Instance.prefetches`), which begins as soon as that one
has ended. Of several instances none gets one: whichever is free first takes the batch, so it does not wait for a busy one while another is free, and
while one executes, the batch of another is handed over anyway.

Ownership: an inference that is sent belongs to the pool until its final response: it is in exactly one batch, in a batch that waits for
an earlier one (`preserve_ordering`), or deferred (its batch came back before its responses). One that the scheduler completes before its prefetched
batch begins, because its client has gone or its timeout is over, belongs to it until that batch has come back.

Instances come and go while the model serves (row 7.24). One that is removed gets no more batches, and is closed once it owes no response.
"""

import asyncio
import collections.abc
import functools
import logging

from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts.host import BatchOutcome, DeferredResponse, HostedInstance, InProcess
from naiad.scheduling.instances.resources import Resources
from naiad.scheduling.instances.slot import InstanceSlot, deferred_of
from naiad.scheduling.instances.speeds import Speeds
from naiad.scheduling.ordering import Reordering
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from naiad.scheduling.speed.times import BatchTimes

_log = logging.getLogger(__name__)

OnFree = collections.abc.Callable[[BatchOutcome | None], None]


class InstancePool:
    """The instances of one model version.

    Args:
        model: the model's name, for messages.
        instances: those at first.
        resources: what the instances share with those of other models.
        dispatcher: counts and responds.
        preserve_ordering: responses leave in the order in which batches were sent (row 12.9).
        clock: gives the time.
        loop: the event loop in which every method is called.

    Attributes:
        free: the instances that `acquire` may return, the one that was freed last at the end. Read only.
        usable: how many instances can run batches, whether free or not.
        inflight: how many inferences it owns.
        prefetcher: the only instance, if it may have two batches; else None.
        speeds: how fast the instances are.
        last_used: the instance whose batch came back last, whose memory is warm; None at first.
        on_completed: called when it owns fewer inferences than before; set by a scheduler that waits for that, None otherwise.
    """

    __slots__ = (
        "_clock", "_closing", "_deferred", "_dispatcher", "_loop", "_model", "_on_begun", "_on_free", "_on_lost", "_order", "_resources",
        "_slots", "_times", "_waiting", "free", "inflight", "last_used", "on_completed", "prefetcher", "speeds",
        "usable",
    )  # fmt: skip

    def __init__(
        self,
        *,
        model: str,
        instances: collections.abc.Sequence[HostedInstance],
        resources: Resources,
        dispatcher: ResponseDispatcher,
        preserve_ordering: bool,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._model = model
        self._resources = resources
        self._dispatcher = dispatcher
        self._order = Reordering[BatchOutcome]() if preserve_ordering else None
        self._clock = clock
        self._loop = loop
        self._times: dict[tuple[str, str], BatchTimes] = {}
        self._slots = [self._slot(instance) for instance in instances]
        self.free = self._slots[::-1]
        self.usable = len(self._slots)
        self.inflight = 0
        self.last_used: InstanceSlot | None = None
        self.on_completed: collections.abc.Callable[[], None] | None = None
        self._waiting = set[InstanceSlot]()
        self._deferred = set[Inference]()
        self._closing = set[asyncio.Task[None]]()
        self.prefetcher = self._prefetcher()
        self.speeds = Speeds(self._slots, self.free)

    def open(
        self,
        *,
        on_free: OnFree,
        on_begun: collections.abc.Callable[[list[Inference]], None],
        on_lost: collections.abc.Callable[[], None],
    ) -> None:
        """Set the scheduler's callbacks; called once, before anything else.

        Args:
            on_free: an instance is free: its batch came back (the outcome, whose responses are not sent yet), it is usable again, or its
                resources may be available (None). Or it may be given a batch in advance, because the one that it had begins.
            on_begun: a prefetched batch no longer waits: it begins, or has failed.
            on_lost: the last usable instance is lost, or removed: queued requests would wait for a restart, which may take for ever.
        """
        self._on_free = on_free
        self._on_begun = on_begun
        self._on_lost = on_lost
        for slot in self._slots:
            self._watch(slot)

    def resize(
        self,
        added: collections.abc.Iterable[HostedInstance],
        removed: collections.abc.Iterable[HostedInstance],
    ) -> None:
        """Add instances, and remove others: these finish what they have, and are closed (row 7.24). After `open`."""
        for instance in added:
            slot = self._slot(instance)
            self._slots.append(slot)
            self.free.insert(0, slot)
            self.usable += 1
            self._watch(slot)
        hosts = {instance.host for instance in removed}
        for slot in [slot for slot in self._slots if slot.host in hosts]:
            slot.removed = True
            if slot.usable:
                self.usable -= 1
            self._take_out(slot)
            self._close_if_idle(slot)
        self.prefetcher = self._prefetcher()
        self.speeds.update()
        if self.usable:
            self._on_free(None)
        else:
            self._on_lost()

    def acquire(self, preferred: InstanceSlot | None) -> InstanceSlot | None:
        """Take a free instance, with its resources, to send it a batch.

        Args:
            preferred: the instance to take if it is free; otherwise the one that was freed last.

        Returns:
            None if no instance is free, or none can have its resources: these wait, and `on_free` is called later.
        """
        free = self.free
        if preferred is not None and free and free[-1] is not preferred and preferred in free:
            free.remove(preferred)
            free.append(preferred)
        while free:
            slot = free.pop()
            if not slot.limited or self._resources.acquire(slot):
                return slot
            self._waiting.add(slot)
        return None

    def send(self, slot: InstanceSlot, batch: list[Inference], now: int = 0) -> None:
        """Execute a batch on an instance that was acquired, or after the one that the `prefetcher` executes.

        Whatever fails, each inference gets its final response.

        Args:
            slot: the instance.
            batch: its requests.
            now: monotonic nanoseconds; 0 if no estimate needs it.
        """
        self.inflight += len(batch)
        ticket = 0 if self._order is None else self._order.sent()
        if slot.batch is None:
            slot.batch, slot.ticket, slot.began_ns = batch, ticket, now
        else:
            slot.prefetched, slot.prefetched_ticket = batch, ticket
        try:
            slot.host.submit(batch, slot.on_outcome)
        except Exception as failure:  # noqa: BLE001  whatever a host raises, no client may wait for ever
            message = (
                f"model '{self._model}': its instance '{slot.name}' rejected the batch: {failure}"
            )
            error = InferenceError(ErrorCode.INTERNAL, message, reason=FailureReason.BACKEND)
            self._loop.call_soon(slot.on_outcome, self._failed(batch, error))

    def may_prefetch(self) -> bool:
        """Whether the only instance is busy and may be given a batch in advance."""
        slot = self.prefetcher
        return (
            slot is not None and slot.prefetched is None and slot.batch is not None and slot.usable
        )

    def prefetched(self) -> list[list[Inference]]:
        """The batches that wait in instances; of several only while instances are added and removed."""
        return [slot.prefetched for slot in self._slots if slot.prefetched is not None]

    def _prefetcher(self) -> InstanceSlot | None:
        slots = [slot for slot in self._slots if not slot.removed]
        only = slots[0] if len(slots) == 1 and not slots[0].limited else None
        return only if only is not None and only.host.prefetches else None

    def came_back(self, slot: InstanceSlot, outcome: BatchOutcome) -> None:
        """A batch came back: free its instance, or have it begin the prefetched batch, then respond."""
        batch, prefetched, ticket = outcome.batch, slot.prefetched, slot.ticket
        if batch is slot.batch:
            slot.batch, slot.ticket = prefetched, slot.prefetched_ticket
        elif batch is prefetched:
            ticket = slot.prefetched_ticket
        else:
            return  # it was aborted before
        execution = outcome.execution
        if execution is not None:
            slot.ran(outcome, execution)
        if slot.limited:
            self._resources.release(slot)
        if prefetched is not None:
            slot.prefetched = None
            slot.began_ns = outcome.compute_end_ns
            self._on_begun(prefetched)
        elif slot.removed:
            self._close_if_idle(slot)
        else:
            self.last_used = slot
            if slot.usable:
                self.free.append(slot)
        self._on_free(outcome)
        if slot.limited:
            self._resources.offer()
        if self._order is None:
            self._deliver(outcome)
        else:
            self._deliver_in_order(self._order.came_back(ticket, outcome))

    def retry(self, slot: InstanceSlot) -> None:
        """The resources of an instance that waits may be available."""
        if slot in self._waiting:
            self._waiting.remove(slot)
            self.free.append(slot)
            self._on_free(None)

    def executions(self) -> list[tuple[str, list[Inference] | None]]:
        """The name and the batch of each instance; None for one without a batch. One that waits for resources has the batches of those that have them."""
        found: list[tuple[str, list[Inference] | None]] = []
        for slot in self._slots:
            holders = self._resources.holders(slot) if slot in self._waiting else ()
            found += [(each.spec.name, each.batch) for each in holders or (slot,)]
        return found

    def kept(self) -> list[tuple[list[Inference], list[Inference]]]:
        """The batches that came back and wait for another one, each with that one."""
        order = self._order
        if order is None:
            return []
        return [
            (outcome.batch, slot.batch)
            for slot in self._slots
            if slot.batch is not None and slot.ticket == order.due
            for outcome in order.early()
        ]

    def ready_now(self) -> bool | None:
        """The result of `ready` if it is known without a call to an instance; None: call `ready`."""
        known = [slot.host.ready_now() for slot in self._slots if not slot.removed]
        if False in known:
            return False
        return None if None in known else True

    async def ready(self) -> bool:
        """Whether every instance could run a batch now (rows 2.7, 2.12)."""
        known = self.ready_now()
        if known is not None:
            return known
        unknown = [
            slot.host for slot in self._slots if not slot.removed and slot.host.ready_now() is None
        ]
        return all(await asyncio.gather(*(host.ready() for host in unknown)))

    def abandoned(self) -> set[Inference]:
        """All inferences it owns, if no client waits for any of them; else none."""
        batches = [slot.batch for slot in self._slots if slot.batch is not None]
        left = self._deferred.union(*batches, *self.prefetched())
        if self.inflight != len(left) or not all(
            inference.cancelled or inference.completed for inference in left
        ):
            return set()
        return left

    def abort(self, why: str, error: InferenceError) -> None:
        """Fail all inferences it owns, which may never end: a stream that the model does not close, a batch that hangs.

        Args:
            why: for the hosts, see `Host.abort`.
            error: the response.
        """
        deferred, self._deferred = self._deferred, set[Inference]()
        self.inflight -= len(deferred)
        for inference in deferred:
            self._dispatcher.fail(inference, error)
        for slot in tuple(
            self._slots
        ):  # one that was removed leaves them when its batch comes back
            if slot.prefetched is not None:
                self.came_back(slot, self._failed(slot.prefetched, error))
            if slot.batch is not None:
                slot.host.abort(why)
            if slot.batch is not None:  # a thread
                self.came_back(slot, self._failed(slot.batch, error))
        if self.on_completed is not None:
            self.on_completed()

    async def close(self) -> None:
        """Close the hosts. Call it when it owns no inference. Idempotent."""
        self._waiting.clear()
        for slot in self._slots:
            if slot.limited:
                self._resources.withdraw(slot)
        await asyncio.gather(*(slot.host.close() for slot in self._slots), *self._closing)

    def _slot(self, instance: HostedInstance) -> InstanceSlot:
        limited = self._resources.limits(instance.spec)
        spec = instance.spec
        group = spec.name.rpartition("_")[0], str(spec.kind)
        times = self._times.setdefault(group, BatchTimes())
        return InstanceSlot(
            instance, limited=limited, times=times, came_back=self.came_back, retry=self.retry
        )

    def _watch(self, slot: InstanceSlot) -> None:
        slot.host.deferred_to(functools.partial(self._on_deferred, slot))
        slot.host.watch(functools.partial(self._usable_changed, slot))
        if isinstance(slot.host, InProcess) and slot.host.ready_now() is False:
            self._usable_changed(slot, usable=False)  # its worker has ended while others loaded

    def _take_out(self, slot: InstanceSlot) -> None:
        """Take an instance out of those that may get a batch."""
        if slot in self._waiting:
            self._waiting.remove(slot)
            self._resources.withdraw(slot)
        elif slot in self.free:
            self.free.remove(slot)

    def _close_if_idle(self, slot: InstanceSlot) -> None:
        """Close an instance that was removed, once it owes no response."""
        if slot.batch is not None or slot.deferred or slot not in self._slots:
            return
        self._slots.remove(slot)
        if slot.limited:
            self._resources.withdraw(slot)
        if self.last_used is slot:
            self.last_used = None
        closing = self._loop.create_task(self._close_removed(slot))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _close_removed(self, slot: InstanceSlot) -> None:
        try:
            await slot.host.close()
        except Exception:  # noqa: BLE001  whatever a host raises, the others serve on
            _log.exception("closing instance '%s', which was removed, failed", slot.name)

    def _usable_changed(self, slot: InstanceSlot, usable: bool) -> None:  # noqa: FBT001  the signature of the callback
        """An instance cannot run batches any more, or can again."""
        if slot.usable is usable or slot.removed:
            return
        slot.usable = usable
        if usable:
            self.usable += 1
            if slot.batch is None:
                self.free.append(slot)
            self._on_free(None)
            return
        self.usable -= 1
        self._take_out(slot)
        if not self.usable:
            self._on_lost()

    def _deliver_in_order(self, due: collections.abc.Iterable[BatchOutcome]) -> None:
        for outcome in due:
            self._deliver(outcome)

    def _deliver(self, outcome: BatchOutcome) -> None:
        self.inflight -= len(outcome.batch)
        execution = outcome.execution
        self._dispatcher.deliver(outcome)
        if execution is not None and None in execution.responses:
            deferred = deferred_of(outcome)
            self._deferred.update(deferred)
            self.inflight += len(deferred)
        if self.on_completed is not None:
            self.on_completed()

    def _on_deferred(self, slot: InstanceSlot, deferred: DeferredResponse) -> None:
        """A deferred response came, perhaps before its batch."""
        inference = deferred.inference
        if deferred.response.final:
            slot.deferred.discard(inference)
            if slot.removed:
                self._close_if_idle(slot)
            if inference in self._deferred:
                self._deferred.remove(inference)
                self.inflight -= 1
        flow = inference.flow
        if flow is not None:
            flow.coming(deferred.weight)
        self._dispatcher.respond(deferred)
        if flow is not None:
            flow.arrived(deferred.weight)
        if self.on_completed is not None:
            self.on_completed()

    def _failed(self, batch: list[Inference], error: InferenceError) -> BatchOutcome:
        now = self._clock.monotonic_ns()
        return BatchOutcome(batch, None, error, now, now, now)
