"""One life of a worker process: started, spoken with, watched, and buried, whichever way it ends.

All of it is on the event loop. The process is seen to die by its pidfd, so a child that it leaves behind with our sockets open hides
nothing; a socket that breaks while the process lives gets it killed. Its output is read until the last line, and every
descriptor is given back before anybody is told of its end.
"""

import asyncio
import collections
import collections.abc
import concurrent.futures
import contextlib
import functools
import logging
import os
import signal
import typing

from naiad.backends.backend import WorkerPlan
from naiad.hosts.cpu_affinity import WorkerAffinity
from naiad.hosts.orphan_reaper import ORPHAN_REAPER
from naiad.hosts.output_log import Identity, OutputLog
from naiad.hosts.spawn import end_children, end_now, in_words, reap_later, spawn
from naiad.hosts.worker.link import (
    AHEAD_BYTES,
    CLOSE,
    CREDIT,
    ERROR,
    GONE,
    NOTIFICATIONS,
    RESPONSE,
    RESULT,
    Link,
    LinkBrokenError,
    Payload,
    SegmentLostError,
)

_log = logging.getLogger(__name__)

_PIPE_BYTES = 1 << 16
_TURN_BYTES = 1 << 11
_PAUSE_S = 0.002
"""A worker that writes without end gets so much of its output taken at a time, and the loop does something else in between: a line costs
it some 25 µs, and a pipe holds thousands."""
_BURST = 64
_POST_AGAIN_S = 0.05
_LOST_S = 0.3
_STACKS_S = 0.2
_LAST_BURSTS = 1_000
"""More messages than a socket holds: what a worker sent before it ended is taken at once, but not what a child of its goes on sending."""

UNKILLABLE_S = 30.0
"""How long a process may take to end after SIGKILL. Large ones take seconds; one that waits in the kernel, for a network file system or
a driver, may never end."""


