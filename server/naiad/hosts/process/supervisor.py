"""The life of a worker process: starts it, has it load its instances, restarts it when it has died, ends it.

The states are those of `worker_life`, whose actions are carried out here, the loads are in `loads.py`. What belongs to one instance (its batch, its deferred
responses) is with its `ProcessHost`; what happens to the process happens to all of its instances. Instances come and go while it serves, each at a
place of its own; a process that takes the place of another loads those that there are then.
Every wait here ends: `start` and `add` with the load, its failure or a death, `close` and `close_instance` with a timeout.
"""

import asyncio
import collections.abc
import contextlib
import functools
import logging
from typing import Any

import msgspec

from naiad import logs
from naiad.backends.backend import WorkerPlan
from naiad.backends.instance import InstanceSpec
from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.errors import InferenceError
from naiad.hosts.host import Limit, WorkerInstance, WorkerRpcHandler
from naiad.hosts.link import kinds, link
from naiad.hosts.process import worker_life
from naiad.hosts.process.liveness import LivenessWatch
from naiad.hosts.process.loads import InstanceLoads
from naiad.hosts.process.output_log import Identity
from naiad.hosts.process.watchdogs import Restarter
from naiad.hosts.process.worker_life import Action, Event, State
from naiad.hosts.process.worker_process import WorkerProcess
from naiad.hosts.warmup import Warmup
from naiad.metrics.statistics import RestartReason

_log = logging.getLogger(__name__)

FINALIZE_TIMEOUT_S = 30.0
"""How long a model may take to end before its process is killed."""

_LAST_KINDS = frozenset((kinds.LOADED, kinds.REFUSED, kinds.CLOSED))
"""What comes of an instance that is being closed."""

_READY_STATES = frozenset((State.SERVING, State.DRAINING))


