"""The tensors on GPUs that worker processes lend each other: who has to keep which for whom. On the event loop, but for `Lease`.

A tensor that a worker sends is kept there until the server says RELEASE: when nothing of the server refers to it any more, and every worker that it was sent to
has said RETURNED, or has ended. Nothing waits for any of it. A worker whose memory others have opened tells these, by its end, to close it.
"""

import asyncio
import collections.abc
import itertools
import struct
import threading
import typing
import weakref

from naiad.core.datatypes import DataType
from naiad.core.device_tensor import DeviceTensor, Lease
from naiad.core.tensor import NO_VALUES
from naiad.hosts.link.kinds import OWNER_ENDED, RELEASE
from naiad.tensors import descriptor
from naiad.tensors.memory import Memory

_owners = itertools.count(1)


class Notify(typing.Protocol):
    """Sends a notification to the worker."""

    def __call__(self, kind: int, number: int = 0) -> None:
        """See `NotificationSender.send`."""
        ...


class Borrower(typing.Protocol):
    """A process that opens memory of others."""

    def owner_ended(self, owner: int) -> None:
        """What has this number has ended, whose memory this one may have opened. On the event loop."""
        ...


class DeviceTensors:
    """Those of one worker process.

    Args:
        notify: sends notifications to it.
        loop: the event loop.

    Attributes:
        mark: the number of the next tensor that is lent to it, for `not_sent`.
    """

    def __init__(self, notify: Notify, *, loop: asyncio.AbstractEventLoop) -> None:
        self._owner = next(_owners)
        self._notify = notify
        self._loop = loop
        self._thread = threading.get_ident()
        self._ended = False
        self.mark = 1
        self._borrowed: dict[int, DeviceTensor] = {}
        self._borrowers: weakref.WeakSet[Borrower] = weakref.WeakSet()

    def __len__(self) -> int:
        """The number of tensors of other workers that it uses."""
        return len(self._borrowed)

    def received(
        self, name: str, datatype: DataType, shape: tuple[int, ...], placed: Memory, packed: bytes
    ) -> DeviceTensor:
        """A tensor that it sent.

        Args:
            name: its name.
            datatype: its datatype.
            shape: as clients see it.
            placed: where it is.
            packed: its descriptor.

        Raises:
            struct.error: that is not a descriptor.
        """
        found = descriptor.unpacked(packed)
        number = found.number
        lease = OwnedLease(lambda: self._release(number), self)
        opened_by = found._replace(owner=self._owner).packed()
        return DeviceTensor(name, datatype, shape, NO_VALUES, None, placed, opened_by, lease)

    def lend(self, tensor: DeviceTensor) -> bytes:
        """What is sent to it of another worker's tensor, which is kept until it says RETURNED, or has ended."""
        number, self.mark = self.mark, self.mark + 1
        self._borrowed[number] = tensor
        if isinstance(tensor.lease, OwnedLease):
            tensor.lease.owner.lent_to(self)
        return descriptor.unpacked(tensor.descriptor)._replace(number=number).packed()

    def lent_to(self, other: "Borrower") -> None:
        """Another process may open its memory."""
        self._borrowers.add(other)

    def not_sent(self, mark: int, end: int) -> None:
        """What was lent to it from one mark to another was not sent."""
        for number in range(mark, end):
            self._borrowed.pop(number, None)

    def returned(self, packed: bytes | bytearray) -> None:
        """It does not use tensors any more.

        Raises:
            struct.error: these are not numbers.
        """
        for (number,) in struct.iter_unpack("<Q", packed):
            self._borrowed.pop(number, None)

    def end(self) -> None:
        """The process has ended: it uses nothing any more, and its memory is to be closed elsewhere."""
        self._ended = True
        self._borrowed.clear()
        for borrower in tuple(self._borrowers):
            borrower.owner_ended(self._owner)
        self._borrowers.clear()

    def owner_ended(self, owner: int) -> None:
        """A process has ended whose memory this one may have opened."""
        if not self._ended:
            self._notify(OWNER_ENDED, owner)

    def _release(self, number: int) -> None:
        if threading.get_ident() == self._thread:
            self._released(number)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._released, number)

    def _released(self, number: int) -> None:
        if not self._ended:
            self._notify(RELEASE, number)


class MemoryOwner(typing.Protocol):
    """Whose memory it is."""

    def lent_to(self, other: Borrower) -> None:
        """Another process may open its memory. On the event loop."""
        ...


class OwnedLease(Lease):
    """The lease of a tensor of a worker, or of a client."""

    __slots__ = ("owner",)

    def __init__(self, end: collections.abc.Callable[[], None], owner: MemoryOwner) -> None:
        super().__init__(end)
        self.owner = owner
