"""Runs an instance in a worker process: a crash fails only its own requests, and an unload returns all memory to the system.

A batch is sent with one wake-up and its outcome comes back with one (`worker/link.py`). When the worker dies its batch fails
with UNAVAILABLE at once, the scheduler stops sending batches, and a new worker is started, with growing delays if it dies again soon
(`restarter.py`). The `watchdog` kills a worker that exceeds its time limit for a batch or for the load.
Requests with deferred responses are known by number, and fail with the worker as well.
Every wait here ends: a batch with its outcome or the worker's death, `start` with the load, its failure or a death, `ready` and `close` with a timeout.
"""

import asyncio
import collections.abc
import enum
import functools
import logging

from naiad.backends.backend import WorkerPlan
from naiad.backends.instance import Execution
from naiad.config.model_config import ModelConfig
from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.core.response import InferResponse, failure
from naiad.errors import InferenceError
from naiad.hosts import worker_errors
from naiad.hosts.heartbeat import Heartbeat
from naiad.hosts.host import BatchOutcome, DeferredResponse, OnDeferred, OnOutcome
from naiad.hosts.in_flight import InFlight
from naiad.hosts.limits import Limits
from naiad.hosts.loading import Loading
from naiad.hosts.messages import ResponseReader, pack
from naiad.hosts.output_log import Identity
from naiad.hosts.probe import Probe
from naiad.hosts.request_signals import RequestSignals
from naiad.hosts.restarter import Restarter
from naiad.hosts.spawn import order
from naiad.hosts.watchdog import Watchdog
from naiad.hosts.worker import link
from naiad.hosts.worker_process import WorkerProcess
from naiad.hosts.worker_rpc import WorkerRpcHandler
from naiad.metrics.statistics import RestartReason

_log = logging.getLogger(__name__)

COPIED_ASIDE = 1 << 22
"""Batches of more bytes are copied to the worker by a thread, not by the event loop."""
FINALIZE_TIMEOUT_S = 30.0
"""How long a model may take to end before its process is killed."""


class _State(enum.Enum):
    """Of the host."""

    DOWN = "down"
    LOADING = "loading"
    UP = "up"
    CLOSED = "closed"


