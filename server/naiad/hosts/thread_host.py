"""Runs an instance in a thread of this process: the cheapest host, for frameworks that release the interpreter lock.

One thread per instance, named after it: a daemon, for code of a model that does not return must not keep a program from ending. A batch and its outcome cost one
wake-up each. Any exception of the instance becomes an outcome, `SystemExit` included: a model ends neither the thread nor the server. A framework that crashes the
process takes the server with it; use a process host for these. An error that CUDA does not survive in a process makes the instances on
GPUs not ready (`DeviceState`): only a restart of the server would help.
"""

import asyncio
import collections
import collections.abc
import contextlib
import functools
import logging
import pathlib
import threading

from naiad.backends.instance import Execution
from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.core.processes.threads import start_aside
from naiad.core.record import Record
from naiad.core.response import InferResponse
from naiad.errors import ErrorCode, FailureReason, InferenceError, unavailable
from naiad.hosts.cpu_affinity import (
    INSTANCES,
    SAMPLE_INTERVAL,
    SHORT_NS,
    SHORT_WITH_INTERPRETER_NS,
    AffinityPolicy,
    Binder,
    ThreadBinding,
    current_processor,
)
from naiad.hosts.host import BatchOutcome, DeferredResponse, OnDeferred, OnOutcome
from naiad.hosts.local_instance import LocalInstance
from naiad.hosts.readiness import ReadinessAsker
from naiad.hosts.thread_queues import LoopCallQueue, LoopQueue, ThreadQueue
from naiad.hosts.worker import device, warmup
from naiad.hosts.worker.placement import HostPolicy, place

_log = logging.getLogger(__name__)

FINALIZE_TIMEOUT_S = 30.0
"""How long an instance may take to close before its thread is abandoned."""

_OS_NAME_BYTES = 15


class DeviceState:
    """Whether threads of this process can use the GPU; shared by the hosts of all instances on GPUs, because an error that CUDA does not survive ends it for all.

    Attributes:
        lost: why they cannot, as a sentence without its end; "" if they can. Any thread sets it.
    """

    __slots__ = ("lost",)

    def __init__(self) -> None:
        self.lost = ""

    def refusal(self, who: str) -> InferenceError:
        """The error of a request or a load that needs the device."""
        return unavailable(
            f"{who}: {self.lost}, and this one is the server's: use another server, restart this one, or have models on GPUs run in worker "
            "processes, their default (remove host=thread), which are restarted by themselves",
            reason=FailureReason.BACKEND,
        )


class _Job(Record, frozen=True, gc=True):
    batch: list[Inference]
    on_outcome: OnOutcome


class _WarmupJob(Record, frozen=True, gc=True):
    samples: list[warmup.Sample]
    advance: collections.abc.Callable[[], None]
    ended: "asyncio.Future[list[warmup.WarmupBatch]]"


