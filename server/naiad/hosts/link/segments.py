"""Shared memory between the server and a worker: sealed memfds, created by the sender and mapped from the descriptor by the receiver."""

import array
import errno
import mmap
import os
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from naiad.tensors import mapping
from naiad.tensors.mapping import Mapping

SHORTAGES = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ETOOMANYREFS, errno.EAGAIN)
)
"""What a link survives: the message was not sent, or its segment not received, and the next one may be."""

CUT_OFF = int(socket.MSG_CTRUNC)
"""The system dropped a descriptor that came along, because this process cannot have any more."""

_DESCRIPTOR = array.array("i").itemsize


class Segment:
    """A segment to write to.

    Attributes:
        capacity: bytes that a message may use; 0 for a segment that the receiver does not have.
    """

    __slots__ = ("capacity", "memory", "written")

    def __init__(self, memory: mmap.mmap, capacity: int) -> None:
        self.memory = memory
        self.written = np.frombuffer(memory, np.uint8)
        self.capacity = capacity


def create(capacity: int) -> "tuple[int, Mapping]":
    """A new segment: its descriptor and its memory; see `mapping.create`."""
    return mapping.create(capacity, Mapping)


def received(ancillary: "Sequence[tuple[int, int, bytes]]", flags: int) -> "tuple[Any, str]":
    """The segment that came along with a message, as uint8, or None and why this process could not take it.

    Args:
        ancillary: what `recvmsg` gave back; every descriptor in it is closed.
        flags: the same.

    Raises:
        ValueError: what came along is not a segment.
    """
    base: Any = None
    try:
        if flags & CUT_OFF:
            return None, "the process has no file descriptor left for its tensors"
        for descriptor in _descriptors(ancillary):
            base = np.frombuffer(Mapping(descriptor, 0), np.uint8)
    except MemoryError:
        return None, "the process has no memory left to map its tensors"
    except OSError as error:
        if error.errno in SHORTAGES:
            return None, f"its tensors could not be mapped: {error}"
        raise ValueError(str(error)) from error
    finally:
        discard(ancillary)
    return base, ""


def passed_socket(ancillary: "Sequence[tuple[int, int, bytes]]") -> "socket.socket | None":
    """The socket that came along with a message; None if there is none.

    Raises:
        OSError: it is not a socket.
    """
    found: socket.socket | None = None
    for descriptor in _descriptors(ancillary):
        if found is not None:
            os.close(descriptor)
            continue
        try:
            found = socket.socket(fileno=descriptor)
        except OSError:
            os.close(descriptor)
            raise
    return found


def passed_file(ancillary: "Sequence[tuple[int, int, bytes]]") -> int:
    """The descriptor that came along with a message; -1 if there is none."""
    found = -1
    for descriptor in _descriptors(ancillary):
        if found >= 0:
            os.close(descriptor)
        else:
            found = descriptor
    return found


def discard(ancillary: "Sequence[tuple[int, int, bytes]]") -> None:
    """Close the descriptors that came along with a message."""
    for each in _descriptors(ancillary):
        os.close(each)


def _descriptors(ancillary: "Sequence[tuple[int, int, bytes]]") -> "Iterator[int]":
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            yield from array.array("i", data[: len(data) - len(data) % _DESCRIPTOR])
