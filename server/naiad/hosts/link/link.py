"""The link between the server and a worker process: short messages on sockets, large payloads in shared memory.

SOCK_SEQPACKET socket pairs: one per instance, and the control socket. The former carry calls: a batch, then its outcome; a second batch may
be sent before the outcome of the first (`Instance.prefetches`). A message has 32 bytes and costs one wake-up. Its
payload is in a segment of the sender, an anonymous file (memfd) whose descriptor is sent with the first message that uses
it: tensors first, each at a multiple of 64 bytes, then the header, in JSON. Up to 32 KiB follow the 32 bytes instead. Segments have no
name in the file system, so nothing is left when both processes are gone.

The receiver uses tensors without a copy. Its next message says which of the sender's segments are still in use;
the sender reuses the others, because a mapped page of memory costs a tenth of a new one (`call_segments.py`). It also says how many call messages the receiver
has read, because it says nothing of those that it has not.

All other messages are notifications, sent from any thread; the segments of large ones are used again by a rule of their own
(`notification_segments.py`). A worker sends its notifications on
the instance's socket, so that a response arrives before the outcome of its batch; the server sends its own on the control socket, where a thread
of the worker listens also while batches run.
A receiver without a descriptor or address space left cannot map a new segment: it gets `SegmentLostError` instead of the message, and
its next call message says which segments it does not have, so that the sender makes new ones.
A new kind of request (of a worker to the server, for example) needs two kinds of notifications, one in each direction, and a number
that the reply repeats.
"""

import array
import os
import socket
import struct
from typing import Any

from naiad.hosts.link.call_segments import (
    ALL_HELD,
    COUNTED,
    LARGE,
    SLOTS,
    MappedSegments,
    SentSegments,
)
from naiad.hosts.link.kinds import ADD, NOTIFICATIONS, SHARE
from naiad.hosts.link.notification_segments import ReceivedSegments, SegmentPool
from naiad.hosts.link.payload import Gathering, Payload, Prepared
from naiad.hosts.link.segments import (
    CUT_OFF,
    SHORTAGES,
    discard,
    passed_file,
    passed_socket,
    received,
)
from naiad.tensors.region_files import REGION_FILE, SentFiles
from naiad.tensors.shared_slots import ReceivedSlots, SentSlots

PLACE_SHIFT = 48
"""The requests of a worker's instances are numbered from the instance's place, shifted by this: a number that it keeps while it is in the
process. GET_READY and PING have such a number as well."""

AHEAD_BYTES = 1 << 20
"""Bytes of responses that may be on their way to the server; the one that passes it still goes, the next waits for a CREDIT. The socket
would let hundreds of messages pass, however large what they are about."""

GONE = "the other side is gone"

_MESSAGE = struct.Struct("<BBBBIQQQ")
_DESCRIPTOR = array.array("i").itemsize
_ANCILLARY = socket.CMSG_SPACE(_DESCRIPTOR)
_INLINE = 1 << 15
"""Payloads and headers up to this many bytes are in the packet itself."""

_IN_THE_PACKET = 255
"""Instead of a slot."""

_CLOSED_ON_EXEC = int(socket.MSG_CMSG_CLOEXEC)


class LinkBrokenError(Exception):
    """The other side is gone, or sent an invalid message."""


class SegmentLostError(Exception):
    """A message came without its segment: this process could not receive or map the descriptor.

    Attributes:
        kind: the message's.
        number: the message's.
        size: bytes of the payload and header.
    """

    def __init__(self, kind: int, number: int, size: int, why: str) -> None:
        super().__init__(why)
        self.kind = kind
        self.number = number
        self.size = size