class WorkerProcess:
    """A worker.

    Args:
        identity: whose it is.
        plan: what runs in it.
        loop: whose thread calls every method and gets every call.
        on_message: told of each message in turn: its kind and header; the segment is `link.base`.
        on_notification: told of each notification one: its kind, number and header; the segment is `link.notification`.
        on_lost: called with each message whose segment could not be received.
        on_end: told once, at the end: how it ended, as words that follow "its worker process ".

    Attributes:
        link: to it.
        place: which processors it runs on.
        ended: done when it is gone and every descriptor is given back, with how it ended, as `on_end` is told it.
    """

    def __init__(
        self,
        identity: Identity,
        plan: WorkerPlan,
        *,
        loop: asyncio.AbstractEventLoop,
        on_message: collections.abc.Callable[[int, bytes | bytearray], None],
        on_notification: collections.abc.Callable[[int, int, bytes | bytearray], None],
        on_lost: collections.abc.Callable[[SegmentLostError], None],
        on_end: collections.abc.Callable[[str], None],
    ) -> None:
        self._identity = identity
        self._plan = plan
        self._loop = loop
        self._on_message = on_message
        self._on_notification = on_notification
        self._on_lost = on_lost
        self._on_end = on_end
        self._output = OutputLog(identity)
        self._undo = contextlib.ExitStack()
        self._killed_because = ""
        self._taken = 0
        self._pending: collections.deque[tuple[int, int, bytes, Payload | None]] = (
            collections.deque()
        )
        self._timers: list[asyncio.TimerHandle] = []
        self._retry: asyncio.TimerHandle | None = None
        self._copier: concurrent.futures.ThreadPoolExecutor | None = None
        self.ended: asyncio.Future[str] = loop.create_future()

    def start(self) -> None:
        """Start it, on the loop's own thread, with whose end the system ends it.

        Raises:
            OSError: there is no such interpreter, or no descriptor or memory left.
        """
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as failed:
            made = spawn(self._identity, self._plan, undo)
            failed.callback(end_now, made.process)
            self._process = made.process
            self.place = WorkerAffinity(self.pid, processors=len(os.sched_getaffinity(0)))
            self._gone = made.gone
            self.link = Link(made.data)
            undo.callback(self.link.close)
            self._control = Link(made.control)
            undo.callback(self._control.close)
            self._reading = made.output
            for descriptor, call in (
                (made.data.fileno(), self._receive),
                (made.output, self._take_output),
                (made.gone, self._on_exit),
            ):
                self._loop.add_reader(descriptor, call)
                undo.callback(self._loop.remove_reader, descriptor)
            self._undo = undo.pop_all()
            failed.pop_all()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def output_tail(self) -> str:
        """See `OutputLog`."""
        return self._output.output_tail()

    def send(self, *message: typing.Any) -> None:
        """As `Link.send`, but a link that is broken gets the process killed; the end is reported like any other.

        Raises:
            OSError: there is no memory or descriptor for the message; nothing was sent.
            MemoryError: the same.
        """
        try:
            self.link.send(*message)
        except LinkBrokenError as error:
            self._on_broken_link(f"does not listen ({error})")

    def send_aside(
        self, *message: typing.Any, done: collections.abc.Callable[[Exception | None], None]
    ) -> None:
        """As `send`, on a thread that starts with the first such message and ends with the worker: copying 64 MB takes 50 ms and more.

        Args:
            message: as of `Link.send`.
            done: called on the loop once it is out, with what else than a broken link was raised; not when the worker has ended meanwhile.
        """
        if self._copier is None:
            self._copier = concurrent.futures.ThreadPoolExecutor(
                1, f"{self._identity.instance}-copies"
            )
        send = functools.partial(self.link.send, *message)
        sending = self._loop.run_in_executor(self._copier, send)
        sending.add_done_callback(functools.partial(self._sent, done))

    def _sent(
        self,
        done: collections.abc.Callable[[Exception | None], None],
        sending: "asyncio.Future[None]",
    ) -> None:
        error = sending.exception()
        if self.ended.done():
            return
        if isinstance(error, LinkBrokenError):
            self._on_broken_link(f"does not listen ({error})")
        else:
            done(typing.cast("Exception | None", error))

    def notify(
        self, kind: int, number: int = 0, header: bytes = b"", payload: Payload | None = None
    ) -> None:
        """Post a message; a worker that does not listen just now gets it later, one that is gone never.

        An answer for which there is no memory or descriptor becomes an error for the question of that number.
        """
        self._pending.append((kind, number, header, payload))
        if len(self._pending) == 1:
            self._send_pending()

    def _on_broken_link(self, because: str) -> None:
        """Its link is broken, most likely because it ends: it has a moment to do so, which then is what is told."""
        self._timers.append(self._loop.call_later(_LOST_S, self.kill, because))

    def _send_pending(self) -> None:
        waiting = self._pending
        self._retry = None
        try:
            while waiting:
                kind, number, header, payload = waiting[0]
                try:
                    self._control.notify(kind, header, payload, number)
                except (BlockingIOError, LinkBrokenError):
                    raise
                except Exception as error:  # noqa: BLE001  no message may keep those behind it, whatever is wrong with it
                    if not self._replaced(kind, number, error):
                        return
                else:
                    waiting.popleft()
        except BlockingIOError:
            self._loop.add_writer(self._control.fileno(), self._resume_sending)
        except LinkBrokenError:
            waiting.clear()

    def _replaced(self, kind: int, number: int, error: Exception) -> bool:
        """The first message cannot be notification: an answer becomes an error, a short message waits for better times."""
        if kind != RESULT:
            self._retry = self._loop.call_later(_POST_AGAIN_S, self._send_pending)
            return False
        _log.error("%s: the answer to a question of its cannot be sent: %s", self._identity, error)
        why = f"the server could not send the answer: {error}"
        self._pending[0] = (ERROR, number, why.encode(), None)
        return True

    def _resume_sending(self) -> None:
        self._loop.remove_writer(self._control.fileno())
        self._send_pending()

    def dump_and_kill(self, because: str) -> None:
        """Have it write the stacks of its threads into the log, then end it; `because` as for `kill`."""
        if self._signal(signal.SIGUSR2):
            self._killed_because = self._killed_because or because
            self._timers.append(self._loop.call_later(_STACKS_S, self.kill, because))

    def kill(self, because: str) -> None:
        """End it now; `because` follows "its worker process ". Safe at any time: one that has just ended by itself is not renamed."""
        if self._signal(signal.SIGKILL):
            self._killed_because = self._killed_because or because
            self._timers.append(self._loop.call_later(UNKILLABLE_S, self._abandon))

    async def end(self, *, in_order: bool, seconds: float) -> None:
        """Have it end, and wait until it has: killed after so many seconds, or at once if not `in_order`.

        A process that not even SIGKILL ends is left to the system, see `UNKILLABLE_S`.
        """
        if in_order:
            try:
                self.send(CLOSE, b"{}")
            except (OSError, MemoryError) as error:
                _log.warning("%s: its worker cannot be told to end: %s", self._identity, error)
            else:
                await asyncio.wait({self.ended}, timeout=seconds)
        if not self.ended.done():
            _log.error(
                "worker process %d of %s is killed: it does not end", self.pid, self._identity
            )
            self.kill("did not end")
            await asyncio.shield(self.ended)

    def _signal(self, number: signal.Signals) -> bool:
        """Send a signal; gives back whether it still runs. It is not reaped here, as `Popen.send_signal` would: that is for `_on_exit`.

        By its pidfd: the number of a process that was reaped may be another one's by now.
        """
        if self.ended.done():
            return False
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            if os.waitid(os.P_PIDFD, self._gone, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                signal.pidfd_send_signal(self._gone, number)
                return True
        return False

    def _receive(self) -> bool:
        """Take what it sent; gives back whether there may be more."""
        link = self.link
        try:
            # Posted messages come in bursts; after one in turn there is seldom another. Large ones leave the loop a turn in between.
            taken = 0
            for _ in range(_BURST):
                try:
                    kind, number, header = link.receive()
                except SegmentLostError as lost:
                    self._on_lost(lost)
                    if lost.kind == RESPONSE:
                        self._took(lost.size)
                    continue
                if kind < NOTIFICATIONS:
                    self._on_message(kind, header)
                    return True
                size = len(link.notification) if kind == RESPONSE else 0
                self._on_notification(kind, number, header)
                if size:
                    self._took(size)
                    taken += size
                    if taken > AHEAD_BYTES:
                        break
        except BlockingIOError:  # that was all, or woken for nothing, as a loop may be
            return False
        except LinkBrokenError as error:
            self._loop.remove_reader(link.fileno())
            if str(error) == GONE:
                self._on_broken_link("closed its link")
            else:
                self.kill(f"sent nonsense ({error})")
            return False
        return True

    def _took(self, size: int) -> None:
        """A response is handed on: let the worker know before it has to wait. A PAUSE on account of it has gone ahead of this."""
        self._taken += size
        if self._taken > AHEAD_BYTES // 2:
            self.notify(CREDIT, self._taken)
            self._taken = 0

    def _take_output(self) -> None:
        """Take some of what it wrote."""
        if self._read_output(_TURN_BYTES) == _TURN_BYTES:
            self._loop.remove_reader(self._reading)
            self._loop.call_later(_PAUSE_S, self._take_more_output)

    def _take_more_output(self) -> None:
        if not self.ended.done():
            self._loop.add_reader(self._reading, self._take_output)

    def _read_output(self, most: int = _PIPE_BYTES) -> int:
        """Take what it wrote; gives back how many bytes that was."""
        try:
            data = os.read(self._reading, most)
        except BlockingIOError:
            return 0
        if not data:
            self._loop.remove_reader(self._reading)
        self._output.feed(data)
        return len(data)

    def _on_exit(self) -> None:
        end_children(self._process)
        status = self._process.poll()
        if status is None:
            return
        ORPHAN_REAPER.remove(self.pid)
        try:
            self._take_the_rest()
        except Exception:  # noqa: BLE001  whatever it left, those who wait are told that it is over
            _log.exception("%s: what its worker left cannot be read", self._identity)
        finally:
            self._finish_end(self._killed_because or in_words(status))

    def _take_the_rest(self) -> None:
        """What it sent before it ended still counts: why it could not load, the outcome of its last batch."""
        for _ in range(_LAST_BURSTS):
            if not self._receive():
                break
        # All that a pipe holds, and no more: a child that left its group may write for ever.
        left = _PIPE_BYTES
        while left > 0 and (taken := self._read_output(left)):
            left -= taken

    def _abandon(self) -> None:
        """It does not end, whatever the reason: the server stops waiting for it, and reaps it if it ever ends."""
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
        """Give everything back, then tell how it ended."""
        for timer in self._timers:
            timer.cancel()
        if self._retry is not None:
            self._retry.cancel()
        self._pending.clear()
        if self._copier is not None:
            self._copier.shutdown(wait=False)
        try:
            self._output.close()
            self._loop.remove_writer(self._control.fileno())
        finally:
            self._undo.close()
            self.ended.set_result(how)
            self._on_end(how)
