"""Starts the worker processes of a model version, or one for a single call (a one-shot worker task).

It is imported with the first model that needs a process, since it costs a tenth of the time of a start. A one-shot task calls a function
such as a model's `auto_complete_config`; it blocks, for a thread of the loader. Whatever the model does (crash, print, hang), the call ends
with a result or with an error that says what happened, and the process is gone.
"""

import asyncio
import collections.abc
import contextlib
import os
import selectors
import time
import typing

import msgspec

from naiad.backends.backend import WorkerPlan
from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import ModelConfig
from naiad.core.clock import Clock
from naiad.core.processes.child_process import in_words
from naiad.core.processes.launch import Child
from naiad.errors import ErrorCode, InferenceError, unavailable
from naiad.hosts.host import HostedInstance, Limit, Limits, WorkerRpcHandler
from naiad.hosts.link import codec, kinds
from naiad.hosts.link.link import Link, LinkBrokenError, SegmentLostError
from naiad.hosts.process.output_log import Identity, OutputLog
from naiad.hosts.process.spawn import ORPHAN_REAPER, end_children, is_gone, order, spawn_blocking
from naiad.hosts.process.worker_group import WorkerGroup
from naiad.hosts.warmup import Warmup
from naiad.metrics.statistics import ModelStatistics, RestartReason

_PIPE_BYTES = 1 << 16
_GRACE_S = 2.0


Process = tuple[WorkerPlan, list[InstanceSpec]]
"""What runs in a worker process, and the server's specs of its instances, in their order."""


class Workers:
    """The worker processes of a model version.

    Args:
        config: the model's.
        version: its version.
        limits: time limits of a batch and of a load.
        shared: whether further instances on a device join the process of those that are there.
        statistics: counts restarts.
        rpc_handler_of: makes the handler of the requests of an instance's workers, by names of model and instance.
        clock: gives the time.
        warmup: what each instance runs before it is ready; None for nothing.
    """

    def __init__(
        self,
        config: ModelConfig,
        version: int,
        *,
        limits: Limits,
        shared: bool,
        statistics: ModelStatistics,
        rpc_handler_of: collections.abc.Callable[[str, str], WorkerRpcHandler],
        clock: Clock,
        warmup: Warmup | None = None,
    ) -> None:
        self._config = config
        self._version = version
        self._warmup = warmup
        self._limits = limits
        self._shared = shared
        self._statistics = statistics
        self._rpc_handler_of = rpc_handler_of
        self._clock = clock
        self._groups: list[tuple[WorkerPlan, InstanceSpec, WorkerGroup]] = []
        if not statistics.worker_restarts:
            statistics.worker_restarts = dict.fromkeys(RestartReason, 0)

    async def start(self, processes: collections.abc.Sequence[Process]) -> list[HostedInstance]:
        """Start processes, all of them at the same time, or have those that run make further instances; on the event loop that owns them.

        Raises:
            InferenceError: an instance cannot be made; what else was made is ended then.
        """
        made: list[list[HostedInstance]] = [[] for _ in processes]
        try:
            outcomes = await asyncio.gather(
                *(
                    self._start(*process, into)
                    for process, into in zip(processes, made, strict=True)
                ),
                return_exceptions=True,
            )
            _raise_first(outcomes)
        except BaseException:
            await asyncio.gather(*(host.close() for hosted in made for _, host in hosted))
            raise
        return [each for hosted in made for each in hosted]

    async def _start(
        self, plan: WorkerPlan, specs: list[InstanceSpec], into: list[HostedInstance]
    ) -> None:
        group = self._running(plan, specs[0])
        if group is not None:
            into += map(HostedInstance, specs, await group.add(plan))
            return
        group = WorkerGroup(
            self._config.name,
            self._version,
            plan,
            config=self._config,
            warmup=self._warmup,
            limits=self._limits,
            on_restart=self._statistics.record_restart,
            rpc_handler=self._rpc_handler_of(self._config.name, plan.instances[0].name),
            clock=self._clock,
            loop=asyncio.get_running_loop(),
        )
        try:
            await group.supervisor.start()
        except BaseException:
            await group.supervisor.close()
            raise
        if self._shared:
            self._groups.append((plan, specs[0], group))
        into += map(HostedInstance, specs, group.hosts)

    def _running(self, plan: WorkerPlan, spec: InstanceSpec) -> WorkerGroup | None:
        """The process that instances of a plan join; None if there is none."""
        self._groups = [each for each in self._groups if not each[2].supervisor.is_closing]
        for other, its_spec, group in self._groups:
            if share_a_process(other, its_spec, plan, spec):
                return group
        return None


def _raise_first(outcomes: collections.abc.Iterable[BaseException | None]) -> None:
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