class ProcessHost:
    """Implements `Host`. `start` comes first.

    Args:
        identity: for the log and messages; the host has the instance's name.
        plan: what runs in the process.
        config: the model's.
        limits: time limits of a batch and of a load.
        on_restart: called with the reason each time a worker is restarted.
        rpc_handler: handles the requests of its model to the server.
        clock: gives the times at which a batch began and ended.
        loop: the event loop in which every method is called.

    Attributes:
        worker: the worker process; None while there is none.
    """

    def __init__(
        self,
        identity: Identity,
        plan: WorkerPlan,
        *,
        config: ModelConfig,
        limits: Limits,
        on_restart: collections.abc.Callable[[RestartReason], None],
        rpc_handler: WorkerRpcHandler,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.name = identity.instance
        self._identity = identity
        self._plan = plan
        self._responses = ResponseReader(config, identity.version)
        self._limits = limits
        self._on_restart = on_restart
        self._rpc_handler = rpc_handler
        self._now = clock.monotonic_ns
        self._loop = loop
        self._restarter = Restarter(
            identity,
            start=self.start,
            on_refused=lambda: on_restart(RestartReason.LOAD),
            on_served=lambda: self._usable(True),
            clock=clock,
            loop=loop,
        )
        self._state = _State.DOWN
        self._usable: collections.abc.Callable[[bool], None] = _ignore
        self._on_deferred: OnDeferred = _ignore
        self.worker: WorkerProcess | None = None
        self._loading: Loading | None = None
        self._in_flight = InFlight()
        self._signals = RequestSignals(self._in_flight, self._notify_if_up)
        self._on_outcome: OnOutcome | None = None
        self._started_ns = 0
        self._watchdog = Watchdog(identity, loop=loop)
        self._heartbeat = Heartbeat(identity, limits.execute, loop=loop)
        self._stuck = False
        self._probe = Probe(loop)
        self._idle: asyncio.Future[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The worker's process id; 0 while there is none."""
        return 0 if self.worker is None else self.worker.pid

    async def start(self) -> None:
        """Start a worker and have it load the model.

        Raises:
            InferenceError: it cannot be loaded, or the process did not get that far.
        """
        worker = WorkerProcess(
            self._identity,
            self._plan,
            loop=self._loop,
            on_message=self._on_message,
            on_notification=self._on_notification,
            on_lost=self._on_lost,
            on_end=self._on_end,
        )
        try:
            worker.start()
        except OSError as error:
            raise worker_errors.not_started(self._identity, error) from error
        self._state = _State.LOADING
        loading = self._loading = Loading(self._loop)
        self.worker = worker
        try:
            worker.send(link.LOAD, order(self._plan))
            if self._limits.load.seconds:
                self._watchdog.watch(worker, "its load", self._limits.load, _ignore)
            await loading.wait()
            if worker.ended.done():  # the loop was busy, and both came at once
                how = worker.ended.result()
                raise worker_errors.not_loaded(self._identity, how, worker.output_tail)  # noqa: TRY301 - as one that failed while it loaded
        except BaseException:
            self._state = _State.DOWN
            worker.kill("was no longer needed")
            await asyncio.shield(worker.ended)
            raise
        finally:
            self._loading = None
            self._watchdog.cancel()
        self._state = _State.UP
        self._restarter.on_serving()
        _log.debug("worker process %d serves %s", worker.pid, self._identity)

    def deferred_to(self, on_deferred: OnDeferred) -> None:
        """See `Host`."""
        self._on_deferred = on_deferred

    def watch(self, usable: collections.abc.Callable[[bool], None]) -> None:
        """See `Host`."""
        self._usable = usable

    def submit(self, batch: list[Inference], on_outcome: OnOutcome) -> None:
        """See `Host`."""
        first = self._in_flight.begin(batch)
        self._on_outcome = on_outcome
        self._started_ns = self._now()
        worker = self.worker
        if self._state is not _State.UP or worker is None:
            down = worker_errors.is_down(self._identity, "is not running")
            self._loop.call_soon(self._end, None, down)
            return
        try:
            header, payload = pack(batch)
            if payload.size > COPIED_ASIDE:
                sent = functools.partial(self._sent, batch)
                worker.send_aside(link.BATCH, header, payload, first, done=sent)
            else:
                worker.send(link.BATCH, header, payload, first)
        except Exception as error:  # noqa: BLE001  no memory, or something that JSON does not have: only this batch fails
            self._loop.call_soon(self._end, None, self._not_handed_over(error))
            return
        self._signals.watch(batch)
        limit = self._limits.execute
        if limit.seconds:
            what = f"a batch of {len(batch)} requests"
            self._watchdog.watch(worker, what, limit, self._on_stuck)

    def _sent(self, batch: list[Inference], error: Exception | None) -> None:
        """A large batch was sent, or could not be sent."""
        if self._in_flight.batch is not batch:
            return
        if error is not None:
            self._end(None, self._not_handed_over(error))
            return
        for inference in batch:
            if inference.cancelled:  # perhaps the worker got the cancellation before the batch
                self._signals.cancelled(inference)

    def _not_handed_over(self, error: Exception) -> InferenceError:
        refusal = worker_errors.not_handed_over(self._identity, error)
        trace = None if worker_errors.is_shortage(error) else error
        _log.error("%s", refusal.message, exc_info=trace)
        return refusal

    def ready_now(self) -> bool | None:
        """See `Host`."""
        return None if self._state is _State.UP and self.worker is not None else False

    async def ready(self) -> bool:
        """See `Host`. Does not wait for a batch in execution; concurrent calls share one answer."""
        worker = self.worker
        if self._state is not _State.UP or worker is None:
            return False
        ask = functools.partial(worker.notify, link.GET_READY)
        return await self._probe.ask(ask)

    def abort(self, why: str) -> None:
        """See `Host`."""
        if self.worker is not None and self._in_flight.batch is not None:
            how = f"was killed, because {why}"
            self.worker.dump_and_kill(how)
            self._on_stuck(how)

    async def close(self) -> None:
        """See `Host`."""
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._restarter.stop()
        if self._in_flight.batch is not None and self.worker is not None:
            self._idle = self._loop.create_future()
            await self._idle
        self._heartbeat.stop()
        was, self._state = self._state, _State.CLOSED
        if self.worker is not None:
            await self.worker.end(in_order=was is _State.UP, seconds=FINALIZE_TIMEOUT_S)

    def _on_message(self, kind: int, header: bytes | bytearray) -> None:
        if kind == link.OUTCOME and self._in_flight.batch is not None:
            self._on_outcome_message(header, self._in_flight.batch)
            return
        worker = self.worker
        assert worker is not None
        try:
            if self._loading is not None and self._loading.take(kind, header):
                return
        except Exception as failure:  # noqa: BLE001  an invalid message ends the worker only
            worker.kill(f"refused its model with an invalid message ({failure!r})")
            return
        if not self._stuck:
            worker.kill(f"sent an unexpected message of kind {kind}")

    def _on_outcome_message(self, header: bytes | bytearray, batch: list[Inference]) -> None:
        worker = self.worker
        assert worker is not None
        execution: Execution[InferResponse] | None = None
        error: InferenceError | None = None
        try:
            execution = self._responses.outcome(worker.link.base, header, batch)
            if None in execution.responses:
                self._in_flight.defer(execution)
                self._heartbeat.start(worker, self._in_flight.owes_deferred, self._on_stuck)
        except InferenceError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001  an invalid message ends the worker only
            _log.exception("%s: the worker sent an invalid outcome", self._identity)
            worker.kill(f"sent an invalid outcome ({failure})")
            return
        self._end(execution, error)
        if execution is not None:
            worker.place.ran(execution.output_start_ns - execution.input_end_ns, len(batch))

    def _end(
        self, execution: Execution[InferResponse] | None, error: InferenceError | None
    ) -> None:
        batch, on_outcome = self._in_flight.batch, self._on_outcome
        if batch is None or on_outcome is None:
            return
        self._in_flight.end()
        self._on_outcome = None
        self._watchdog.cancel()
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        on_outcome(BatchOutcome(batch, execution, error, self._started_ns, self._now()))

    def _on_notification(self, kind: int, number: int, header: bytes | bytearray) -> None:
        if kind == link.RESPONSE:
            self._on_response(number, header)
        elif kind == link.REQUEST:
            self._on_request(number, header)
        elif kind == link.PONG:
            self._heartbeat.pong()
        elif kind == link.READY:
            self._probe.answer(bool(number))

    def _on_request(self, number: int, header: bytes | bytearray) -> None:
        worker = self.worker
        assert worker is not None
        try:
            self._rpc_handler.handle(
                number,
                header,
                worker.link.notification,
                batch_at=self._in_flight.batch_at,
                reply=worker.notify,
            )
        except Exception as failure:  # noqa: BLE001  an invalid request ends the worker only
            _log.exception("%s: the worker sent an invalid request", self._identity)
            worker.kill(f"sent an invalid request ({failure})")

    def _on_response(self, number: int, header: bytes | bytearray) -> None:
        worker = self.worker
        inference = self._in_flight.waiting(number)
        if inference is None:
            return  # it has its final response: a sender was dropped, or a coroutine failed after that
        assert worker is not None
        try:
            answer = self._responses.deferred(worker.link.notification, header, inference)
        except Exception as failure:  # noqa: BLE001  an invalid message ends the worker only
            _log.exception("%s: the worker sent an invalid response", self._identity)
            worker.kill(f"sent an invalid response ({failure})")
            return
        if answer.response.final:
            self._in_flight.answered(number)
        self._on_deferred(answer)

    def _on_lost(self, lost: link.SegmentLostError) -> None:
        """A message came without its tensors: only the request, batch, load or call that it belongs to fails."""
        _log.error("%s: a message of its worker process is lost: %s", self._identity, lost)
        worker = self.worker
        assert worker is not None
        error = worker_errors.not_received(self._identity, lost)
        if lost.kind == link.OUTCOME:
            self._end(None, error)
        elif lost.kind == link.RESPONSE:
            inference = self._in_flight.waiting(lost.number)
            if inference is not None:
                self._in_flight.answered(lost.number)
                worker.notify(link.CANCEL, lost.number)
                self._on_deferred(self._failure(inference, error))
        elif lost.kind == link.REQUEST:
            worker.notify(link.ERROR, lost.number, error.message.encode())
        elif self._loading is not None:
            self._loading.fail(error)

    def _notify_if_up(self, kind: int, number: int) -> None:
        if self.worker is not None and self._state is _State.UP:
            self.worker.notify(kind, number)

    def _on_stuck(self, how: str) -> None:
        self._stuck = True
        self._go_down(how)

    def _go_down(self, how: str) -> None:
        """The worker no longer serves: end every wait for it."""
        if self._state is _State.UP:
            self._state = _State.DOWN
            self._usable(False)
        self._heartbeat.stop()
        self._probe.answer(False)
        error = worker_errors.is_down(self._identity, how)
        self._end(None, error)
        for inference in self._in_flight.take_deferred():
            self._on_deferred(self._failure(inference, error))

    def _failure(self, inference: Inference, error: InferenceError) -> DeferredResponse:
        return DeferredResponse(
            inference,
            failure(inference.request, error, version=self._identity.version),
            self._now(),
        )

    def _on_end(self, how: str) -> None:
        worker, self.worker = self.worker, None
        assert worker is not None
        self._rpc_handler.worker_exited()
        stuck, self._stuck = self._stuck, False
        if self._state is _State.CLOSED:
            return
        if self._loading is not None:
            self._loading.fail(worker_errors.not_loaded(self._identity, how, worker.output_tail))
            return
        if self._state is _State.DOWN and not stuck:
            return
        _log.error("worker process %d of %s %s: it is restarted", worker.pid, self._identity, how)
        self._on_restart(RestartReason.TIMEOUT if stuck else RestartReason.DIED)
        if self._closing is None:
            self._restarter.restart()
        self._go_down(how)


def _ignore(what: object) -> None:
    """Until a scheduler sets its callback."""
