"""Runs an instance in a worker process: a crash fails only its own requests, and an unload returns all memory to the system.

A batch is sent with one wake-up and its outcome comes back with one (`worker/link.py`). When the worker dies its batch fails
with UNAVAILABLE at once, the scheduler stops sending batches, and a new worker is started, with growing delays if it dies again soon
(`restarter.py`). The `watchdog` kills a worker that exceeds its time limit for a batch or for the load.
Requests with deferred responses are known by number, and fail with the worker as well.
Every wait here ends: a batch with its outcome or the worker's death, `start` with the load, its failure or a death, `ready` and `close` with a timeout.
"""

import asyncio
import collections.abc
import functools
import logging

from naiad.backends.backend import WorkerPlan
from naiad.backends.instance import Execution
from naiad.config.model_config import ModelConfig
from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.errors import InferenceError
from naiad.hosts import worker_life
from naiad.hosts.host import BatchOutcome, Limits, OnDeferred, OnOutcome, Probe, WorkerRpcHandler
from naiad.hosts.in_flight import InFlight, RequestSignals
from naiad.hosts.messages import ResponseReader, pack
from naiad.hosts.output_log import Identity
from naiad.hosts.spawn import order
from naiad.hosts.supervision import Heartbeat, Loading, Restarter, Watchdog
from naiad.hosts.worker import link
from naiad.hosts.worker_life import Action, Event, State
from naiad.hosts.worker_process import WorkerProcess
from naiad.metrics.statistics import RestartReason

_log = logging.getLogger(__name__)

COPIED_ASIDE = 1 << 22
"""Batches of more bytes are copied to the worker by a thread, not by the event loop."""
FINALIZE_TIMEOUT_S = 30.0
"""How long a model may take to end before its process is killed."""

