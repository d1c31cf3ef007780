"""The link between the server and a worker process: short messages on sockets, everything large in shared memory.

Two SOCK_SEQPACKET socket pairs. On the first one batches take turns with their outcomes: a message is 32 bytes, one wake-up. What it is
about lies in a segment of the sender's, an anonymous file (memfd) whose descriptor goes along with the first message that uses
it: tensors first, each at a multiple of 64 bytes, then the header, in JSON. Up to 32 KiB stand behind the 32 bytes instead. Nothing has a name in the file system, so nothing is left
when both processes are gone.

The receiver looks at tensors where they lie. With its next message it says at which of the sender's segments somebody still
looks; the sender writes over the others, for a page of memory that is there already costs a tenth of a new one. A sender keeps
up to four segments, larger ones in place of smaller ones; if somebody looks at all four, a message gets one for itself.

What does not take turns is posted, from any thread, each message complete in itself: large ones lie in a segment of their own. A worker posts on the first socket, so that a response is there before the outcome of its
batch; the server posts on the second one, the control socket, where a thread of the worker's listens also while a batch runs.
To add a conversation (a worker that asks the server for something), add two kinds from POSTED on, one each way, and a number
that the answer repeats.
"""

import array
import fcntl
import mmap
import os
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

LOAD, BATCH, CLOSE, ERRAND = 1, 2, 3, 4
"""What the server sends in turn: the model to load, a batch to run, the end, a function to call instead of all that."""

LOADED, REFUSED, OUTCOME, DONE = 17, 18, 19, 20
"""What a worker sends in turn: it is ready for batches; why it cannot load; what came of a batch; what the function gave."""

POSTED = 64
"""Kinds from here on are posted."""

ASK_READY, CANCEL, HOLD, GO_ON, TOLD, TAKEN, ASK_PULSE = 64, 65, 66, 67, 68, 69, 70
"""What the server posts: is the model ready; nobody wants the request of this number any more; its client does not take what is
sent to it; it does again; an answer to the ASK of this number; so many bytes of responses have come; do coroutines run."""

READY, RESPONSE, ASK, PULSE = 80, 81, 82, 83
"""What a worker posts: the answer to ASK_READY as number, 0 or 1; a response to the request of this number; a question of the model's
to the server, see `asking.py`; they do."""

AHEAD_BYTES = 1 << 20
"""Bytes of responses that may be on their way to the server; the one that passes it still goes, the next waits for a TAKEN. The socket
would let hundreds of messages pass, however large what they are about."""

GONE = "the other side is gone"

_MESSAGE = struct.Struct("<BBBxxxxxQQQ")
_ANCILLARY = socket.CMSG_SPACE(array.array("i").itemsize)
_INLINE = 1 << 15
"""Messages up to this many bytes stand in the packet itself."""

_IN_THE_PACKET = 255
"""In place of a slot."""

ALIGNED = 64
"""Where a tensor begins is a multiple of this many bytes."""
_SLOTS = 4
_LEAST = 1 << 16
_COPIED = 1 << 16
_DESCRIPTOR = array.array("i").itemsize
_ONLY_OURS = 2
"""What `sys.getrefcount` says, where `_held` asks, of a segment's array at which nobody looks any more."""


class Parcel:
    """What a message is about, while it is put together.

    Args:
        parts: what it has already, each with where it will lie, as `places` of another one said for such parts.
        size: bytes of these.

    Attributes:
        size: bytes of its tensors so far.
    """

    __slots__ = ("_parts", "size")

    def __init__(self, parts: "list[tuple[int, Any]] | None" = None, size: int = 0) -> None:
        self._parts = [] if parts is None else parts
        self.size = size

    def add(self, part: Any) -> "tuple[int, int]":
        """Take along bytes, or an array of numbers in any layout; gives back where it will lie and its size in bytes."""
        size = len(part) if type(part) is bytes else part.nbytes
        at = self.size
        if size:
            self._parts.append((at, part))
            self.size = (at + size + ALIGNED - 1) & -ALIGNED
        return at, size

    def places(self) -> "list[int]":
        """Where each part that has any bytes will lie."""
        return [at for at, _ in self._parts]

    def joined(self) -> bytes:
        """Everything as bytes."""
        whole = [(part if type(part) is bytes else part.tobytes()) for _, part in self._parts]
        return b"".join([each.ljust(len(each) + ALIGNED - 1 & -ALIGNED, b"\0") for each in whole])

    def write(self, memory: mmap.mmap, base: Any) -> None:
        """Put everything into a segment."""
        for at, part in self._parts:
            if type(part) is bytes:
                memory[at : at + len(part)] = part
            elif part.nbytes <= _COPIED:
                memory[at : at + part.nbytes] = part.tobytes()
            else:
                np.copyto(np.ndarray(part.shape, part.dtype, base, at), part)


