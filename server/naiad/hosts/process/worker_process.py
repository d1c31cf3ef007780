"""A worker process from its start to its end: signals and exit. Its messages are in `instance_links.py`.

All of it runs on the event loop. The pidfd shows the exit of the process, even if a child of it keeps our sockets open. If a socket breaks
while the process lives, the process is killed. Its output is read to the last line, and every descriptor is closed before `on_end` is
called.
"""

import asyncio
import collections.abc
import contextlib
import logging
import os
import signal
import typing

from naiad.backends.backend import WorkerPlan
from naiad.core.processes.child_process import in_words
from naiad.hosts.cpu_affinity import WorkerAffinity
from naiad.hosts.device_tensors import DeviceTensors
from naiad.hosts.host import WorkerInstance
from naiad.hosts.link.kinds import ALIVE, RETURNED
from naiad.hosts.link.link import GONE, Link, LinkBrokenError, SegmentLostError
from naiad.hosts.process.instance_links import InstanceLinks
from naiad.hosts.process.notifications import NotificationSender
from naiad.hosts.process.output_log import Identity, OutputLog, OutputReader
from naiad.hosts.process.spawn import ORPHAN_REAPER, end_children, end_now, reap_later, spawn

_log = logging.getLogger(__name__)

_LOST_S = 0.3
_STACKS_S = 1.0
_ANNOUNCED_S = 10.0

UNKILLABLE_S = 30.0
"""How long a process may take to end after SIGKILL. Large ones take seconds; one that waits in the kernel, for a network file system or
a driver, may never end."""


class WorkerOwner(typing.Protocol):
    """What a worker process calls back, on the event loop."""

    def on_alive(self, *, debugged: bool) -> None:
        """It answered ASK_ALIVE; `debugged`: a debugger for Python is loaded in it."""

    def on_gone(self, place: int) -> bool:
        """It closed the link of an instance; returns whether that concerns this instance alone."""

    def on_last_messages(self) -> None:
        """It has ended; its last messages are passed on next."""

    def on_end(self, how: str) -> None:
        """Called once, at the end, with how it ended, as text that follows "its worker process "."""