Ran = Execution[InferResponse]
_READY_STATES = frozenset((State.SERVING, State.DRAINING))


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
        self._state = State.DOWN
        self._usable: collections.abc.Callable[[bool], None] = _ignore
        self._on_deferred: OnDeferred = _ignore
        self.worker: WorkerProcess | None = None
        self._loading = Loading(loop)
        self._in_flight = InFlight()
        self._signals = RequestSignals(self._in_flight, self._notify_if_up)
        self._on_outcome: OnOutcome | None = None
        self._started_ns = 0
        self._watchdog = Watchdog(identity, loop=loop)
        self._heartbeat = Heartbeat(identity, limits.execute, loop=loop)
        self._probe = Probe(loop)
        self._drained = asyncio.Event()
        self._late = functools.partial(self._fire, Event.LATE)
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
            raise worker_life.not_started(self._identity, error) from error
        self.worker = worker
        self._fire(Event.START)
        self._loading = Loading(self._loop)
        try:
            worker.send(link.LOAD, order(self._plan))
            if self._limits.load.seconds:
                self._watchdog.watch(worker, "its load", self._limits.load, _ignore)
            await self._loading.ended
            if self._state is not State.LOADING:  # the loop was busy, and both came at once
                how = worker.ended.result() if worker.ended.done() else "was no longer needed"
                raise worker_life.not_loaded(self._identity, how, worker.output_tail)  # noqa: TRY301 - as one that failed while it loaded
        except BaseException:
            self._fire(Event.LOAD_FAILED)
            await asyncio.shield(worker.ended)
            raise
        finally:
            self._watchdog.cancel()
        self._fire(Event.LOADED)
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
        if self._state not in _READY_STATES or worker is None:
            down = worker_life.is_down(self._identity, "is not running")
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
            self._watchdog.watch(worker, what, limit, self._late)

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
        refusal = worker_life.not_handed_over(self._identity, error)
        trace = None if worker_life.is_shortage(error) else error
        _log.error("%s", refusal.message, exc_info=trace)
        return refusal

    def ready_now(self) -> bool | None:
        """See `Host`."""
        return None if self._state in _READY_STATES else False

    async def ready(self) -> bool:
        """See `Host`. Does not wait for a batch in execution; concurrent calls share one answer."""
        if self.worker is None or self._state not in _READY_STATES:
            return False
        return await self._probe.ask(functools.partial(self.worker.notify, link.GET_READY))

    def abort(self, why: str) -> None:
        """See `Host`."""
        if self.worker is not None and self._in_flight.batch is not None:
            how = f"was killed, because {why}"
            self.worker.dump_and_kill(how)
            self._late(how)

    async def close(self) -> None:
        """See `Host`."""
        if self._closing is None:
            self._restarter.cancel()
            self._fire(Event.CLOSE)
            self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._restarter.wait()
        if self._state is State.DRAINING and self._in_flight.batch is None:
            self._fire(Event.IDLE)
        if self._state is State.DRAINING:
            await self._drained.wait()
        self._heartbeat.stop()
        if self.worker is not None:
            in_order = self._state is State.ENDING
            await self.worker.end(in_order=in_order, seconds=FINALIZE_TIMEOUT_S)

    def _on_message(self, kind: int, header: bytes | bytearray) -> None:
        if kind == link.OUTCOME and self._in_flight.batch is not None:
            self._on_outcome_message(header, self._in_flight.batch)
            return
        worker = self.worker
        assert worker is not None
        try:
            if self._loading.take(kind, header):
                return
        except Exception as failure:  # noqa: BLE001  an invalid message ends the worker only
            worker.kill(f"refused its model with an invalid message ({failure!r})")
            return
        if self._state not in (State.STUCK, State.KILLING):
            worker.kill(f"sent an unexpected message of kind {kind}")

    def _on_outcome_message(self, header: bytes | bytearray, batch: list[Inference]) -> None:
        worker = self.worker
        assert worker is not None
        execution: Ran | None = None
        error: InferenceError | None = None
        try:
            execution = self._responses.outcome(worker.link.base, header, batch)
            if None in execution.responses:
                self._in_flight.defer(execution)
                self._heartbeat.start(worker, self._in_flight.owes_deferred, self._late)
        except InferenceError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001  an invalid message ends the worker only
            self._refuse("outcome", failure)
            return
        self._end(execution, error)
        if execution is not None:
            worker.place.ran(execution.output_start_ns - execution.input_end_ns, len(batch))

    def _end(self, execution: Ran | None, error: InferenceError | None) -> None:
        batch, on_outcome = self._in_flight.batch, self._on_outcome
        if batch is None or on_outcome is None:
            return
        self._in_flight.end()
        self._on_outcome = None
        self._watchdog.cancel()
        on_outcome(BatchOutcome(batch, execution, error, self._started_ns, self._now()))
        if self._state is State.DRAINING:
            self._fire(Event.IDLE)

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
            self._refuse("request", failure)

    def _on_response(self, number: int, header: bytes | bytearray) -> None:
        worker = self.worker
        inference = self._in_flight.waiting(number)
        if inference is None:
            return  # it has its final response: a sender was dropped, or a coroutine failed after that
        assert worker is not None
        try:
            answer = self._responses.deferred(worker.link.notification, header, inference)
        except Exception as failure:  # noqa: BLE001  an invalid message ends the worker only
            self._refuse("response", failure)
            return
        if answer.response.final:
            self._in_flight.answered(number)
        self._on_deferred(answer)

    def _refuse(self, what: str, failure: Exception) -> None:
        """A message is invalid: kill the worker."""
        _log.error("%s: the worker sent an invalid %s", self._identity, what, exc_info=failure)
        assert self.worker is not None
        self.worker.kill(f"sent an invalid {what} ({failure})")

    def _on_lost(self, lost: link.SegmentLostError) -> None:
        """A message came without its tensors: only the request, batch, load or call that it belongs to fails."""
        _log.error("%s: a message of its worker process is lost: %s", self._identity, lost)
        worker = self.worker
        assert worker is not None
        error = worker_life.not_received(self._identity, lost)
        if lost.kind == link.OUTCOME:
            self._end(None, error)
        elif lost.kind == link.RESPONSE:
            inference = self._in_flight.waiting(lost.number)
            if inference is not None:
                self._in_flight.answered(lost.number)
                worker.notify(link.CANCEL, lost.number)
                self._on_deferred(self._responses.failed(inference, error, self._now()))
        elif lost.kind == link.REQUEST:
            worker.notify(link.ERROR, lost.number, error.message.encode())
        else:
            self._loading.fail(error)

    def _notify_if_up(self, kind: int, number: int) -> None:
        if self.worker is not None and self._state in _READY_STATES:
            self.worker.notify(kind, number)

    def _fire(self, event: Event, how: str = "") -> None:
        """Change the state by the table and do what it says; `how` the worker ended follows "its worker process "."""
        worker = self.worker
        was_draining = self._state is State.DRAINING
        self._state, actions = worker_life.after(self._state, event)
        if was_draining:
            self._drained.set()
        if event is Event.EXITED:
            self.worker = None
        for action in actions:
            self._do(action, worker, how)

    def _do(self, action: Action, worker: WorkerProcess | None, how: str) -> None:
        assert worker is not None, "actions are those of a worker"
        match action:
            case Action.SERVE:
                self._restarter.on_serving()
            case Action.FAIL_LOAD:
                self._loading.fail(worker_life.not_loaded(self._identity, how, worker.output_tail))
            case Action.FAIL_REQUESTS:
                self._fail_requests(how)
            case Action.COUNT_DEATH | Action.COUNT_TIMEOUT:
                _log.error(
                    "worker process %d of %s %s: it is restarted", worker.pid, self._identity, how
                )
                died = action is Action.COUNT_DEATH
                self._on_restart(RestartReason.DIED if died else RestartReason.TIMEOUT)
            case Action.RESTART:
                self._restarter.restart()
            case Action.KILL:
                worker.kill("was no longer needed")

    def _fail_requests(self, how: str) -> None:
        """The worker no longer serves: end every wait for it."""
        self._usable(False)
        self._heartbeat.stop()
        self._probe.answer(False)
        error = worker_life.is_down(self._identity, how)
        self._end(None, error)
        for inference in self._in_flight.take_deferred():
            self._on_deferred(self._responses.failed(inference, error, self._now()))

    def _on_end(self, how: str) -> None:
        self._rpc_handler.worker_exited()
        self._fire(Event.EXITED, how)


def _ignore(what: object) -> None:
    """Until a scheduler sets its callback."""