def processes_of(single: list[Process], *, shared: bool) -> list[Process]:
    """The processes of a model with their instances, from those of its single ones: with `shared` one for all on a device.

    The specs are those of the server; in the plan are those of the worker, which may number its device in another way.
    """
    if not shared:
        return single
    processes: list[Process] = []
    for plan, specs in single:
        for place, (process, its_specs) in enumerate(processes):
            if share_a_process(process, its_specs[0], plan, specs[0]):
                instances = (*process.instances, *plan.instances)
                joined = msgspec.structs.replace(process, instances=instances)
                processes[place] = joined, its_specs + specs
                break
        else:
            processes.append((plan, specs))
    return processes


def share_a_process(
    plan: WorkerPlan, spec: InstanceSpec, other: WorkerPlan, other_spec: InstanceSpec
) -> bool:
    """Whether instances of one model version can share a process: they are on one device, and are run by one interpreter with the same variables and host policy.

    Settings are not compared: those of a config that differs in its instances differ as well.
    """
    return (
        (spec.kind, spec.device_id) == (other_spec.kind, other_spec.device_id)
        and (plan.load, plan.executable) == (other.load, other.executable)
        and dict(plan.environ) == dict(other.environ)
        and plan.host_policy == other.host_policy
    )


def run_once(plan: WorkerPlan, *, model: str, version: int, limit: Limit) -> typing.Any:
    """Call a function of the model in a process of its own, which ends afterwards; blocking. See `run_one_shot`."""
    identity = Identity(model, version, "config")
    return run_one_shot(identity, plan, timeout_s=limit.seconds, parameter=limit.parameter)


def run_one_shot(
    identity: Identity, plan: WorkerPlan, *, timeout_s: float, parameter: str = ""
) -> typing.Any:
    """Call `plan.load` with its settings in a new process, and return its result, through JSON. `parameter` is that of the config which says `timeout_s`.

    Raises:
        InferenceError: the function's own; UNAVAILABLE: the process could not be started, ended, or took too long.
    """
    with contextlib.ExitStack() as undo:
        try:
            process, data, _, reading, gone = spawn_blocking(identity, plan, undo)
        except OSError as error:
            raise unavailable(f"{identity}: no worker process could be started: {error}") from error
        output = OutputLog(identity)
        undo.callback(output.close)
        undo.callback(_end, process, gone, reading, output)
        to_it = Link(data[0])
        undo.callback(to_it.close)
        try:
            to_it.send(kinds.ONE_SHOT, order(plan))
            _listen((to_it, gone), reading, output, time.monotonic() + timeout_s)
            kind, _, header = to_it.receive()
        except (
            LinkBrokenError,
            BlockingIOError,
        ) as error:  # a child process may keep the link open
            _end(process, gone, reading, output)
            how = in_words(process.returncode or 0)
            raise unavailable(
                f"{identity}: its worker process {how} while it completed the model's config{output.output_tail()}"
            ) from error
        except SegmentLostError as error:
            raise unavailable(
                f"{identity}: the model's completed config could not be received: {error}"
            ) from error
        except TimeoutError as error:
            end_children(process)
            raise unavailable(
                f"{identity}: auto_complete_config took longer than {timeout_s:g} s{f' ({parameter})' if parameter else ''} and was ended"
            ) from error
    result = codec.read_json(header)
    if kind == kinds.DONE:
        return result
    code, message = result
    raise InferenceError(ErrorCode[code], message)


def _listen(ends: tuple[Link, int], reading: int, output: OutputLog, end: float) -> None:
    """Read its output until there is a message on its link, or its pidfd shows that it has ended.

    Raises:
        TimeoutError: neither came before `end`.
    """
    with selectors.DefaultSelector() as selector:
        for each in ends:
            selector.register(each, selectors.EVENT_READ)
        selector.register(reading, selectors.EVENT_READ)
        while True:
            ready = selector.select(max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError
            if any(key.fileobj in ends for key, _ in ready):
                return
            if not _read(reading, output):
                selector.unregister(reading)


def _read(reading: int, output: OutputLog, most: int = _PIPE_BYTES) -> int:
    try:
        data = os.read(reading, most)
    except BlockingIOError:
        return 0
    output.feed(data)
    return len(data)


def _end(process: Child, gone: int, reading: int, output: OutputLog) -> None:
    """Wait briefly for its end, kill it and its children, and read the rest of its output."""
    if process.returncode is None:
        is_gone(gone, _GRACE_S)
    end_children(process)
    process.wait()
    ORPHAN_REAPER.remove(process.pid)
    # At most what a pipe holds: a child that left its process group may write for ever.
    left = _PIPE_BYTES
    while left > 0 and (taken := _read(reading, output, left)):
        left -= taken
