"""Starts the process of a worker, with our ends of its sockets and of its output, ends it and says how it ended.

If the server itself is killed, the system ends its workers, but not the processes that their models have started: the `OrphanReaper`
does. A shell beside the server, started with the first worker, reads the ids of process groups from a pipe. Only the server holds the
other end of the pipe, so when the server is gone for any reason, the shell reads end of file, kills the groups that are left, and exits.
It runs in its own session and is not a child of the server, so it cannot be mistaken for a worker. Limits: a process that has left its
worker's process group survives; without /bin/sh no shell is started and all such processes survive. In a container whose first process is
the server the system ends everything, and there is nothing to do.
"""

import asyncio
import collections.abc
import concurrent.futures
import contextlib
import errno
import functools
import logging
import os
import pathlib
import select
import signal
import socket
import threading
import typing

from naiad.backends.backend import WorkerPlan
from naiad.core.processes.inherited import be_free
from naiad.core.processes.launch import PASSED, Child, Launch
from naiad.hosts import worker
from naiad.hosts.link import codec
from naiad.hosts.process.output_log import Identity

_log = logging.getLogger(__name__)

_JUST_STARTED_S = 5.0
_MAIN = str(pathlib.Path(worker.__file__).with_name("main.py"))


Argument = typing.TypeVar("Argument")
Result = typing.TypeVar("Result")

_FIRST = 1
"""The id of a container's first process."""

_SHELL = "/bin/sh"

# A background job reads from /dev/null unless its input is redirected. `groups` holds each group with a space on both sides.
_SCRIPT = """
cd / || exit
exec 3<&0
{
  trap '' HUP INT QUIT TERM
  while read -r what group; do
    case $what in
      +) groups="$groups $group " ;;
      -) groups="${groups%% $group *}${groups#* $group }" ;;
    esac
  done <&3
  for group in $groups; do kill -s KILL -- "-$group"; done
} &
"""


class OrphanReaper:
    """The process groups to kill. Thread-safe."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._pipe = -1
        self._one = threading.Lock()

    def __contains__(self, group: int) -> bool:
        return group in self._groups

    def groups(self) -> list[int]:
        """The process groups, which are the ids of the workers that lead them."""
        with self._one:
            return list(self._groups)

    def add(self, group: int) -> None:
        """A worker was started, which leads a process group."""
        with self._one:
            self._groups.add(group)
            self._write(f"+ {group}\n")

    def remove(self, group: int) -> None:
        """The worker has ended, and so have all processes of its group."""
        with self._one:
            if group in self._groups:
                self._groups.remove(group)
                self._write(f"- {group}\n")

    def close(self) -> None:
        """End the shell, unless a worker is left; the next worker starts another one."""
        with self._one:
            if self._pipe >= 0 and not self._groups:
                os.close(self._pipe)
                self._pipe = -1

    def _write(self, line: str) -> None:
        if self._pipe >= 0:
            try:
                os.write(self._pipe, line.encode())
            except OSError:  # the shell was killed: start another one with all groups
                os.close(self._pipe)
                self._pipe = -1
            else:
                return
        if os.getpid() != _FIRST and self._groups:
            self._start("".join(f"+ {group}\n" for group in self._groups))

    def _start(self, lines: str) -> None:
        with contextlib.ExitStack() as undo:
            try:
                reading, writing = os.pipe()
                undo.callback(os.close, writing)
                with os.fdopen(reading, "rb"):
                    # No variable may affect the script.
                    launch = Launch([_SHELL, "-c", _SCRIPT], {}, source=reading, session=True)
                    launch.start().wait()
                # A shell that does not read must not block the server.
                os.set_blocking(writing, False)
                os.write(writing, lines.encode())
            except OSError as error:
                _log.debug("processes that models start would survive a killed server: %s", error)
                return
            undo.pop_all()
            self._pipe = writing


ORPHAN_REAPER = OrphanReaper()
"""The reaper of this process."""


def _environ(plan: WorkerPlan) -> dict[str, str]:
    """A worker's environment variables."""
    merged = {**os.environ, **plan.environ}
    return {name: value for name, value in merged.items() if value is not None}


