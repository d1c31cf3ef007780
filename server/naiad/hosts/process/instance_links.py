"""The links of a worker process to its instances, one for each: messages out and in, instances that come and go.

An instance has a place, by which its link is found. Responses that were taken are credited to the process as a whole. All of it runs on the event
loop, except the copy of large batches.
"""

import asyncio
import collections.abc
import concurrent.futures
import contextlib
import functools
import logging
import socket
import typing
from typing import Any

from naiad.core.processes.inherited import be_free
from naiad.hosts.cpu_affinity import WorkerAffinity
from naiad.hosts.host import Notify, WorkerInstance
from naiad.hosts.link.kinds import ADD, CALL, CLOSE, CREDIT, NOTIFICATIONS, RESPONSE
from naiad.hosts.link.link import AHEAD_BYTES, Link, LinkBrokenError, SegmentLostError
from naiad.hosts.link.payload import Gathering, Prepared
from naiad.hosts.process.notifications import NotificationSender
from naiad.hosts.process.output_log import Identity

_log = logging.getLogger(__name__)

_BURST = 64
_FORGET_AGAIN_S = 1.0
_LAST_BURSTS = 1_000
"""More messages than a socket holds: what a worker sent before it ended is read at once, but not what a child of it keeps sending."""


class InstanceLinks:
    """The links of one process.

    Args:
        identity: of the process, for the log.
        loop: the event loop in which every method and callback is called.
        notify: see `NotificationSender.send`.
        affinity: the processors that it runs on.
        deaf: called when a message cannot be sent because the link is broken, with the reason.
        broken: called with the place of an instance from whose link nothing comes any more, and the reason.

    Attributes:
        by_place: the link of each instance, also of one that is being closed.
        closing: by place, the instances that the process was asked to close: done when it has, or has ended.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        loop: asyncio.AbstractEventLoop,
        notify: collections.abc.Callable[..., None],
        affinity: WorkerAffinity,
        deaf: collections.abc.Callable[[LinkBrokenError], None],
        broken: collections.abc.Callable[[int, LinkBrokenError], None],
    ) -> None:
        self._identity = identity
        self._loop = loop
        self._notify = notify
        self._affinity = affinity
        self._deaf = deaf
        self._broken = broken
        self.by_place: dict[int, Link] = {}
        self.closing: dict[int, asyncio.Future[None]] = {}
        self._instances: dict[int, WorkerInstance] = {}
        self._threads: dict[int, int] = {}
        self._repliers: dict[int, NotificationSender] = {}
        self._copier: concurrent.futures.ThreadPoolExecutor | None = None
        self._taken = 0
        self._ended = False

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
        self.listen(place, Link(ours), instance)
        self._notify(ADD, 0, header, None, theirs)

    def served_by(self, place: int, thread: int) -> None:
        """An instance has a thread of its own; all but the first have."""
        self._threads[place] = thread
        self._affinity.add(thread)

    def ask_to_close(self, place: int) -> None:
        """Have the process close an instance, which has no batch, once it is made; `drop` comes when it has. Idempotent."""
        if place in self.closing or place not in self.by_place:
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
            replier = NotificationSender(self._identity, self.by_place[place], loop=self._loop)
            self._repliers[place] = replier
        return replier.send

    def drop(self, place: int) -> None:
        """An instance is closed, or could not be made: there is nothing at its place any more."""
        replier = self._repliers.pop(place, None)
        if replier is not None:
            replier.close()
        link = self.by_place.pop(place, None)
        if link is not None:
            self._loop.remove_reader(link.fileno())
            link.close()
        self._instances.pop(place, None)
        thread = self._threads.pop(place, None)
        if thread is not None:
            self._affinity.remove(thread)
        closed = self.closing.pop(place, None)
        if closed is not None:
            closed.set_result(None)

    def listen(self, place: int, link: Link, instance: WorkerInstance) -> None:
        """Take what comes on the link of an instance."""
        self._instances[place] = instance
        self.by_place[place] = link
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
        if link not in self.by_place.values():
            return
        try:
            link.lent.forget(link.share)
        except LinkBrokenError:
            return  # its end is reported elsewhere
        except OSError:
            self._loop.call_later(_FORGET_AGAIN_S, self._forget, link)

    def send(self, place: int, *message: Any) -> None:
        """As `Link.send` on the link of an instance, except that a broken link ends the process, which is reported like any other end.

        Raises:
            OSError: there is no memory or descriptor for the message; nothing was sent.
            MemoryError: the same.
        """
        try:
            self.by_place[place].send(*message)
        except LinkBrokenError as error:
            self._deaf(error)

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
                len(self.by_place), f"{self._identity.instance}-copies", initializer=be_free
            )
        link = self.by_place[place]
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
        if self._ended:
            return
        if error is not None:
            link.not_sent(prepared)
        if isinstance(error, LinkBrokenError):
            self._deaf(error)
        else:
            done(typing.cast("Exception | None", error))

    def take_the_rest(self) -> None:
        """Receive what the process sent before it ended: why it could not load, the outcome of its last batch."""
        for place, link in tuple(self.by_place.items()):
            for _ in range(_LAST_BURSTS):
                instance = self._instances.get(place)
                if instance is None or not self._receive(place, link, instance):
                    break

    def end(self) -> None:
        """The process has ended: send nothing more, and call nothing back. Its links stay until `drop_all`."""
        self._ended = True
        self._deaf = self._broken = (
            _ignore  # or this and the process would keep each other in memory
        )
        if self._copier is not None:
            self._copier.shutdown(wait=False)

    def drop_all(self) -> None:
        """There is nothing at any place any more."""
        for place in tuple(self.by_place):
            self.drop(place)

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
            self._broken(place, error)
            return False
        return True

    def _took(self, size: int) -> None:
        """Send credit for a response that was delivered, before the worker has to wait. A PAUSE because of it was sent before."""
        self._taken += size
        if self._taken > AHEAD_BYTES // 2:
            self._notify(CREDIT, self._taken)
            self._taken = 0


def _ignore(*what: object) -> None:
    """The process has ended."""
