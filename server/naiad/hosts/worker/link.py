"""The link between the server and a worker process: short messages on sockets, everything large in shared memory.

Two SOCK_SEQPACKET socket pairs. On the first one batches take turns with their outcomes: a message is 32 bytes, one wake-up. What it is
about lies in a segment of the sender's, an anonymous file (memfd) whose descriptor goes along with the first message that uses
it: tensors first, each at a multiple of 64 bytes, then the header, in JSON. A segment is used again for the next message and
replaced by a larger one when it is too small; nothing has a name in the file system, so nothing is left when both processes are gone.

The receiver looks at tensors where they lie. Each side may write over what it sent once the other side has sent its next message,
unless that says HELD: somebody still looks at it there. Then the segment stays with whoever looks, and the sender takes a new one.
One batch is under way at a time, so no more is needed.

What does not take turns is posted, from any thread, each message complete in itself: small ones stand behind their 32 bytes, large
ones lie in a segment of their own. A worker posts on the first socket, so that a response is there before the outcome of its
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

LOAD, BATCH, CLOSE = 1, 2, 3
"""What the server sends in turn: the model to load, a batch to run, the end."""

LOADED, REFUSED, OUTCOME = 17, 18, 19
"""What a worker sends in turn: it is ready for batches; why it cannot load; what came of a batch."""

POSTED = 64
"""Kinds from here on are posted."""

ASK_READY, CANCEL = 64, 65
"""What the server posts: is the model ready; nobody wants the request of this number any more."""

READY, RESPONSE = 80, 81
"""What a worker posts: the answer to ASK_READY as number, 0 or 1; a response to the request of this number."""

HELD = 1

GONE = "the other side is gone"

_MESSAGE = struct.Struct("<BBxxxxxxQQQ")
_ANCILLARY = socket.CMSG_SPACE(array.array("i").itemsize)
_INLINE = 1 << 15
"""Posted messages up to this many bytes stand in the packet itself."""

ALIGNED = 64
"""Where a tensor begins is a multiple of this many bytes."""
_LEAST = 1 << 16
_COPIED = 1 << 16
_DESCRIPTOR = array.array("i").itemsize
_ONLY_OURS = 2
"""What `sys.getrefcount` says of a segment's array at which nobody looks any more."""


class Parcel:
    """What a message is about, while it is put together.

    Attributes:
        size: bytes of its tensors so far.
    """

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        self._parts: list[tuple[int, Any]] = []
        self.size = 0

    def add(self, part: Any) -> "tuple[int, int]":
        """Take along bytes, or an array of numbers in any layout; gives back where it will lie and its size in bytes."""
        size = len(part) if type(part) is bytes else part.nbytes
        at = self.size
        if size:
            self._parts.append((at, part))
            self.size = (at + size + ALIGNED - 1) & -ALIGNED
        return at, size

    def write(self, memory: "mmap.mmap | bytearray", base: Any) -> None:
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


class Link:
    """One end. All methods but `post` belong to one thread.

    Args:
        connection: SOCK_SEQPACKET; the link's from now on.

    Attributes:
        base: the segment that the last message in turn is about, as uint8: tensors are views of it. None before the first one.
            Whoever keeps it, or a view of it, holds the segment.
        posted: the same for the last message that was posted; it is the receiver's to keep.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._memory: mmap.mmap | None = None
        self._written: Any = None
        self._capacity = 0
        self._other_holds = False
        self._packet = bytearray(_MESSAGE.size + _INLINE)
        self.base: Any = None
        self.posted: Any = None

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
        fresh = -1
        if needed > self._capacity or self._other_holds:
            fresh = self._renew(needed)
        memory = self._memory
        assert memory is not None
        if parcel is not None:
            parcel.write(memory, self._written)
        memory[at:needed] = header
        flags = HELD if self.base is not None and sys.getrefcount(self.base) > _ONLY_OURS else 0
        message = _MESSAGE.pack(kind, flags, number, at, len(header))
        try:
            self._pass(message, fresh)
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
        message = _MESSAGE.pack(kind, 0, number, at, len(header))
        fresh = -1
        if size > _INLINE:
            fresh, memory = _segment(size)
            if parcel is not None:
                parcel.write(memory, np.frombuffer(memory, np.uint8))
            memory[at:size] = header
        elif at:
            behind = bytearray(at)
            assert parcel is not None
            parcel.write(behind, np.frombuffer(behind, np.uint8))
            message += behind + header
        else:
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

    def receive(self) -> "tuple[int, int, bytes]":
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
        except OSError as error:
            raise LinkBrokenError(str(error)) from error
        if length < _MESSAGE.size:
            raise LinkBrokenError("no message" if length else GONE)
        kind, flags, number, at, size = _MESSAGE.unpack_from(packet)
        fresh = _opened(ancillary) if ancillary else None
        if kind >= POSTED:
            if fresh is None:
                fresh = np.frombuffer(bytes(memoryview(packet)[_MESSAGE.size : length]), np.uint8)
            self.posted = base = fresh
        else:
            if fresh is not None:
                self.base = fresh
            self._other_holds = bool(flags & HELD)
            base = self.base
        if base is None or at + size > base.size:
            raise LinkBrokenError("a message about nothing")
        return kind, number, base[at : at + size].tobytes()

    def close(self) -> None:
        """Give everything back that nobody looks at any more."""
        self._socket.close()
        self._memory = None
        self._written = self.base = self.posted = None
        self._capacity = 0

    def _pass(self, message: bytes, descriptor: int) -> None:
        if descriptor < 0:
            self._socket.send(message)
            return
        rights = array.array("i", [descriptor])
        self._socket.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def _renew(self, needed: int) -> int:
        """Take a segment that is large enough; gives back its descriptor."""
        self._memory = None
        self._written = None
        self._capacity = 0
        capacity = max(_LEAST, 1 << (needed - 1).bit_length())
        fresh, self._memory = _segment(capacity)
        self._written = np.frombuffer(self._memory, np.uint8)
        self._capacity = capacity
        self._other_holds = False
        return fresh


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