class ThreadHost:
    """Implements `Host`. Its thread starts with the first batch.

    Args:
        name: the instance's name (row 11.32), also the thread's.
        instance: executes the batches; owned by the host, closed by `close`.
        clock: gives the times at which a batch began and ended.
        loop: the event loop in which every method and callback is called.
        state: of the GPU that it shares with others; None for an instance without one.
        host_policy: where its thread runs; None for where the server runs.
    """

    def __init__(
        self,
        name: str,
        instance: LocalInstance,
        *,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        state: DeviceState | None = None,
        host_policy: HostPolicy | None = None,
    ) -> None:
        self.name = name
        self._host_policy = host_policy
        self._device = state or DeviceState()
        self._local = instance
        instance.on_error = self._examine
        self._instance = instance.instance
        self._now = clock.monotonic_ns
        self._loop = loop
        self._affinity = AffinityPolicy(
            SHORT_WITH_INTERPRETER_NS if self._instance.holds_interpreter else SHORT_NS
        )
        self._binding: ThreadBinding | None = None
        self._submitted = 0
        self._jobs: ThreadQueue[_Job | _WarmupJob | None] | None = None
        self._deferred: LoopQueue[DeferredResponse] | None = None
        self._thread: threading.Thread | None = None
        self._readiness = ReadinessAsker(name, self._instance, loop=loop)
        self._ended: asyncio.Future[None] | None = None
        self._aborted = False

    @property
    def prefetches(self) -> bool:
        """See `Host`."""
        return self._instance.prefetches

    def submit(self, batch: list[Inference], on_outcome: OnOutcome) -> None:
        """See `Host`."""
        if self._ended is not None:
            self._refuse(batch, on_outcome)
            return
        jobs = self._jobs or self._start()
        self._submitted += 1
        is_sample = not self._submitted % SAMPLE_INTERVAL
        if is_sample or INSTANCES.last is not self:
            INSTANCES.works(self)
            if is_sample and self._affinity.together and self._binding is not None:
                self._binding.loop_is_on(current_processor())
        jobs.put(_Job(batch, on_outcome))

    def deferred_to(self, on_deferred: OnDeferred) -> None:
        """See `Host`."""
        if self._instance.defers:
            self._deferred = LoopQueue(self._loop, on_deferred)
            self._local.respond_through(self._deferred.put)

    async def warm_up(
        self, samples: list[warmup.Sample], advance: collections.abc.Callable[[], None]
    ) -> list[warmup.WarmupBatch]:
        """Run warmup samples in the instance's thread, before `deferred_to` and the first batch.

        Args:
            samples: the samples.
            advance: called in the thread as each iteration begins.

        Raises:
            InferenceError: a sample failed.
        """
        jobs = self._jobs or self._start()
        ended: asyncio.Future[list[warmup.WarmupBatch]] = self._loop.create_future()
        jobs.put(_WarmupJob(samples, advance, ended))
        return await ended

    def watch(self, usable: collections.abc.Callable[[bool], None]) -> None:
        """See `Host`: a thread is always there."""

    def ready_now(self) -> bool | None:
        """See `Host`."""
        if self._ended is not None or self._device.lost:
            return False
        return None if self._instance.asks_model else self._instance.ready()

    async def ready(self) -> bool:
        """See `Host`. Does not wait for a batch in execution, as in Triton: a long batch does not make an instance unready.

        Concurrent calls share one answer. No answer within 5 s and an exception mean not ready.
        """
        known = self.ready_now()
        return await self._readiness.ask() if known is None else known

    def abort(self, why: str) -> None:
        """See `Host`."""
        self._aborted = True

    async def close(self) -> None:
        """See `Host`."""
        ended = self._begin_to_end()
        if not self._aborted:
            await asyncio.wait({ended}, timeout=FINALIZE_TIMEOUT_S)
        if not ended.done():
            _log.error(
                "the thread of instance '%s' is abandoned, with its memory: %s does not end",
                self.name,
                "its batch"
                if self._aborted
                else f"closing it takes longer than {FINALIZE_TIMEOUT_S:g} s and",
            )
        else:
            await self._join()

    async def close_late(self, why: str) -> None:
        """See `Host`."""
        await asyncio.shield(self._begin_to_end())
        await self._join()

    def _begin_to_end(self) -> "asyncio.Future[None]":
        """Have the thread close the instance after its batch, and end; returns what is done then. Idempotent."""
        if self._ended is None:
            jobs = self._jobs or self._start()
            self._ended = self._loop.create_future()
            jobs.put(None)
        return self._ended

    async def _join(self) -> None:
        if self._thread is not None:
            # It has nothing more to do, but on a busy machine it takes a while to get a processor for that.
            await self._loop.run_in_executor(None, self._thread.join)

    def _refuse(self, batch: list[Inference], on_outcome: OnOutcome) -> None:
        """Fail a batch after `close`, of a model whose stop ran out of time: its thread takes nothing more."""
        now = self._now()
        error = unavailable(
            f"model '{batch[0].request.model_name}': the server stops", reason=FailureReason.BACKEND
        )
        self._loop.call_soon(on_outcome, BatchOutcome(batch, None, error, now, now, now))

    def _start(self) -> "ThreadQueue[_Job | _WarmupJob | None]":
        jobs: ThreadQueue[_Job | _WarmupJob | None] = ThreadQueue()
        calls = LoopCallQueue(self._loop)
        self._thread = threading.Thread(
            target=self._work, args=(jobs, calls), name=self.name, daemon=True
        )

        def failed(error: RuntimeError) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._not_started, calls, error)

        start_aside(self._thread, failed)
        INSTANCES.add()
        self._jobs = jobs
        return jobs

    def _not_started(self, calls: LoopCallQueue, error: RuntimeError) -> None:
        """The thread could not be started: all that waits for it fails, and the next batch tries again."""
        jobs = self._jobs
        assert jobs is not None, "it was made before the thread"
        self._jobs = self._thread = None
        waiting = jobs.drain()
        jobs.close()
        calls.close()
        INSTANCES.add(-1)
        for job in waiting:
            if job is None:
                _log.error("instance '%s' could not be closed in its thread: %s", self.name, error)
                if self._ended is not None and not self._ended.done():
                    self._ended.set_result(None)
            elif isinstance(job, _WarmupJob):
                refusal = unavailable(f"instance '{self.name}' has no thread: {error}")
                _fail_unless_cancelled(job.ended, refusal)
            else:
                now = self._now()
                failed = _failed(job.batch, f"has no thread for instance '{self.name}': {error}")
                job.on_outcome(BatchOutcome(job.batch, None, failed, now, now, now))

    def _work(self, jobs: "ThreadQueue[_Job | _WarmupJob | None]", calls: LoopCallQueue) -> None:
        _name_this_thread(self.name)
        if self._host_policy is not None:
            place(self._host_policy)
        get, run, post = jobs.get, self._run, calls.put
        affinity = self._affinity
        binding = self._binding = ThreadBinding(threading.get_native_id(), Binder())
        holds = self._instance.holds_interpreter
        defers = self._instance.defers
        while (job := get()) is not None:
            if isinstance(job, _WarmupJob):
                post(self._run_warmup(job))
                del job
                continue
            outcome = run(job.batch)
            if defers:
                post(functools.partial(self._after_deferred, job.on_outcome, outcome))
            else:
                post(functools.partial(job.on_outcome, outcome))
            # While the loop wakes up.
            affinity.record(_time_apart(outcome, holds_interpreter=holds))
            binding.apply(together=affinity.together and INSTANCES.alone)
            # A reference would keep the last batch in memory until the next one comes.
            del job, outcome
        binding.close()
        self._readiness.wait()
        try:
            self._instance.close()
        except BaseException:  # noqa: BLE001  the thread must end cleanly, whatever the model raises
            _log.exception("instance '%s' did not close cleanly", self.name)
        jobs.close()
        post(functools.partial(self._finish, calls))

    def _run_warmup(self, job: _WarmupJob) -> collections.abc.Callable[[], None]:
        """Run warmup samples; returns what the loop does next."""

        def advance() -> None:
            if (
                job.ended.cancelled()
            ):  # the load was given up: the thread is wanted for nothing but its end
                raise unavailable("the load was cancelled")
            job.advance()

        try:
            ran = warmup.run(self._instance, job.samples, advance, self._now)
        except InferenceError as error:
            self._examine(error)
            return functools.partial(_fail_unless_cancelled, job.ended, error)
        return functools.partial(_end_unless_cancelled, job.ended, ran)

    def _run(self, batch: list[Inference]) -> BatchOutcome:
        started = self._now()
        execution: Execution[InferResponse] | None = None
        error: InferenceError | None = None
        if self._device.lost:
            who = f"model '{batch[0].request.model_name}', instance '{self.name}'"
            return BatchOutcome(batch, None, self._device.refusal(who), started, started, started)
        try:
            execution = self._local.execute(batch)
        except InferenceError as failure:
            self._examine(failure)
            error = InferenceError(failure.code, failure.message, reason=FailureReason.BACKEND)
        except BaseException as failure:  # noqa: BLE001  also SystemExit: a model must not end the thread
            _log.exception("instance '%s' failed a batch of %d requests", self.name, len(batch))
            self._examine(failure)
            error = _failed(batch, f"raised {type(failure).__name__}: {failure}")
        input_end_ns = started if execution is None else execution.input_end_ns
        return BatchOutcome(batch, execution, error, started, self._now(), input_end_ns)

    def _examine(self, error: BaseException) -> None:
        """An error of the model, which may mean that this process cannot use the GPU any more; in any thread."""
        lost = device.of(error).lost
        if lost and not self._device.lost:
            self._device.lost = lost
            _log.error(
                "instance '%s' and all others on a GPU in threads of this server are not ready any more: %s. Restart the server",
                self.name,
                lost,
            )

    def _after_deferred(self, on_outcome: OnOutcome, outcome: BatchOutcome) -> None:
        """A batch came back: pass on the deferred responses that were sent before, then the outcome."""
        try:
            if self._deferred is not None:
                self._deferred.flush()
        finally:
            on_outcome(outcome)

    def _finish(self, calls: LoopCallQueue) -> None:
        calls.close()
        INSTANCES.add(-1)
        if self._deferred is not None:
            self._deferred.close()
        assert self._ended is not None
        if not self._ended.done():
            self._ended.set_result(None)