class LinkBrokenError(Exception):
    """The other side is gone, or sent what is no message."""


class _Segment:
    """A segment to write to."""

    __slots__ = ("capacity", "memory", "written")

    def __init__(self, memory: mmap.mmap, capacity: int) -> None:
        self.memory = memory
        self.written = np.frombuffer(memory, np.uint8)
        self.capacity = capacity


class Link:
    """One end. All methods but `post` belong to one thread.

    Args:
        connection: SOCK_SEQPACKET; the link's from now on.

    Attributes:
        posted: where the tensors of the last posted message are, as `base`; it is the receiver's to keep.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._ours: list[_Segment] = []
        self._others_look_at = 0
        self._theirs: list[Any] = []
        self._current = 0
        self._packed: bytearray | None = None
        self._packet = bytearray(_MESSAGE.size + _INLINE)
        self.posted: Any = None

    @property
    def base(self) -> Any:
        """Where the tensors of the last message in turn are: a segment as uint8, or a bytearray.

        Whoever keeps a segment, or a view of it, keeps the other side from writing there.
        """
        packed = self._packed
        return self._theirs[self._current] if packed is None else packed

    def fileno(self) -> int:
        """The socket's descriptor, to wait for messages."""
        return self._socket.fileno()

    def send(
        self, kind: int, header: bytes, parcel: "Parcel | None" = None, number: int = 0
    ) -> None:
        """Send a message in turn; `number` is that of the first request that it is about.

        Raises:
            LinkBrokenError: nobody is there.
            OSError: there is no memory for the segment.
        """
        at = 0 if parcel is None else parcel.size
        needed = at + len(header)
        if needed <= _INLINE:
            message = _MESSAGE.pack(kind, self._held(), _IN_THE_PACKET, number, at, len(header))
            tensors = b"" if parcel is None else parcel.joined()
            try:
                self._pass(message + tensors + header, -1)
            except OSError as error:
                raise LinkBrokenError(str(error)) from error
            return
        fresh, slot, segment = self._room(needed)
        try:
            memory = segment.memory
            if parcel is not None:
                parcel.write(memory, segment.written)
            memory[at:needed] = header
            self._pass(_MESSAGE.pack(kind, self._held(), slot, number, at, len(header)), fresh)
        except OSError as error:
            raise LinkBrokenError(str(error)) from error
        finally:
            if fresh >= 0:
                os.close(fresh)

    def post(
        self, kind: int, header: bytes, parcel: "Parcel | None" = None, number: int = 0
    ) -> None:
        """Send a message out of turn, from any thread.

        Raises:
            BlockingIOError: the other side does not read, on a socket that does not wait.
            LinkBrokenError: nobody is there.
            OSError: there is no memory for the segment.
        """
        at = 0 if parcel is None else parcel.size
        size = at + len(header)
        fresh = -1
        if size > _INLINE:
            message = _MESSAGE.pack(kind, 0, 0, number, at, len(header))
            fresh, memory = _segment(size)
            if parcel is not None:
                parcel.write(memory, np.frombuffer(memory, np.uint8))
            memory[at:size] = header
        else:
            message = _MESSAGE.pack(kind, 0, _IN_THE_PACKET, number, at, len(header))
            if parcel is not None:
                message += parcel.joined()
            message += header
        try:
            self._pass(message, fresh)
        except BlockingIOError:
            raise
        except OSError as error:
            raise LinkBrokenError(str(error)) from error
        finally:
            if fresh >= 0:
                os.close(fresh)

    def receive(self) -> "tuple[int, int, bytes | bytearray]":
        """The next message, its kind, its number and its header; waits for it where the socket does.

        Raises:
            LinkBrokenError: nobody is there, or it is no message.
            BlockingIOError: there is none, on a socket that does not wait.
        """
        packet = self._packet
        try:
            length, ancillary, _, _ = self._socket.recvmsg_into([packet], _ANCILLARY)
        except BlockingIOError:
            raise
        except ConnectionResetError as error:  # it went without reading everything
            raise LinkBrokenError(GONE) from error
        except OSError as error:
            raise LinkBrokenError(str(error)) from error
        if length < _MESSAGE.size:
            raise LinkBrokenError("no message" if length else GONE)
        kind, held, slot, number, at, size = _MESSAGE.unpack_from(packet)
        if slot == _IN_THE_PACKET:
            base = packet[_MESSAGE.size : length]
            if kind < POSTED:
                self._packed = base
                self._others_look_at = held
            else:
                self.posted = base
            if at + size != len(base):
                raise LinkBrokenError("a message about nothing")
            return kind, number, base[at:]
        segment = _opened(ancillary) if ancillary else None
        if kind >= POSTED:
            self.posted = segment
        else:
            segment = self._seen(slot, segment)
            self._packed = None
            self._others_look_at = held
        if segment is None or at + size > segment.size:
            raise LinkBrokenError("a message about nothing")
        return kind, number, segment[at : at + size].tobytes()

    def close(self) -> None:
        """Give everything back that nobody looks at any more."""
        self._socket.close()
        self._ours.clear()
        self._theirs.clear()
        self._packed = self.posted = None

    def _pass(self, message: bytes, descriptor: int) -> None:
        if descriptor < 0:
            self._socket.send(message)
            return
        rights = array.array("i", [descriptor])
        self._socket.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def _room(self, needed: int) -> "tuple[int, int, _Segment]":
        """A segment that is large enough and looked at by nobody: its descriptor if it is new, else -1, its slot, and it."""
        looked_at = self._others_look_at
        free = _SLOTS
        for slot, segment in enumerate(self._ours):
            if not looked_at >> slot & 1:
                if segment.capacity >= needed:
                    return -1, slot, segment
                free = slot
        capacity = max(_LEAST, 1 << (needed - 1).bit_length())
        fresh, memory = _segment(capacity)
        segment = _Segment(memory, capacity)
        if free < _SLOTS:
            self._ours[free] = segment
        elif len(self._ours) < _SLOTS:
            free = len(self._ours)
            self._ours.append(segment)
        return fresh, free, segment

    def _seen(self, slot: int, fresh: Any) -> Any:
        """The other side's segment in a slot, which may be fresh."""
        theirs = self._theirs
        while len(theirs) <= slot <= _SLOTS:
            theirs.append(None)
        if slot > _SLOTS:
            return None
        if fresh is not None:
            theirs[slot] = fresh
        self._current = slot
        return theirs[slot]

    def _held(self) -> int:
        """At which of the other side's segments somebody looks: a bit for each slot."""
        theirs, count = self._theirs, sys.getrefcount
        held = 0
        if not theirs:
            return held
        for slot in range(min(len(theirs), _SLOTS)):
            if count(theirs[slot]) > _ONLY_OURS:
                held |= 1 << slot
        return held


def _segment(capacity: int) -> "tuple[int, mmap.mmap]":
    """A new segment: its descriptor and its memory."""
    fresh = os.memfd_create("naiad", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fresh, capacity)
        # Nobody can make it smaller any more: reading what is not there would end a process.
        fcntl.fcntl(fresh, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        return fresh, mmap.mmap(fresh, capacity)
    except BaseException:
        os.close(fresh)
        raise


def _opened(ancillary: "Sequence[tuple[int, int, bytes]]") -> Any:
    """The segment that came along, as uint8."""
    base: Any = None
    for level, kind, data in ancillary:
        if level != socket.SOL_SOCKET or kind != socket.SCM_RIGHTS:
            continue
        for descriptor in array.array("i", data[: len(data) - len(data) % _DESCRIPTOR]):
            try:
                base = np.frombuffer(mmap.mmap(descriptor, 0), np.uint8)
            except (OSError, ValueError) as error:
                raise LinkBrokenError(f"no segment: {error}") from error
            finally:
                os.close(descriptor)
    return base
