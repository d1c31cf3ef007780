"""The link between the server and a worker process: short messages on a socket, everything large in shared memory.

A message is 24 bytes on a SOCK_SEQPACKET socket: one wake-up. What it is about lies in a segment of the sender's, an anonymous file
(memfd) whose descriptor goes along with the first message that uses it: tensors first, each at a multiple of 64 bytes, then the
header, in JSON. A segment is used again for the next message and replaced by a larger one when it is too small; nothing has a
name in the file system, so nothing is left when both processes are gone.

The receiver looks at tensors where they lie. Each side may write over what it sent once the other side has sent its next message,
unless that says HELD: somebody still looks at it there. Then the segment stays with whoever looks, and the sender takes a new one.
One batch is under way at a time, so no more is needed.
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
"""What the server sends: the model to load, a batch to run, the end."""

LOADED, REFUSED, OUTCOME, RESPONSE = 17, 18, 19, 20
"""What a worker sends: it is ready for batches; why it cannot load; what came of a batch; RESPONSE is kept for one response of a
batch that goes on (models that answer more than once)."""

HELD = 1

GONE = "the other side is gone"

_MESSAGE = struct.Struct("<BBxxIQQ")
_ALIGNED = 64
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
            self.size = (at + size + _ALIGNED - 1) & -_ALIGNED
        return at, size

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


class Link:
    """One end. All methods belong to one thread.

    Args:
        connection: SOCK_SEQPACKET; the link's from now on.

    Attributes:
        base: the segment that the last message is about, as uint8: tensors are views of it. None before the first one. Whoever
            keeps it, or a view of it, holds the segment.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._memory: mmap.mmap | None = None
        self._written: Any = None
        self._capacity = 0
        self._other_holds = False
        self.base: Any = None

    def fileno(self) -> int:
        """The socket's descriptor, to wait for messages."""
        return self._socket.fileno()

    def send(self, kind: int, header: bytes, parcel: "Parcel | None" = None) -> None:
        """Send a message.

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
        message = _MESSAGE.pack(kind, flags, 0, at, len(header))
        try:
            if fresh < 0:
                self._socket.send(message)
            else:
                rights = array.array("i", [fresh])
                self._socket.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        except OSError as error:
            raise LinkBrokenError(str(error)) from error
        finally:
            if fresh >= 0:
                os.close(fresh)

    def receive(self) -> "tuple[int, bytes]":
        """The next message, its kind and its header; waits for it where the socket does.

        Raises:
            LinkBrokenError: nobody is there, or it is no message.
            BlockingIOError: there is none, on a socket that does not wait.
        """
        try:
            data, ancillary, _, _ = self._socket.recvmsg(_MESSAGE.size, _ANCILLARY)
        except BlockingIOError:
            raise
        except OSError as error:
            raise LinkBrokenError(str(error)) from error
        if len(data) != _MESSAGE.size:
            raise LinkBrokenError(GONE if not data else "no message")
        kind, flags, _, at, size = _MESSAGE.unpack(data)
        if ancillary:
            self._open(ancillary)
        self._other_holds = bool(flags & HELD)
        if self.base is None or at + size > self.base.size:
            raise LinkBrokenError("a message about nothing")
        return kind, self.base[at : at + size].tobytes()

    def close(self) -> None:
        """Give everything back that nobody looks at any more."""
        self._socket.close()
        self._memory = None
        self._written = self.base = None
        self._capacity = 0

    def _renew(self, needed: int) -> int:
        """Take a segment that is large enough; gives back its descriptor."""
        capacity = max(_LEAST, 1 << (needed - 1).bit_length())
        self._memory = None
        self._written = None
        self._capacity = 0
        fresh = os.memfd_create("naiad", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fresh, capacity)
            # Nobody can make it smaller any more: reading what is not there would end a process.
            fcntl.fcntl(fresh, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
            self._memory = mmap.mmap(fresh, capacity)
        except BaseException:
            os.close(fresh)
            raise
        self._written = np.frombuffer(self._memory, np.uint8)
        self._capacity = capacity
        self._other_holds = False
        return fresh

    def _open(self, ancillary: "Sequence[tuple[int, int, bytes]]") -> None:
        for level, kind, data in ancillary:
            if level != socket.SOL_SOCKET or kind != socket.SCM_RIGHTS:
                continue
            descriptors = array.array("i", data[: len(data) - len(data) % _DESCRIPTOR])
            for descriptor in descriptors:
                try:
                    self.base = np.frombuffer(mmap.mmap(descriptor, 0), np.uint8)
                except (OSError, ValueError) as error:
                    raise LinkBrokenError(f"no segment: {error}") from error
                finally:
                    os.close(descriptor)


_ANCILLARY = socket.CMSG_SPACE(_DESCRIPTOR)
