"""Runs instances in a worker process: a crash fails only their own requests, and an unload returns all memory to the system.

A process has one instance, or several that share what the model has loaded. Each has a `ProcessHost`, a link of its own to the process and
a thread in it; the `supervisor` starts, restarts and ends the process. A batch is sent with one wake-up and its outcome comes back with one
(`link/link.py`); a second batch may lie there meanwhile (`Instance.prefetches`), which begins for the server with the outcome of the first.
When the process dies the batches of all its instances fail with UNAVAILABLE at once, those that have not begun too, and the scheduler sends no
more until a new one serves. The `Watchdog` kills a process that exceeds the time limit of a batch.
Requests with deferred responses are known by number, and fail with the process as well.
Every wait here ends: a batch with its outcome or the process's death, `ready` and `close` with a timeout.
"""

import asyncio
import collections.abc
import functools
import logging
from typing import Any

from naiad.backends.instance import Execution
from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.errors import InferenceError
from naiad.hosts.host import BatchOutcome, Limits, OnDeferred, OnOutcome, Probe
from naiad.hosts.link import kinds, link
from naiad.hosts.link.payload import Gathering
from naiad.hosts.packing import pack
from naiad.hosts.process import worker_life
from naiad.hosts.process.idle_segments import IdleSegments
from naiad.hosts.process.in_flight import InFlight
from naiad.hosts.process.output_log import Identity
from naiad.hosts.process.supervisor import WorkerSupervisor
from naiad.hosts.process.watchdogs import Heartbeat, Watchdog
from naiad.hosts.unpacking import ResponseReader
from naiad.log_text import Lines
from naiad.tensors.region_files import NO_DESCRIPTOR

_log = logging.getLogger(__name__)

COPIED_ASIDE = 1 << 22
"""Batches of more bytes are copied to the worker by a thread, not by the event loop, if pages of the segment may be new: each is a fault."""

COPIED_ASIDE_AGAIN = 1 << 23
"""The same where the segment was used before. A thread copies as much without giving up the interpreter lock, so that the loop would wait
all the same, and the batch for the thread: 150 µs, under load up to 10 ms."""

_COPIED_PER_NS = 8
"""Bytes that count as a nanosecond of a worker's work when it copies them from or to clients' shared memory: half as many as it copies, because they also drive what the event loop uses from the
cache of a processor that both use."""

_REQUESTS = frozenset((kinds.REQUEST, kinds.CALL))