class WorkerSupervisor:
    """Has at most one worker process at a time. `instances` is filled before anything else.

    Args:
        identity: of the process, for the log and messages.
        plan: what runs in it, whatever its instances.
        load_limit: time limit of a load.
        on_restart: called with the reason each time it is restarted.
        rpc_handler: handles the requests of its model to the server.
        clock: measures how long processes live.
        loop: the event loop in which every method is called.
        warmup: what each of its instances runs first; None for nothing.

    Attributes:
        worker: the process; None while there is none.
        serving: the same while it runs batches, else None.
        instances: by place, what the worker makes, and who runs its batches.
        loads: those of the instances.
        prefetches: whether they take a second batch while one is in execution; known once the process has loaded them.
        gathers_inputs: see `Instance`; known then as well.
    """

    def __init__(
        self,
        identity: Identity,
        plan: WorkerPlan,
        *,
        load_limit: Limit,
        on_restart: collections.abc.Callable[[RestartReason], None],
        rpc_handler: WorkerRpcHandler,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        warmup: Warmup | None = None,
    ) -> None:
        self._identity = identity
        self.plan = plan
        self._on_restart = on_restart
        self._rpc_handler = rpc_handler
        self._clock = clock
        self._loop = loop
        self._restarter = Restarter(
            identity,
            start=self.start,
            on_refused=lambda: on_restart(RestartReason.LOAD),
            on_served=lambda: self._set_usable(True),
            clock=clock,
            loop=loop,
        )
        self._state = State.DOWN
        logs.follow_level(self)
        self.worker: WorkerProcess | None = None
        self.serving: WorkerProcess | None = None
        self.instances: dict[int, tuple[InstanceSpec, WorkerInstance]] = {}
        self.prefetches = False
        self.gathers_inputs = True
        self.loads = InstanceLoads(identity, limit=load_limit, warmup=warmup, loop=loop)
        self._liveness: LivenessWatch | None = None
        self._drained = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._leaving: dict[int, asyncio.Future[None]] = {}

    @property
    def pid(self) -> int:
        """The process's id; 0 while there is none."""
        return 0 if self.worker is None else self.worker.pid

    @property
    def is_closing(self) -> bool:
        """Whether its last instance is closed, or is being closed."""
        return self._closing is not None

    async def start(self) -> None:
        """Start a process and have it load the model.

        Raises:
            InferenceError: it cannot be loaded, or the process did not get that far.
        """
        specs = {place: spec for place, (spec, _) in self.instances.items()}
        instances = tuple(specs.values())
        self._identity = self._identity.of_all(instances)
        plan = msgspec.structs.replace(self.plan, instances=instances)
        worker = WorkerProcess(
            self._identity,
            plan,
            loop=self._loop,
            owner=self,
        )
        try:
            await worker.start({place: each for place, (_, each) in self.instances.items()})
        except OSError as error:
            raise worker_life.not_started(self._identity, error) from error
        if self._closing is not None:  # while it started
            worker.kill("was no longer needed")
            await asyncio.shield(worker.ended)
            raise worker_life.not_loaded(self._identity, worker.ended.result(), worker.output_tail)
        self.worker = worker
        self._liveness = LivenessWatch(
            worker.pid,
            ask=functools.partial(worker.notify, kinds.ASK_ALIVE),
            on_dead=self._on_dead,
            clock=self._clock,
            loop=self._loop,
        )
        self._fire(Event.START)
        try:
            loaded = await self.loads.first(worker, plan, specs)
            if self._state is not State.LOADING:  # the loop was busy, and both came at once
                how = worker.ended.result() if worker.ended.done() else "was no longer needed"
                raise worker_life.not_loaded(self._identity, how, worker.output_tail)  # noqa: TRY301 - as one that failed while it loaded
        except BaseException:
            self._fire(Event.LOAD_FAILED)
            await asyncio.shield(worker.ended)
            raise
        for place, thread in zip(tuple(specs)[1:], loaded.threads, strict=False):
            worker.instances.served_by(place, thread)
        self.prefetches = loaded.prefetches
        self.gathers_inputs = loaded.gathers_inputs
        self.loads.count_warmup(loaded)
        self._liveness.serves = True
        self._fire(Event.LOADED)
        for place in specs.keys() - self.instances.keys():  # removed while it loaded
            worker.instances.ask_to_close(place)
        _log.debug("worker process %d serves %s", worker.pid, self._identity)

    def log_level_changed(self, level: int) -> None:
        """See `logs.FollowsLevel`: a process that runs gets the level in a notification, one that starts later in its order."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, the worker has ended
            self._loop.call_soon_threadsafe(self._tell_log_level, level)

    def _tell_log_level(self, level: int) -> None:
        if self.worker is not None:
            self.worker.notify(kinds.LOG_LEVEL, level)

    async def add(self, place: int, spec: InstanceSpec, instance: WorkerInstance) -> None:
        """Have the process make another instance beside those that run; nothing changes for these.

        Raises:
            InferenceError: it cannot be made, there is no process that serves, or it ended meanwhile.
        """
        worker = self.serving
        if worker is None or self._state is not State.SERVING:
            raise worker_life.not_extended(self._identity)
        loaded = await self.loads.further(worker, self._identity, place, spec, instance)
        if self.serving is not worker:  # it ended in the same turn of the loop
            raise worker_life.not_extended(self._identity)
        self.instances[place] = spec, instance
        for thread in loaded.threads:
            worker.instances.served_by(place, thread)
        self.prefetches = self.prefetches and loaded.prefetches
        self.loads.count_warmup(loaded)

    async def close_instance(self, place: int) -> None:
        """Wait for the batch of an instance and close it; the process ends with the last one."""
        if place not in self.instances or place in self._leaving:
            return
        if len(self.instances) - len(self._leaving) == 1:
            await self.close()
            return
        _, instance = self.instances[place]
        idle = self._leaving[place] = self._loop.create_future()
        self.on_batch_end()
        try:
            await idle
        finally:
            del self._leaving[place]
        del self.instances[place]
        instance.worker_closes()
        await self._close_in_process(place, instance)

    async def _close_in_process(self, place: int, instance: WorkerInstance) -> None:
        worker = self.serving
        if worker is None:  # the next one does not make it
            return
        worker.instances.ask_to_close(place)
        closed = worker.instances.closing.get(place)
        if closed is None:
            return
        await asyncio.wait({closed}, timeout=FINALIZE_TIMEOUT_S)
        if not closed.done():
            _log.error(
                "%s: instance '%s' does not close within %g s: it stays in its process, unused",
                self._identity,
                instance.name,
                FINALIZE_TIMEOUT_S,
            )

    async def close(self) -> None:
        """Wait for the batches in execution, and end the process. Idempotent."""
        await asyncio.shield(self._begin_to_close())

    async def close_late(self, how: str) -> None:
        """Kill the process, which fails the batches in execution, and wait for its end; `how` follows "its worker process ". Idempotent."""
        closing = self._begin_to_close()
        if self.worker is not None:
            self.worker.kill(how)
            self.late(how)
        await asyncio.shield(closing)

    def _begin_to_close(self) -> asyncio.Task[None]:
        if self._closing is None:
            self._restarter.cancel()
            self._fire(Event.CLOSE)
            self._closing = self._loop.create_task(self._close())
        return self._closing

    async def _close(self) -> None:
        await self._restarter.wait()
        self.on_batch_end()
        if self._state is State.DRAINING:
            await self._drained.wait()
        for _, instance in self.instances.values():
            instance.worker_closes()
        if self.worker is not None:
            in_order = self._state is State.ENDING
            await self.worker.end(in_order=in_order, seconds=FINALIZE_TIMEOUT_S)

    def late(self, how: str) -> None:
        """An instance exceeds a time limit, and the process is being killed; `how` follows "its worker process "."""
        self._fire(Event.LATE, how)

    def on_announced_end(self, why: str) -> None:
        """The process says that it ends with its next message."""
        assert self.worker is not None
        self.worker.announced(f"ended itself, because {why}")
        self._fire(Event.ENDS)

    def on_batch_end(self) -> None:
        """An instance has no batch any more."""
        for place, idle in self._leaving.items():
            if not self.instances[place][1].busy and not idle.done():
                idle.set_result(None)
        if self._state is State.DRAINING and not any(
            each.busy for _, each in self.instances.values()
        ):
            self._fire(Event.IDLE)

    def on_message(self, place: int, kind: int, header: bytes | bytearray) -> None:
        """A message of the instance at a place came that is not the outcome of a batch."""
        worker = self.worker
        assert worker is not None
        if place in worker.instances.closing and kind in _LAST_KINDS:
            if (
                kind != kinds.LOADED
            ):  # else it was made after the wait for it had ended, and is closed next
                worker.instances.drop(place)
            return
        try:
            if self.loads.take(worker, place, kind, header):
                return
        except Exception as failure:  # noqa: BLE001  an invalid message ends the worker only
            worker.kill(f"refused its model with an invalid message ({failure!r})")
            return
        if self._state not in (State.STUCK, State.KILLING):
            worker.kill(f"sent an unexpected message of kind {kind}")

    def on_request(
        self, place: int, kind: int, number: int, header: bytes | bytearray, base: Any
    ) -> None:
        """The model of the instance at a place makes a request to the server."""
        worker = self.worker
        assert worker is not None
        try:
            self._rpc_handler.handle(
                number,
                header,
                base,
                batch_at=self._batch_at,
                reply=worker.instances.replies_to(place) if kind == kinds.CALL else worker.notify,
                lent=worker.device_tensors,
            )
        except Exception as failure:  # noqa: BLE001  an invalid request ends the worker only
            self.refuse("request", failure)

    def _batch_at(self, first: int, count: int) -> list[Inference] | None:
        found = self.instances.get(first >> link.PLACE_SHIFT)
        return None if found is None else found[1].batch_at(first, count)

    def refuse(self, what: str, failure: Exception) -> None:
        """A message is invalid: kill the process."""
        _log.error("%s: the worker sent an invalid %s", self._identity, what, exc_info=failure)
        assert self.worker is not None
        self.worker.kill(f"sent an invalid {what} ({failure})")

    def on_lost(self, place: int, lost: link.SegmentLostError, error: InferenceError) -> None:
        """A message that is about no batch came without its tensors: only the load or the request that it belongs to fails."""
        worker = self.worker
        assert worker is not None
        if lost.kind in {kinds.REQUEST, kinds.CALL}:
            reply = worker.instances.replies_to(place) if lost.kind == kinds.CALL else worker.notify
            reply(kinds.ERROR, lost.number, error.message.encode())
        else:
            self.loads.lost(worker, place, lost.kind, error)

    def _fire(self, event: Event, how: str = "") -> None:
        """Change the state by the table and do what it says; `how` the process ended follows "its worker process "."""
        worker = self.worker
        was_draining = self._state is State.DRAINING
        self._state, actions = worker_life.after(self._state, event)
        if was_draining:
            self._drained.set()
        if event is Event.EXITED:
            self.worker = None
        self.serving = self.worker if self._state in _READY_STATES else None
        for action in actions:
            self._do(action, worker, how)

    def _do(self, action: Action, worker: WorkerProcess | None, how: str) -> None:
        assert worker is not None, "actions are those of a worker"
        match action:
            case Action.SERVE:
                self._restarter.on_serving()
            case Action.FAIL_LOAD:
                self.loads.fail(worker_life.not_loaded(self._identity, how, worker.output_tail))
            case Action.STOP_BATCHES:
                self._set_usable(False)  # of all, so that none gets the next batch
            case Action.FAIL_REQUESTS:
                for _, instance in tuple(self.instances.values()):
                    instance.worker_lost(how)
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

    def _set_usable(self, usable: bool) -> None:  # noqa: FBT001  as schedulers call it
        for _, instance in tuple(self.instances.values()):
            instance.worker_usable(usable)

    def _on_dead(self, how: str) -> None:
        """The process runs no more: end it, and the waits for it."""
        assert self.worker is not None
        _log.error("worker process %d of %s %s", self.worker.pid, self._identity, how)
        self.worker.kill(how)
        if self._state is not State.LOADING:  # its load fails with its exit
            self.late(how)

    def on_alive(self, *, debugged: bool) -> None:
        """See `WorkerOwner`."""
        if self._liveness is not None:
            self._liveness.answered(debugged=debugged)

    def on_gone(self, place: int) -> bool:
        """See `WorkerOwner`: only an instance that is not made yet; its link closes also if the process has no descriptor for it."""
        return self.loads.unreachable(self._identity, place)

    def on_last_messages(self) -> None:
        """See `WorkerOwner`."""
        self._fire(Event.ENDS)

    def on_end(self, how: str) -> None:
        """See `WorkerOwner`."""
        if self._liveness is not None:
            self._liveness.stop()
        self._rpc_handler.worker_exited()
        tail = "" if self.worker is None else self.worker.output_tail
        self.loads.fail_further(worker_life.not_loaded(self._identity, how, tail))
        self._fire(Event.EXITED, how)
