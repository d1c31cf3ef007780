"""The tensors of a message that is being built: where each lies, and how they get into the message or into shared memory."""

import mmap
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from naiad.hosts.link.segments import Segment
from naiad.tensors.host_copy import HostCopy

ALIGNED = 64
"""The offset of a tensor is a multiple of this many bytes."""

_SMALL = 1 << 12
"""A tensor of up to so many bytes is copied through a `bytes` object, which costs less than a view of it."""

_PIECE = 1 << 20
"""Bytes that are copied at once: other threads of the process get no further meanwhile."""


class Payload:
    """The payload of a message that is being built.

    Args:
        parts: initial parts, each with its offset, as `places` of another payload gave for such parts.
        size: bytes of these.

    Attributes:
        size: bytes of its tensors so far.
    """

    __slots__ = ("_parts", "size")

    def __init__(self, parts: "list[tuple[int, Any]] | None" = None, size: int = 0) -> None:
        self._parts = [] if parts is None else parts
        self.size = size

    def add(self, part: Any) -> "tuple[int, int]":
        """Add bytes, or an array of numbers in any layout; returns its offset and its size in bytes."""
        size = len(part) if type(part) is bytes else part.nbytes
        at = self.size
        if size:
            self._parts.append((at, part))
            self.size = (at + size + ALIGNED - 1) & -ALIGNED
        return at, size

    def places(self) -> "list[int]":
        """The offset of each part that is not empty."""
        return [at for at, _ in self._parts]

    def joined(self) -> bytes:
        """Everything as bytes."""
        whole: list[bytes] = []
        for _, part in self._parts:
            data = part if type(part) is bytes else part.tobytes()
            whole.append(data.ljust(len(data) + ALIGNED - 1 & -ALIGNED, b"\0"))
        return b"".join(whole)

    def write(self, memory: mmap.mmap, base: Any, *, pins: bool = True) -> None:
        """Put everything into a segment; `pins`: it may be pinned for copies from a device.

        By slices of the mapping, which keep the interpreter lock: `np.copyto` releases it for each tensor, and another thread that takes it
        keeps it for milliseconds.
        """
        for at, part in self._parts:
            if type(part) is bytes:
                memory[at : at + len(part)] = part
            elif part.nbytes <= _SMALL:
                memory[at : at + part.nbytes] = part.tobytes()
            elif type(part) is HostCopy:
                part.write_to(base, at, pins=pins)
            elif not part.flags.c_contiguous:
                np.copyto(np.ndarray(part.shape, part.dtype, base, at), part)
            elif part.nbytes <= _PIECE:
                memory[at : at + part.nbytes] = part
            else:
                octets = part.reshape(-1).view(np.uint8)
                for start in range(0, part.nbytes, _PIECE):
                    piece = octets[start : start + _PIECE]
                    memory[at + start : at + start + len(piece)] = piece


class Gathering:
    """When the tensors of a message were copied, which the thread that does it writes; 0: not yet. `now_ns` gives the time."""

    __slots__ = ("begun_ns", "ended_ns", "now_ns")

    def __init__(self, now_ns: "Callable[[], int]") -> None:
        self.now_ns = now_ns
        self.begun_ns = 0
        self.ended_ns = 0


class Prepared(NamedTuple):
    """A call message that has a segment: the packet, what is copied into the segment, and the segment's descriptor if it is new, else -1."""

    message: bytes
    header: bytes
    payload: "Payload | None"
    segment: Segment
    fresh: int