class WorkerProcess:
    """A worker.

    Args:
        identity: for the log and messages.
        plan: what runs in the process, with its instances at first.
        loop: the event loop in which every method and callback is called.
        owner: called with what concerns the process.

    Attributes:
        instances: the links of its instances; `links` are those by place.
        place: the processors that it runs on.
        notify: see `NotificationSender.send`.
        device_tensors: the tensors on GPUs that it lends and uses.
        ended: done when the process has ended and every descriptor is closed; the result says how.
    """

    def __init__(
        self,
        identity: Identity,
        plan: WorkerPlan,
        *,
        loop: asyncio.AbstractEventLoop,
        owner: WorkerOwner,
    ) -> None:
        self._identity = identity
        self._plan = plan
        self._loop = loop
        self._owner = owner
        self._output_log = OutputLog(identity)
        self._undo = contextlib.ExitStack()
        self._killed_because = ""
        self._timers: list[asyncio.TimerHandle] = []
        self.ended: asyncio.Future[str] = loop.create_future()

    async def start(self, instances: collections.abc.Mapping[int, WorkerInstance]) -> None:
        """Start the process; `instances`: by place, called with what comes on the link of each.

        Raises:
            OSError: the interpreter does not exist, or there is no descriptor or memory.
        """
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as failed:
            made = await spawn(self._identity, self._plan, undo)
            failed.callback(end_now, made.process)
            self._process = made.process
            self.place = WorkerAffinity(self.pid)
            failed.callback(self.place.close)
            self._gone = made.gone
            control = self._control = Link(made.control)
            undo.callback(control.close)
            self._notifications = NotificationSender(self._identity, control, loop=self._loop)
            self.notify = self._notifications.send
            self.device_tensors = DeviceTensors(self.notify, loop=self._loop)
            self._output = OutputReader(made.output, self._output_log, loop=self._loop)
            self.instances = InstanceLinks(
                self._identity,
                loop=self._loop,
                notify=self.notify,
                affinity=self.place,
                deaf=self._on_deaf,
                broken=self._on_broken,
            )
            self.links = self.instances.by_place
            undo.callback(self.instances.drop_all)
            for (place, instance), data in zip(instances.items(), made.data, strict=True):
                self.instances.listen(place, Link(data), instance)
            for descriptor, call in (
                (made.control.fileno(), self._receive_control),
                (made.output, self._output.on_readable),
                (made.gone, self._on_exit),
            ):
                self._loop.add_reader(descriptor, call)
                undo.callback(self._loop.remove_reader, descriptor)
            self._undo = undo.pop_all()
            failed.pop_all()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def output_tail(self) -> str:
        """See `OutputLog`."""
        return self._output_log.output_tail()

    def _on_deaf(self, error: LinkBrokenError) -> None:
        self._on_broken_link(f"does not listen ({error})")

    def _on_broken_link(self, because: str) -> None:
        """The link is broken, most likely because the process ends: give it a moment, so that its exit is reported as the reason."""
        self._timers.append(self._loop.call_later(_LOST_S, self.kill, because))

    def dump_and_kill(self, because: str) -> None:
        """Have the process write the stacks of its threads into the log, then kill it; `because` as for `kill`."""
        if self._signal(signal.SIGUSR2):
            self._killed_because = self._killed_because or because
            self._timers.append(self._loop.call_later(_STACKS_S, self.kill, because))

    def announced(self, how: str) -> None:
        """The process says that it ends, and how; it is killed if it does not."""
        self._killed_because = self._killed_because or how
        self._timers.append(self._loop.call_later(_ANNOUNCED_S, self.kill, how))

    def kill(self, because: str) -> None:
        """Kill the process; `because` follows "its worker process ". Safe at any time: if it has just ended by itself, that stays the reason."""
        if self._signal(signal.SIGKILL):
            self._killed_because = self._killed_because or because
            self._timers.append(self._loop.call_later(UNKILLABLE_S, self._abandon))

    async def end(self, *, in_order: bool, seconds: float) -> None:
        """Ask the process to end and wait for it; kill it after `seconds`, or at once if not `in_order`.

        A process that SIGKILL does not end is abandoned, see `UNKILLABLE_S`.
        """
        if in_order:
            for place in tuple(self.links):
                self.instances.ask_to_close(place)
            await asyncio.wait({self.ended}, timeout=seconds)
        if not self.ended.done():
            _log.error(
                "worker process %d of %s is killed: it does not end", self.pid, self._identity
            )
            self.kill("did not end")
            await asyncio.shield(self.ended)

    def _signal(self, number: signal.Signals) -> bool:
        """Send a signal; returns whether the process still runs. Does not reap it, as `Popen.send_signal` would: `_on_exit` does.

        Uses the pidfd, because the id of a reaped process may belong to another one.
        """
        if self.ended.done():
            return False
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            if os.waitid(os.P_PIDFD, self._gone, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                signal.pidfd_send_signal(self._gone, number)
                return True
        return False

    def _on_broken(self, place: int, error: LinkBrokenError) -> None:
        """No message of an instance comes any more."""
        if str(error) != GONE:
            self.kill(f"sent an invalid message ({error})")
        elif self._owner.on_gone(place):
            self.instances.drop(place)
        else:
            self._on_broken_link("closed its link")

    def _receive_control(self) -> None:
        try:
            kind, number, header = self._control.receive()
        except BlockingIOError:
            return
        except (
            LinkBrokenError,
            SegmentLostError,
        ):  # its exit, or what breaks the other links, says why
            self._loop.remove_reader(self._control.fileno())
            return
        if kind == ALIVE:
            self._owner.on_alive(debugged=bool(number))
        elif kind == RETURNED:
            self.device_tensors.returned(header)

    def _on_exit(self) -> None:
        end_children(self._process)
        status = self._process.poll()
        if status is None:
            return
        ORPHAN_REAPER.remove(self.pid)
        try:
            self._owner.on_last_messages()  # or the outcome of its last batch would bring it the next one
            self.instances.take_the_rest()
            self._output.read_rest()
        except Exception:  # noqa: BLE001  whatever happens here, its end is reported
            _log.exception("%s: the last output of its worker cannot be read", self._identity)
        finally:
            self._finish_end(self._killed_because or in_words(status))

    def _abandon(self) -> None:
        """The process does not end: stop waiting for it, and reap it if it ever ends."""
        _log.error(
            "worker process %d of %s does not end %g s after SIGKILL: a system call keeps it, of a network file system or a driver "
            "perhaps (its state in ps is D then). It is left behind, with the memory and the device that it has.",
            self.pid,
            self._identity,
            UNKILLABLE_S,
        )
        reap_later(self._loop, self._process, self._gone)
        self._finish_end("could not be ended")

    def _finish_end(self, how: str) -> None:
        """Close everything, then report how it ended."""
        for timer in self._timers:
            timer.cancel()
        self.instances.end()
        try:
            self.device_tensors.end()
            self._notifications.close()
            self._output.close()
        finally:
            self._undo.close()
            self.place.close()
            self.ended.set_result(how)
            self._owner.on_end(how)