class ProcessHost:
    """Implements `Host` and `WorkerInstance`.

    Args:
        identity: for the log and messages; the host has the instance's name.
        place: the instance's place in the process.
        supervisor: of the process.
        responses: reads the instance's messages.
        limits: time limits.
        clock: gives the times at which a batch began and ended.
        loop: the event loop in which every method is called.
        shares: whether tensors that came into shared memory are read there. Not for a model that may be given a request again (row 15.18), which it may have changed.
        places: whether the worker writes outputs to clients' shared memory. Not for a model whose outputs the server reads as well: for its response cache, or as states of sequences.
    """

    def __init__(
        self,
        identity: Identity,
        place: int,
        supervisor: WorkerSupervisor,
        *,
        responses: ResponseReader,
        limits: Limits,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        shares: bool = False,
        places: bool = False,
    ) -> None:
        self.name = identity.instance
        self._shares = shares
        self._places = places
        self._identity = identity
        self._place = place
        self._number = place << link.PLACE_SHIFT
        self._supervisor = supervisor
        self._responses = responses
        self._limits = limits
        self._now = clock.monotonic_ns
        self._loop = loop
        self._usable: collections.abc.Callable[[bool], None] = _ignore
        self._on_deferred: OnDeferred = _ignore
        self._in_flight = InFlight(self._number)
        self._on_outcome: OnOutcome = _ignore
        self._on_prefetched: OnOutcome = _ignore
        self._started_ns = self._gathered_ns = 0
        self._copying: list[Inference] | None = None
        self._gathering: Gathering | None = None
        self._unsent: tuple[list[Inference], int] | None = None
        self._watchdog = Watchdog(identity, loop=loop)
        self._heartbeat = Heartbeat(identity, limits.execute, number=self._number, loop=loop)
        self._probe = Probe(loop)
        self._segments = IdleSegments(loop, lambda: not (self.busy or self._copying))

    @property
    def pid(self) -> int:
        """The process's id; 0 while there is none."""
        return self._supervisor.pid

    def deferred_to(self, on_deferred: OnDeferred) -> None:
        """See `Host`."""
        self._on_deferred = on_deferred

    def watch(self, usable: collections.abc.Callable[[bool], None]) -> None:
        """See `Host`."""
        self._usable = usable

    @property
    def prefetches(self) -> bool:
        """See `Host`."""
        return self._supervisor.prefetches

    def submit(self, batch: list[Inference], on_outcome: OnOutcome) -> None:
        """See `Host`."""
        in_flight = self._in_flight
        first = in_flight.begin(batch)
        if batch is in_flight.prefetched:
            self._on_prefetched = on_outcome
            if self._copying is not None:  # it must not overtake that one
                self._unsent = batch, first
            else:
                self._send(batch, first)
            return
        self._on_outcome = on_outcome
        self._started_ns = self._now()
        if self._send(batch, first):
            self._gathered_ns = self._now()
            self._watch(batch)

    def _send(self, batch: list[Inference], first: int) -> bool:
        """Send a batch to the worker; returns False if that failed, so that the batch ends soon."""
        worker = self._supervisor.serving
        if worker is None:
            down = worker_life.is_down(self._identity, "is not running")
            self._loop.call_soon(self._end, batch, None, down)
            return False
        lent = worker.device_tensors
        mark = lent.mark
        try:
            data = worker.links[self._place]
            header, payload = pack(
                batch, lent, data if self._shares else None, data if self._places else None
            )
            if payload.size > COPIED_ASIDE and (
                payload.size > COPIED_ASIDE_AGAIN
                or not data.has_segment(payload.size + len(header))
            ):
                sent = functools.partial(self._sent, batch, mark, lent.mark)
                gathering = Gathering(self._now)
                worker.instances.send_aside(
                    self._place, kinds.BATCH, header, payload, first, gathering=gathering, done=sent
                )
                self._copying = batch
                if batch is self._in_flight.batch:
                    self._gathering = gathering
            else:
                worker.instances.send(self._place, kinds.BATCH, header, payload, first)
        except Exception as error:  # noqa: BLE001  no memory, or something that JSON does not have: only this batch fails
            lent.not_sent(mark, lent.mark)
            self._loop.call_soon(self._end, batch, None, self._not_handed_over(error))
            return False
        return True

    def _watch(self, batch: list[Inference]) -> None:
        """A batch is in execution: have its cancellations, its clients' pace and its time limit observed."""
        on_cancel = self._cancelled
        for inference in batch:
            inference.on_cancel = on_cancel
            if inference.flow is not None:
                inference.flow.watch(functools.partial(self._paused, inference))
        limit = self._limits.execute
        worker = self._supervisor.serving
        if limit.seconds and worker is not None:
            what = f"a batch of {len(batch)} requests"
            self._watchdog.watch(worker, what, limit, self._supervisor.late)

    def _sent(self, batch: list[Inference], mark: int, end: int, error: Exception | None) -> None:
        """A large batch was sent, or could not be sent; the marks are those of its tensors on GPUs."""
        self._copied(batch)
        if error is not None:
            if self._supervisor.worker is not None:
                self._supervisor.worker.device_tensors.not_sent(mark, end)
            self._end(batch, None, self._not_handed_over(error))
        elif batch is self._in_flight.batch:
            self._notify_cancelled(batch)

    def _copied(self, batch: list[Inference]) -> None:
        """A batch is no longer being copied: another may be sent."""
        if self._copying is batch:
            self._copying = None
            unsent, self._unsent = self._unsent, None
            if unsent is not None:
                self._send(*unsent)

    def _notify_cancelled(self, batch: list[Inference]) -> None:
        """A batch is in the worker, which perhaps got cancellations before it, or none."""
        for inference in batch:
            if inference.cancelled:
                self._cancelled(inference)

    def _not_handed_over(self, error: Exception) -> InferenceError:
        refusal = worker_life.not_handed_over(self._identity, error)
        trace = None if worker_life.is_shortage(error) else error
        _log.error("%s", Lines(refusal.message), exc_info=trace)
        return refusal

    def ready_now(self) -> bool | None:
        """See `Host`."""
        return False if self._supervisor.serving is None else None

    async def ready(self) -> bool:
        """See `Host`. Does not wait for a batch in execution; concurrent calls share one answer."""
        worker = self._supervisor.serving
        if worker is None:
            return False
        return await self._probe.ask(
            functools.partial(worker.notify, kinds.GET_READY, self._number)
        )

    def abort(self, why: str) -> None:
        """See `Host`. The batches of the other instances of the process fail as well."""
        worker = self._supervisor.worker
        if worker is not None and self.busy:
            how = f"was killed, because {why}"
            worker.dump_and_kill(how)
            self._supervisor.late(how)

    async def close(self) -> None:
        """See `Host`. The process ends with the last of its instances."""
        await self._supervisor.close_instance(self._place)

    async def close_late(self, why: str) -> None:
        """See `Host`. The other instances of the process end with it."""
        await self._supervisor.close_late(f"was killed, because {why}")

    @property
    def busy(self) -> bool:
        """See `WorkerInstance`."""
        return self._in_flight.batch is not None

    def worker_usable(self, usable: bool) -> None:  # noqa: FBT001  as schedulers call it
        """See `WorkerInstance`."""
        self._usable(usable)

    def worker_closes(self) -> None:
        """See `WorkerInstance`."""
        self._heartbeat.stop()
        self._segments.stop()

    def worker_lost(self, how: str) -> None:
        """See `WorkerInstance`."""
        self._heartbeat.stop()
        self._segments.stop()
        self._probe.answer(False)
        error = worker_life.is_down(self._identity, how)
        self._copying = self._unsent = None
        for batch in (self._in_flight.prefetched, self._in_flight.batch):
            if batch is not None:
                self._end(batch, None, error)
        for inference in self._in_flight.take_deferred():
            self._on_deferred(self._responses.failed(inference, error, self._now()))

    def batch_at(self, first: int, count: int) -> list[Inference] | None:
        """See `WorkerInstance`."""
        return self._in_flight.batch_at(first, count)

    def on_message(self, kind: int, header: bytes | bytearray) -> None:
        """See `WorkerInstance`."""
        if kind == kinds.OUTCOME and self._in_flight.batch is not None:
            self._on_outcome_message(header, self._in_flight.batch)
        else:
            self._supervisor.on_message(self._place, kind, header)

    def _on_outcome_message(self, header: bytes | bytearray, batch: list[Inference]) -> None:
        worker = self._supervisor.worker
        assert worker is not None
        data = worker.links[self._place]
        execution: Execution[InferResponse] | None = None
        error: InferenceError | None = None
        try:
            # First of all, because the next message says whether its segment is in use; no reference may stay in a frame.
            execution = self._responses.outcome(data.base, header, batch, worker.device_tensors)
            if None in execution.responses:
                self._in_flight.defer(execution)
                self._heartbeat.start(worker, self._in_flight.owes_deferred, self._supervisor.late)
        except InferenceError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001  an invalid message ends the worker only
            self._supervisor.refuse("outcome", failure)
            return
        if execution is not None:
            for response in execution.responses:
                failed = None if response is None else response.error
                if failed is not None and failed.message == NO_DESCRIPTOR:
                    data.lent.send_again()
                    break
        self._copied(batch)  # the outcome may come before `_sent` is called
        self._end(batch, execution, error)
        if data.has_large:
            self._segments.ran(data)
        if execution is not None:
            busy_ns = execution.output_start_ns - execution.input_end_ns
            if data.lent.copied:
                busy_ns += data.lent.copied // _COPIED_PER_NS
                data.lent.copied = 0
            worker.place.ran(busy_ns)

    def _end(
        self,
        batch: list[Inference],
        execution: Execution[InferResponse] | None,
        error: InferenceError | None,
    ) -> None:
        in_flight = self._in_flight
        now = self._now()
        input_end = now if execution is None else execution.input_end_ns
        if batch is in_flight.batch:
            started, on_outcome = self._started_ns, self._on_outcome
            if self._gathering is not None and self._gathering.ended_ns:
                started, self._gathered_ns = self._gathering.begun_ns, self._gathering.ended_ns
            # A prefetched batch began when the one before it had ended, which the loop noticed later.
            started = min(started, input_end)
            if not self._supervisor.gathers_inputs and self._gathered_ns:
                input_end = min(self._gathered_ns, input_end)
            self._gathering, self._gathered_ns = None, 0
            in_flight.end()
            self._watchdog.cancel()
            self._on_outcome, self._on_prefetched = self._on_prefetched, _ignore
            if in_flight.batch is not None:
                self._started_ns = now
                self._watch(in_flight.batch)
                self._notify_cancelled(in_flight.batch)
        elif batch is in_flight.prefetched:
            started, on_outcome = now, self._on_prefetched
            in_flight.prefetched = None
            self._on_prefetched = _ignore
        else:
            return
        on_outcome(BatchOutcome(batch, execution, error, started, now, input_end))
        self._supervisor.on_batch_end()

    def on_notification(self, kind: int, number: int, header: bytes | bytearray, base: Any) -> None:
        """See `WorkerInstance`."""
        if kind == kinds.RESPONSE:
            self._on_response(number, header, base)
        elif kind in _REQUESTS:
            self._supervisor.on_request(self._place, kind, number, header, base)
        elif kind == kinds.PONG:
            self._heartbeat.pong()
        elif kind == kinds.READY:
            self._probe.answer(bool(number))
        elif kind == kinds.WARMING:
            self._supervisor.loads.on_warming()
        elif kind == kinds.ENDS:
            self._supervisor.on_announced_end(header.decode(errors="replace"))

    def _on_response(self, number: int, header: bytes | bytearray, base: Any) -> None:
        inference = self._in_flight.waiting(number)
        if inference is None:
            return  # it has its final response: a sender was dropped, or a coroutine failed after that
        worker = self._supervisor.worker
        try:
            answer = self._responses.deferred(
                base, header, inference, None if worker is None else worker.device_tensors
            )
        except Exception as failure:  # noqa: BLE001  an invalid message ends the worker only
            self._supervisor.refuse("response", failure)
            return
        if answer.response.final:
            self._in_flight.answered(number)
        self._on_deferred(answer)

    def on_lost(self, lost: link.SegmentLostError) -> None:
        """See `WorkerInstance`."""
        _log.error("%s: a message of its worker process is lost: %s", self._identity, lost)
        error = worker_life.not_received(self._identity, lost)
        if lost.kind == kinds.OUTCOME and self._in_flight.batch is not None:
            self._end(self._in_flight.batch, None, error)
        elif lost.kind == kinds.RESPONSE:
            inference = self._in_flight.waiting(lost.number)
            if inference is not None:
                self._notify_about(kinds.CANCEL, inference)
                self._in_flight.answered(lost.number)
                self._on_deferred(self._responses.failed(inference, error, self._now()))
        else:
            self._supervisor.on_lost(self._place, lost, error)

    def _cancelled(self, inference: Inference) -> None:
        """Its client has gone: the model may ask."""
        self._notify_about(kinds.CANCEL, inference)

    def _paused(self, inference: Inference, paused: bool) -> None:  # noqa: FBT001  as flows call it
        """Its client does not read what is sent to it, or does again: the model waits as long."""
        self._notify_about(kinds.PAUSE if paused else kinds.RESUME, inference)

    def _notify_about(self, kind: int, inference: Inference) -> None:
        worker, number = self._supervisor.serving, self._in_flight.number_of(inference)
        if worker is not None and number is not None:
            worker.notify(kind, number)


def _ignore(what: object) -> None:
    """Until a scheduler sets its callback."""
