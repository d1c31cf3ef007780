"""A worker process from its start to its end: messages, signals and exit.

All of it runs on the event loop. The pidfd shows the exit of the process, even if a child of it keeps our sockets open. If a socket breaks
while the process lives, the process is killed. Its output is read to the last line, and every descriptor is closed before `on_end` is
called.
"""

import asyncio
import collections.abc
import concurrent.futures
import contextlib
import functools
import logging
import os
import signal
import socket
import typing
from typing import Any

from naiad.backends.backend import WorkerPlan
from naiad.core.processes.child_process import in_words
from naiad.hosts.cpu_affinity import WorkerAffinity
from naiad.hosts.device_tensors import DeviceTensors
from naiad.hosts.host import Notify, WorkerInstance
from naiad.hosts.process.notifications import NotificationSender
from naiad.hosts.process.output_log import Identity, OutputLog, OutputReader
from naiad.hosts.process.spawn import ORPHAN_REAPER, end_children, end_now, reap_later, spawn
from naiad.hosts.worker.kinds import (
    ADD,
    ALIVE,
    CALL,
    CLOSE,
    CREDIT,
    NOTIFICATIONS,
    RESPONSE,
    RETURNED,
)
from naiad.hosts.worker.link import AHEAD_BYTES, GONE, Link, LinkBrokenError, SegmentLostError
from naiad.hosts.worker.payload import Gathering, Prepared

_log = logging.getLogger(__name__)