def _placement(plan: WorkerPlan) -> list[str]:
    """The worker's arguments for its host policy and its priority."""
    cores, node = plan.host_policy or ((), None)
    words = [f"--cores={','.join(map(str, cores))}"] if cores else []
    if plan.nice:
        words.append(f"--nice={plan.nice}")
    return words if node is None else [*words, f"--numa-node={node}"]


class Spawned(typing.NamedTuple):
    """A worker's process and our ends of what leads to it; none of them blocks.

    Attributes:
        process: it.
        data: our end of each link, one per instance.
        control: of the control socket.
        output: of the pipe that it writes to.
        gone: its pidfd.
    """

    process: Child
    data: list[socket.socket]
    control: socket.socket
    output: int
    gone: int


class Launcher:
    """The thread that starts the workers of this process, so that no event loop waits until one has executed its interpreter.

    It is there as long as a worker may be: the system ends a worker with the thread that started it, so neither an event loop nor a thread of a
    program that embeds a server starts one.
    """

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._thread: concurrent.futures.ThreadPoolExecutor | None = None
        self._making = threading.Lock()
        self._calls = 0

    def call(
        self, function: collections.abc.Callable[[Argument], Result], argument: Argument
    ) -> "concurrent.futures.Future[Result]":
        """Call a function in the thread; from any thread.

        Raises:
            OSError: the system has no more threads, or the process ends.
        """
        with self._making:
            if self._thread is None:
                self._thread = concurrent.futures.ThreadPoolExecutor(
                    1, "naiad-launcher", initializer=be_free
                )
            try:
                future = self._thread.submit(function, argument)
            except RuntimeError as error:
                self._thread = None  # or the next thread would make this call, too
                raise OSError(errno.EAGAIN, str(error)) from error
            self._calls += 1
        future.add_done_callback(self._called)
        return future

    def end_if_idle(self) -> bool:
        """End the thread, unless a worker runs that would end with it; returns whether there is none any more. The next call starts another one."""
        with self._making:
            if self._calls or ORPHAN_REAPER.groups():
                return False
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown()
        return True

    def _called(self, _future: "concurrent.futures.Future[typing.Any]") -> None:
        with self._making:
            self._calls -= 1


LAUNCHER = Launcher()
"""That of this process."""


def end_helpers() -> None:
    """End the launcher's thread and the reaper's shell, unless a worker of this process is left; for programs that embed servers, of which the last one stops."""
    if LAUNCHER.end_if_idle():
        ORPHAN_REAPER.close()


class _Prepared(typing.NamedTuple):
    """A worker's process that is about to be started, and the descriptors of `Spawned`."""

    data: list[socket.socket]
    control: socket.socket
    output: int
    launch: Launch


async def spawn(identity: Identity, plan: WorkerPlan, undo: contextlib.ExitStack) -> Spawned:
    """Start a worker's process, by the thread that does, while the event loop runs on.

    Args:
        identity: whose it is.
        plan: what runs in it, and by which interpreter.
        undo: closes our ends.

    Raises:
        OSError: there is no such interpreter, or no descriptor or memory left.
    """
    with contextlib.ExitStack() as its:
        prepared = _prepare(identity, plan, undo, its)
        launching = asyncio.wrap_future(LAUNCHER.call(_launch, prepared.launch))
        try:
            launched = await asyncio.shield(launching)
        except asyncio.CancelledError:
            # Its ends stay open until it has them.
            launching.add_done_callback(functools.partial(_not_wanted, its.pop_all()))
            raise
    return _spawned(prepared, launched, undo)


def spawn_blocking(identity: Identity, plan: WorkerPlan, undo: contextlib.ExitStack) -> Spawned:
    """As `spawn`, for a thread that may wait."""
    with contextlib.ExitStack() as its:
        prepared = _prepare(identity, plan, undo, its)
        launched = LAUNCHER.call(_launch, prepared.launch).result()
    return _spawned(prepared, launched, undo)