class Link:
    """One end. All methods but `post` belong to one thread.

    Args:
        connection: SOCK_SEQPACKET; owned by the link.
        takes_sockets: whether ADD may bring one.
        takes_files: whether SHARE may bring one.

    Attributes:
        shared: files that the other side has as well.
        lent: clients' shared memory objects that it has.
        shared_by_other: files of the other side.
    """

    def __init__(
        self, connection: socket.socket, *, takes_sockets: bool = False, takes_files: bool = False
    ) -> None:
        self._socket = connection
        self._ours = SentSegments()
        self._theirs = MappedSegments()
        self._received = 0
        self._packed: bytearray | None = None
        self._packet = bytearray(_MESSAGE.size + _INLINE)
        self._notification: Any = None
        self._takes_sockets = takes_sockets
        self._takes_files = takes_files
        self._passed: socket.socket | None = None
        self.shared = SentSlots()
        self.shared_by_other = ReceivedSlots()
        self.lent = SentFiles()
        self._pool = SegmentPool()
        self._notified = ReceivedSegments()

    def take_socket(self) -> "socket.socket | None":
        """The socket that came with the last ADD; None if this process had no descriptor left for it."""
        found, self._passed = self._passed, None
        return found

    def take_notification(self) -> Any:
        """The payload and header of the last notification, as `base`; the link does not refer to it any more."""
        found, self._notification = self._notification, None
        return found

    @property
    def notified(self) -> Any:
        """The whole segment of the last large notification, if it will be used again; see `ReceivedSegments.whole`."""
        return self._notified.whole

    @property
    def base(self) -> Any:
        """The segment of the last call message, as uint8, or a bytearray.

        The other side does not reuse a segment as long as it, or a view of it, is referenced.
        """
        packed = self._packed
        return self._theirs.current if packed is None else packed

    def fileno(self) -> int:
        """The socket's descriptor, to wait for messages."""
        return self._socket.fileno()

    def send(
        self, kind: int, header: bytes, payload: "Payload | None" = None, number: int = 0
    ) -> None:
        """Send a call message; `number` is that of the first request of its batch.

        Raises:
            LinkBrokenError: the other side is gone.
            OSError: there is no memory or descriptor for the segment; nothing was sent.
            MemoryError: the same.
        """
        at = 0 if payload is None else payload.size
        needed = at + len(header)
        if needed <= _INLINE:
            message = _MESSAGE.pack(
                kind, self._theirs.held(), _IN_THE_PACKET, self._received, self.shared_by_other.noted(), number, at, len(header),
            )  # fmt: skip
            tensors = b"" if payload is None else payload.joined()
            self._pass(message + tensors + header, -1)
            self._ours.sent += 1
            return
        prepared = self.prepare(kind, header, payload, number)
        try:
            self.send_prepared(prepared)
        except BaseException:
            self.not_sent(prepared)
            raise

    def prepare(
        self, kind: int, header: bytes, payload: "Payload | None" = None, number: int = 0
    ) -> Prepared:
        """Give a call message its segment; `send_prepared` comes next, before any other call message.

        Raises:
            OSError: there is no memory or descriptor for the segment.
            MemoryError: the same.
        """
        at = 0 if payload is None else payload.size
        fresh, slot, segment = self._ours.take(at + len(header))
        held = self._theirs.held()
        noted = self.shared_by_other.noted()
        message = _MESSAGE.pack(kind, held, slot, self._received, noted, number, at, len(header))
        return Prepared(message, header, payload, segment, fresh)

    def send_prepared(self, prepared: Prepared, gathering: "Gathering | None" = None) -> None:
        """Copy and send a call message, in any thread; if it fails, `not_sent` comes next. `gathering` gets the times.

        Raises:
            LinkBrokenError: the other side is gone.
            OSError: there is no descriptor left; nothing was sent.
        """
        message, header, payload, segment, fresh = prepared
        if gathering is not None:
            gathering.begun_ns = gathering.now_ns()
        try:
            at = 0 if payload is None else payload.size
            if payload is not None:
                # Of a large one the server takes the pages out of the file once the instance is idle.
                payload.write(segment.memory, segment.written, pins=segment.capacity <= LARGE)
            segment.memory[at : at + len(header)] = header
            if gathering is not None:
                gathering.ended_ns = gathering.now_ns()
            self._pass(message, fresh)
        finally:
            if fresh >= 0:
                os.close(fresh)

    def not_sent(self, prepared: Prepared) -> None:
        """The last call message was not sent."""
        self._ours.not_sent(prepared.fresh, prepared.segment)

    def notify(
        self,
        kind: int,
        header: bytes,
        payload: "Payload | None" = None,
        number: int = 0,
        passed: int = -1,
    ) -> None:
        """Send a notification, from any thread; `passed` is the descriptor of a socket that goes along with a small one.

        Raises:
            BlockingIOError: the other side does not read, on a socket that does not wait.
            LinkBrokenError: the other side is gone.
            OSError: there is no memory or descriptor for the segment; nothing was sent.
            MemoryError: the same.
        """
        at = 0 if payload is None else payload.size
        size = at + len(header)
        if size <= _INLINE:
            message = _MESSAGE.pack(kind, 0, _IN_THE_PACKET, 0, 0, number, at, len(header))
            if payload is not None:
                message += payload.joined()
            self._pass(message + header, passed)
            return
        segment = self._pool.take(size)
        try:
            if payload is not None:
                payload.write(segment.memory, segment.written)
            segment.memory[at:size] = header
            message = _MESSAGE.pack(kind, 0, segment.slot, 0, 0, number, at, len(header))
            self._pass(message, segment.fresh)
        except BaseException:
            self._pool.not_sent(segment)
            raise
        self._pool.sent(segment)

    def receive(self) -> "tuple[int, int, bytes | bytearray]":  # noqa: C901, PLR0912, PLR0915 - flat, because every batch comes here
        """The next message, its kind, its number and its header; waits for it where the socket does.

        Raises:
            LinkBrokenError: the other side is gone, or sent an invalid message.
            SegmentLostError: the message's segment could not be received; the link still works.
            BlockingIOError: there is none, on a socket that does not wait.
        """
        packet = self._packet
        try:
            length, ancillary, flags, _ = self._socket.recvmsg_into(
                [packet], _ANCILLARY, _CLOSED_ON_EXEC
            )
        except BlockingIOError:
            raise
        except OSError as error:
            # A reset says that it went without reading everything.
            gone = isinstance(error, ConnectionResetError)
            raise LinkBrokenError(GONE if gone else str(error)) from error
        if length < _MESSAGE.size:
            discard(ancillary)
            raise LinkBrokenError("an invalid message" if length else GONE)
        kind, held, slot, read, noted, number, at, size = _MESSAGE.unpack_from(packet)
        if kind == SHARE and self._takes_files:
            self._take_file(number, ancillary, flags, packet[_MESSAGE.size : length])
            return self.receive()
        if kind < NOTIFICATIONS and noted != self.shared.held:
            self.shared.note(noted)
        if slot == _IN_THE_PACKET:
            base = packet[_MESSAGE.size : length]
            if kind < NOTIFICATIONS:
                self._packed = base
                self._received = self._received + 1 & COUNTED
                ours = self._ours
                ours.in_use = held
                if held > ALL_HELD or ours.unread:
                    ours.note(held >> SLOTS, read)
            else:
                self._notification = base
                if kind == ADD and self._takes_sockets:
                    self._passed, ancillary = _socket_of(ancillary), []
            if at + size != len(base) or ancillary:
                discard(ancillary)
                raise LinkBrokenError("a message without its payload")
            return kind, number, base[at:]
        segment: Any = None
        lost = ""
        if ancillary or flags & CUT_OFF:
            try:
                segment, lost = received(ancillary, flags)
            except ValueError as error:
                raise LinkBrokenError(f"no segment: {error}") from error
        if kind >= NOTIFICATIONS:
            if not lost:
                segment = self._notified.take(slot, segment, at + size)
            self._notification = segment
        else:
            self._packed = None
            self._received = self._received + 1 & COUNTED
            ours = self._ours
            ours.in_use = held
            if held > ALL_HELD or ours.unread:
                ours.note(held >> SLOTS, read)
            segment = self._theirs.take(slot, segment, lost=bool(lost))
            if segment is None:
                raise LinkBrokenError("a message without its payload")
        if lost:
            raise SegmentLostError(kind, number, at + size, lost)
        if segment is None or at + size > segment.size:
            raise LinkBrokenError("a message without its payload")
        return kind, number, segment[at : at + size].tobytes()

    def close(self) -> None:
        """Close the socket and release the segments that are not in use."""
        self._socket.close()
        self._ours.clear()
        self._theirs.clear()
        self._packed = self._notification = None
        self._pool.clear()
        self._notified.clear()
        self.shared.close()
        self.shared_by_other.clear()

    def share(self, number: int, descriptor: int, label: bytes = b"") -> None:
        """Send a file for a slot, or a client's shared memory object with its label, -1 if it is to be closed; raises as `notify`."""
        message = _MESSAGE.pack(SHARE, 0, _IN_THE_PACKET, 0, 0, number, 0, len(label))
        self._pass(message + label, descriptor)

    def _take_file(self, number: int, ancillary: "Any", flags: int, label: bytearray) -> None:
        if number & REGION_FILE:
            descriptor = passed_file(ancillary)
            self.shared_by_other.files.add(number, descriptor, label.decode(errors="replace"))
            return
        try:
            file, _ = received(ancillary, flags)
        except ValueError as error:
            raise LinkBrokenError(f"no file: {error}") from error
        self.shared_by_other.add(number, file)

    def _pass(self, message: bytes, descriptor: int) -> None:
        try:
            if descriptor < 0:
                self._socket.send(message)
                return
            rights = array.array("i", [descriptor])
            self._socket.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        except OSError as error:
            if error.errno in SHORTAGES:
                raise
            raise LinkBrokenError(str(error)) from error

    @property
    def has_large(self) -> bool:
        """Whether one of the ends has sent a large call message."""
        return self._ours.has_large or self._theirs.has_large

    def unused_large(self) -> "list[Any]":
        """The large segments of call messages of both ends that neither end uses, as uint8, if the other end sends no call message before it gets one."""
        return self._ours.unused_large() + self._theirs.unused_large()

    def has_segment(self, size: int) -> bool:
        """Whether a call message of so many bytes could use a segment that is there already, so that no page of it is new."""
        return self._ours.has(size)


def _socket_of(ancillary: "list[tuple[int, int, bytes]]") -> "socket.socket | None":
    try:
        return passed_socket(ancillary)
    except OSError as error:
        raise LinkBrokenError(f"no socket: {error}") from error