_BURST = 64
_LOST_S = 0.3
_STACKS_S = 1.0
_FORGET_AGAIN_S = 1.0
_ANNOUNCED_S = 10.0
_LAST_BURSTS = 1_000
"""More messages than a socket holds: what a worker sent before it ended is read at once, but not what a child of it keeps sending."""

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
        plan: what runs in the process, with an instance for each of `instances`.
        loop: the event loop in which every method and callback is called.
        instances: by place, called with what comes on the link of each.
        owner: called with what concerns the process.

    Attributes:
        links: by place, the link of each instance, also of one that is being closed.
        closing: by place, the instances that the process was asked to close: done when it has, or has ended.
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
        instances: collections.abc.Mapping[int, WorkerInstance],
        owner: WorkerOwner,
    ) -> None:
        self._identity = identity
        self._plan = plan
        self._loop = loop
        self._instances = dict(instances)
        self._owner = owner
        self._output_log = OutputLog(identity)
        self._undo = contextlib.ExitStack()
        self._killed_because = ""
        self._taken = 0
        self._timers: list[asyncio.TimerHandle] = []
        self.links: dict[int, Link] = {}
        self.closing: dict[int, asyncio.Future[None]] = {}
        self._threads: dict[int, int] = {}
        self._repliers: dict[int, NotificationSender] = {}
        self._copier: concurrent.futures.ThreadPoolExecutor | None = None
        self.ended: asyncio.Future[str] = loop.create_future()

    async def start(self) -> None:
        """Start the process.

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
            undo.callback(self._drop_links)
            for (place, instance), data in zip(self._instances.items(), made.data, strict=True):
                self._listen(place, Link(data), instance)
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

    def add(self, place: int, instance: WorkerInstance, header: bytes) -> None:
        """Have the process make another instance; LOADED or REFUSED comes on its link.

        Args:
            place: where no instance is.
            instance: called with what comes on the link.
            header: of ADD.

        Raises:
            OSError: there is no descriptor left.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._instances[place] = instance
        self._listen(place, Link(ours), instance)
        self.notify(ADD, 0, header, None, theirs)

    def served_by(self, place: int, thread: int) -> None:
        """An instance has a thread of its own; all but the first have."""
        self._threads[place] = thread
        self.place.add(thread)

    def close_instance(self, place: int) -> None:
        """Have the process close an instance, which has no batch, once it is made; `drop` comes when it has. Idempotent."""
        if place in self.closing or place not in self.links:
            return
        self.closing[place] = self._loop.create_future()
        try:
            self.send(place, CLOSE, b"{}")
        except (OSError, MemoryError) as error:
            _log.warning("%s: its worker cannot be asked to end: %s", self._identity, error)

    def replies_to(self, place: int) -> Notify:
        """What sends replies to the thread of an instance that waits for one, on the instance's own link."""
        replier = self._repliers.get(place)
        if replier is None:
            replier = NotificationSender(self._identity, self.links[place], loop=self._loop)
            self._repliers[place] = replier
        return replier.send

    def drop(self, place: int) -> None:
        """An instance is closed, or could not be made: there is nothing at its place any more."""
        replier = self._repliers.pop(place, None)
        if replier is not None:
            replier.close()
        link = self.links.pop(place, None)
        if link is not None:
            self._loop.remove_reader(link.fileno())
            link.close()
        self._instances.pop(place, None)
        thread = self._threads.pop(place, None)
        if thread is not None:
            self.place.remove(thread)
        closed = self.closing.pop(place, None)
        if closed is not None:
            closed.set_result(None)

    def _listen(self, place: int, link: Link, instance: WorkerInstance) -> None:
        self.links[place] = link
        link.lent.on_gone = functools.partial(self._forget_soon, link)
        self._loop.add_reader(
            link.fileno(), functools.partial(self._receive, place, link, instance)
        )

    def _forget_soon(self, link: Link) -> None:
        """A region has ended, or is sent again; in whatever thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._forget, link)

    def _forget(self, link: Link) -> None:
        """Have an instance close what it has of regions that have ended; again later if it does not read now."""
        if link not in self.links.values():
            return
        try:
            link.lent.forget(link.share)
        except LinkBrokenError:
            return  # its end is reported elsewhere
        except OSError:
            self._loop.call_later(_FORGET_AGAIN_S, self._forget, link)

    def _drop_links(self) -> None:
        for place in tuple(self.links):
            self.drop(place)

    def send(self, place: int, *message: Any) -> None:
        """As `Link.send` on the link of an instance, except that a broken link ends the process, which is reported like any other end.

        Raises:
            OSError: there is no memory or descriptor for the message; nothing was sent.
            MemoryError: the same.
        """
        try:
            self.links[place].send(*message)
        except LinkBrokenError as error:
            self._on_broken_link(f"does not listen ({error})")

    def send_aside(
        self,
        place: int,
        *message: Any,
        gathering: Gathering,
        done: collections.abc.Callable[[Exception | None], None],
    ) -> None:
        """As `send`, on a thread that starts with the first such message and ends with the worker: copying 64 MB takes 50 ms or more.

        Args:
            place: the position of the instance.
            message: as of `Link.send`.
            gathering: gets the times, before the worker gets the message.
            done: called on the loop once it is sent, with the exception if that failed; not if the link is broken or the worker has ended.
                No other message may be sent to the instance before that.

        Raises:
            OSError: there is no memory or descriptor for the message.
            MemoryError: the same.
        """
        if self._copier is None:
            self._copier = concurrent.futures.ThreadPoolExecutor(
                len(self.links), f"{self._identity.instance}-copies"
            )
        link = self.links[place]
        prepared = link.prepare(*message)
        sending = self._loop.run_in_executor(self._copier, link.send_prepared, prepared, gathering)
        sending.add_done_callback(functools.partial(self._sent, link, prepared, done))

    def _sent(
        self,
        link: Link,
        prepared: Prepared,
        done: collections.abc.Callable[[Exception | None], None],
        sending: "asyncio.Future[None]",
    ) -> None:
        error = sending.exception()
        if self.ended.done():
            return
        if error is not None:
            link.not_sent(prepared)
        if isinstance(error, LinkBrokenError):
            self._on_broken_link(f"does not listen ({error})")
        else:
            done(typing.cast("Exception | None", error))

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
                self.close_instance(place)
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

    def _receive(self, place: int, link: Link, instance: WorkerInstance) -> bool:
        """Receive messages of an instance; returns whether there may be more."""
        try:
            # Notifications come in bursts; after a call message there is seldom another. After large ones the loop gets an iteration.
            taken = 0
            for _ in range(_BURST):
                try:
                    kind, number, header = link.receive()
                except SegmentLostError as lost:
                    instance.on_lost(lost)
                    if lost.kind == RESPONSE:
                        self._took(lost.size)
                    continue
                if kind < NOTIFICATIONS:
                    instance.on_message(kind, header)
                    return True
                content = link.take_notification()
                size = len(content) if kind == RESPONSE else 0
                instance.on_notification(kind, number, header, content)
                del content  # or its segment would stay in use until the next one
                if kind == CALL:  # its thread waits
                    return True
                if size:
                    self._took(size)
                    taken += size
                    if taken > AHEAD_BYTES:
                        break
        except BlockingIOError:  # no more messages, or a spurious wake-up
            return False
        except LinkBrokenError as error:
            self._loop.remove_reader(link.fileno())
            self._on_broken(place, error)
            return False
        return True

    def _on_broken(self, place: int, error: LinkBrokenError) -> None:
        """No message of an instance comes any more."""
        if str(error) != GONE:
            self.kill(f"sent an invalid message ({error})")
        elif self._owner.on_gone(place):
            self.drop(place)
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

    def _took(self, size: int) -> None:
        """Send credit for a response that was delivered, before the worker has to wait. A PAUSE because of it was sent before."""
        self._taken += size
        if self._taken > AHEAD_BYTES // 2:
            self.notify(CREDIT, self._taken)
            self._taken = 0

    def _on_exit(self) -> None:
        end_children(self._process)
        status = self._process.poll()
        if status is None:
            return
        ORPHAN_REAPER.remove(self.pid)
        try:
            self._owner.on_last_messages()  # or the outcome of its last batch would bring it the next one
            self._take_the_rest()
        except Exception:  # noqa: BLE001  whatever happens here, its end is reported
            _log.exception("%s: the last output of its worker cannot be read", self._identity)
        finally:
            self._finish_end(self._killed_because or in_words(status))

    def _take_the_rest(self) -> None:
        """Receive what it sent before it ended: why it could not load, the outcome of its last batch."""
        for place, link in tuple(self.links.items()):
            for _ in range(_LAST_BURSTS):
                instance = self._instances.get(place)
                if instance is None or not self._receive(place, link, instance):
                    break
        self._output.read_rest()

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
        if self._copier is not None:
            self._copier.shutdown(wait=False)
        try:
            self.device_tensors.end()
            self._notifications.close()
            self._output.close()
        finally:
            self._undo.close()
            self.place.close()
            self.ended.set_result(how)
            self._owner.on_end(how)