def _prepare(
    identity: Identity, plan: WorkerPlan, undo: contextlib.ExitStack, its: contextlib.ExitStack
) -> _Prepared:
    links = [_pair(undo, its) for _ in plan.instances or (None,)]
    control, its_control = _pair(undo, its)
    output, its_output = os.pipe()
    undo.callback(os.close, output)
    its.callback(os.close, its_output)
    control_number = PASSED + len(links)
    command = [
        plan.executable, _MAIN,
        f"--model={identity.model}", f"--version={identity.version}", f"--instance={identity.instance}",
        "--data-fd", *map(str, range(PASSED, control_number)), "--control-fd", str(control_number), "--parent", str(os.getpid()),
        *_placement(plan),
    ]  # fmt: skip
    passed = [*(theirs.fileno() for _, theirs in links), its_control.fileno()]
    launch = Launch(command, _environ(plan), output=its_output, passed=passed)
    return _Prepared([ours for ours, _ in links], control, output, launch)


def _launch(launch: Launch) -> tuple[Child, int]:
    """Start the process; returns it and its pidfd. In the launcher's thread."""
    process = launch.start()
    ORPHAN_REAPER.add(process.pid)
    try:
        return process, os.pidfd_open(process.pid)
    except BaseException:
        end_now(process)
        raise


def _spawned(
    prepared: _Prepared, launched: tuple[Child, int], undo: contextlib.ExitStack
) -> Spawned:
    process, gone = launched
    undo.callback(os.close, gone)
    for each in (*prepared.data, prepared.control):
        each.setblocking(False)
    os.set_blocking(prepared.output, False)
    return Spawned(process, prepared.data, prepared.control, prepared.output, gone)


def _not_wanted(its: contextlib.ExitStack, launching: "asyncio.Future[tuple[Child, int]]") -> None:
    """A process was started, or could not be, that nothing waits for any more."""
    its.close()
    if launching.cancelled() or launching.exception() is not None:
        return
    process, gone = launching.result()
    os.close(gone)
    LAUNCHER.call(end_now, process)


def _pair(
    undo: contextlib.ExitStack, its: contextlib.ExitStack
) -> tuple[socket.socket, socket.socket]:
    """Our end of a link, which `undo` closes, and the worker's, which `its` does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    undo.callback(ours.close)
    its.callback(theirs.close)
    return ours, theirs


def order(
    plan: WorkerPlan, places: collections.abc.Sequence[int] = (), *, warms_up: bool = False
) -> bytes:
    """The header of LOAD and ONE_SHOT: a worker's plan, the place of each instance, and whether WARM_UP follows."""
    return codec.to_json(
        {
            "load": plan.load,
            "settings": dict(plan.settings),
            "instances": [each.to_map() for each in plan.instances],
            "places": list(places),
            "warms_up": warms_up,
            "log_level": logging.getLogger("naiad").getEffectiveLevel(),
        }
    ).encode()


def end_children(process: Child) -> None:
    """End what a worker that is over has left running in its group; only before it is reaped, while its id is its own."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def end_now(process: Child) -> None:
    """End a worker that has only just been started, with what little it has done so far."""
    end_children(process)
    if not process.wait(_JUST_STARTED_S):
        _log.error(
            "worker process %d does not end %g s after SIGKILL", process.pid, _JUST_STARTED_S
        )
    ORPHAN_REAPER.remove(process.pid)


def reap_later(loop: asyncio.AbstractEventLoop, process: Child, pidfd: int) -> None:
    """Reap a worker that was given up, if it ever ends; `pidfd` stays the caller's."""

    def reap() -> None:
        if process.poll() is not None:
            loop.remove_reader(gone)
            os.close(gone)
            ORPHAN_REAPER.remove(process.pid)
            _log.warning("worker process %d, which did not end, has ended at last", process.pid)

    try:
        gone = os.dup(pidfd)
    except OSError as error:
        _log.warning("worker process %d will stay as a zombie: %s", process.pid, error)
        return
    loop.add_reader(gone, reap)


def is_gone(pidfd: int, seconds: float) -> bool:
    """Whether a process ended, or does within so many seconds. Blocking; any descriptor will do, also those above 1,023."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1_000))
