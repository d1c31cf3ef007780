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
import subprocess
import time
import typing

from naiad.backends.backend import WorkerPlan
from naiad.backends.instance import InstanceSpec
from naiad.core.clock import Clock
from naiad.errors import ErrorCode, InferenceError, unavailable
from naiad.hosts.host import HostedInstance, Limits, WorkerRpcHandler
from naiad.hosts.output_log import Identity, OutputLog
from naiad.hosts.process import process_hosts
from naiad.hosts.spawn import ORPHAN_REAPER, end_children, in_words, is_gone, order, spawn
from naiad.hosts.supervisor import WorkerSupervisor
from naiad.hosts.worker import codec, link
from naiad.hosts.worker.link import Link, LinkBrokenError, SegmentLostError
from naiad.metrics.statistics import ModelStatistics, RestartReason
from naiad.repository.plan import VersionPlan

_PIPE_BYTES = 1 << 16
_GRACE_S = 2.0


class Workers:
    """The workers of a model version.

    Args:
        processes: what runs in each, and the server's specs of its instances, in their order.
        rpc_handler_of: makes the handler of the requests of an instance's workers, by names of model and instance.
    """

    def __init__(
        self,
        plan: VersionPlan,
        processes: collections.abc.Sequence[tuple[WorkerPlan, list[InstanceSpec]]],
        *,
        rpc_handler_of: collections.abc.Callable[[str, str], WorkerRpcHandler],
        clock: Clock,
    ) -> None:
        self._plan = plan
        self._processes = processes
        self._rpc_handler_of = rpc_handler_of
        self._clock = clock

    async def start(self, statistics: ModelStatistics, *, limits: Limits) -> list[HostedInstance]:
        """Start the worker processes, all of them at the same time, and give their instances; on the event loop that owns them.

        Raises:
            InferenceError: one of them cannot load the model; the others are ended then.
        """
        config = self._plan.config
        if not statistics.worker_restarts:
            statistics.worker_restarts = dict.fromkeys(RestartReason, 0)
        supervisors: list[WorkerSupervisor] = []
        hosted: list[HostedInstance] = []
        for worker_plan, specs in self._processes:
            supervisor, its_hosts = process_hosts(
                config.name,
                self._plan.version,
                worker_plan,
                config=config,
                limits=limits,
                on_restart=statistics.record_restart,
                rpc_handler=self._rpc_handler_of(config.name, worker_plan.instances[0].name),
                clock=self._clock,
                loop=asyncio.get_running_loop(),
            )
            supervisors.append(supervisor)
            hosted += map(HostedInstance, specs, its_hosts)
        try:
            outcomes = await asyncio.gather(
                *(each.start() for each in supervisors), return_exceptions=True
            )
            _raise_first(outcomes)
        except BaseException:
            await asyncio.gather(*(each.close() for each in supervisors))
            raise
        return hosted


def run_once(plan: WorkerPlan, *, model: str, version: int, timeout_s: float) -> typing.Any:
    """Call a function of the model in a process of its own, which ends afterwards; blocking. See `run_one_shot`."""
    return run_one_shot(Identity(model, version, "config"), plan, timeout_s=timeout_s)


def _raise_first(outcomes: collections.abc.Iterable[BaseException | None]) -> None:
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


def run_one_shot(identity: Identity, plan: WorkerPlan, *, timeout_s: float) -> typing.Any:
    """Call `plan.load` with its settings in a new process, and return its result, through JSON.

    Raises:
        InferenceError: the function's own; UNAVAILABLE: the process could not be started, ended, or took too long.
    """
    with contextlib.ExitStack() as undo:
        try:
            process, data, _, reading, gone = spawn(identity, plan, undo)
        except OSError as error:
            raise unavailable(f"{identity}: no worker process could be started: {error}") from error
        output = OutputLog(identity)
        undo.callback(output.close)
        undo.callback(_end, process, gone, reading, output)
        to_it = Link(data[0])
        undo.callback(to_it.close)
        try:
            to_it.send(link.ONE_SHOT, order(plan))
            _listen((to_it, gone), reading, output, time.monotonic() + timeout_s)
            kind, _, header = to_it.receive()
        except (
            LinkBrokenError,
            BlockingIOError,
        ) as error:  # a child process may keep the link open
            _end(process, gone, reading, output)
            how = in_words(process.returncode)
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
                f"{identity}: auto_complete_config took longer than {timeout_s:g} s and was ended"
            ) from error
    result = codec.read_json(header)
    if kind == link.DONE:
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


def _end(process: "subprocess.Popen[bytes]", gone: int, reading: int, output: OutputLog) -> None:
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