def _end_unless_cancelled(
    ended: "asyncio.Future[list[warmup.WarmupBatch]]", ran: list[warmup.WarmupBatch]
) -> None:
    if not ended.done():
        ended.set_result(ran)


def _fail_unless_cancelled(
    ended: "asyncio.Future[list[warmup.WarmupBatch]]", error: InferenceError
) -> None:
    if not ended.done():
        ended.set_exception(error)


def _time_apart(outcome: BatchOutcome, *, holds_interpreter: bool) -> int:
    """The part of a batch that can run in parallel with the loop; the rest holds the interpreter lock anyway."""
    execution = outcome.execution
    if holds_interpreter or execution is None:
        return outcome.compute_end_ns - outcome.compute_start_ns
    return execution.output_start_ns - execution.input_end_ns


def _failed(batch: list[Inference], what: str) -> InferenceError:
    model = batch[0].request.model_name
    return InferenceError(
        ErrorCode.INTERNAL, f"model '{model}' {what}", reason=FailureReason.BACKEND
    )


def _name_this_thread(name: str) -> None:
    """Show the instance in top and in a debugger; Linux keeps 15 bytes, so the end of a long name is shown."""
    shown = name.encode()[-_OS_NAME_BYTES:]
    with contextlib.suppress(OSError):
        pathlib.Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_bytes(shown)
