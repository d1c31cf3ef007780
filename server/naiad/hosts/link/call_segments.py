"""The segments of large call messages, which are used again: each end keeps up to four that it fills, and maps as many of the other end's.

Every call message says which of the other end's segments are still in use, and which of them are not there, so that a release costs no message of its own. A
segment that is filled is not used again before the receiver has read the message and nothing there refers to it any more. If all four are in use, a
message gets a segment of its own. A link has one of each class; all methods belong to the thread that uses it.
"""

import sys
from typing import Any

import numpy as np

from naiad.hosts.link.segments import Segment, create
from naiad.tensors.reference_counts import ONLY_LISTED

SLOTS = 4
"""Segments that an end keeps."""

ALL_HELD = (1 << SLOTS) - 1
"""What `MappedSegments.held` is at most while every segment is there."""

COUNTED = 255
"""Call messages are counted modulo 256."""

LARGE = 1 << 24
"""Bytes of a segment whose pages are given back when its instance has nothing to do (`hosts/process/idle_segments.py`)."""

_LEAST = 1 << 16


class SentSegments:
    """Those that this end fills.

    Attributes:
        in_use: a bit for each slot whose segment the other end uses, as its last call message says.
        sent: how many call messages were sent.
        unread: the slots of messages that the other end has not said that it has read, by the value of `sent` with them.
        has_large: whether there was a large one.
    """

    __slots__ = ("_segments", "has_large", "in_use", "sent", "unread")

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self.has_large = False
        self.in_use = 0
        self.sent = 0
        self.unread: dict[int, int] = {}

    def take(self, needed: int) -> "tuple[int, int, Segment]":
        """The segment of the next message, which counts as sent: its descriptor if it is new, else -1, its slot, and the segment.

        Raises:
            OSError: there is no memory or descriptor for a new one.
            MemoryError: the same.
        """
        slot, segment = self._find(needed)
        fresh = -1
        if segment is None:
            fresh, slot, segment = self._new(needed, slot)
        self.sent += 1
        self.unread[self.sent] = slot
        return fresh, slot, segment

    def has(self, needed: int) -> bool:
        """Whether a message of so many bytes could use a segment that is there already, so that no page of it is new."""
        return self._find(needed)[1] is not None

    def not_sent(self, fresh: int, segment: Segment) -> None:
        """The last message was not sent; `fresh` and `segment` are what `take` gave."""
        del self.unread[self.sent]
        self.sent -= 1
        if fresh >= 0:
            # The other end does not have it, so the next message must not use it.
            segment.capacity = 0

    def note(self, lost: int, read: int) -> None:
        """The other end has read so many call messages, and does not have these segments, a bit for each slot: new ones take their place."""
        behind = self.sent - read & COUNTED
        self.unread = {
            number: slot for number, slot in self.unread.items() if number > self.sent - behind
        }
        for slot, segment in enumerate(self._segments):
            if lost >> slot & 1:
                segment.capacity = 0

    def unused_large(self) -> "list[Any]":
        """The large ones that the next message could use, as uint8."""
        busy = {*self.unread.values()}
        return [
            segment.written
            for slot, segment in enumerate(self._segments)
            if segment.capacity > LARGE and not self.in_use >> slot & 1 and slot not in busy
        ]

    def clear(self) -> None:
        """Keep none of them."""
        self._segments.clear()

    def _find(self, needed: int) -> "tuple[int, Segment | None]":
        """A segment that is large enough and that no view and no unread message uses, and its slot; else the slot of a smaller one, or `SLOTS`, and None."""
        in_use = self.in_use
        for slot in self.unread.values():
            in_use |= 1 << slot
        free = SLOTS
        for slot, segment in enumerate(self._segments):
            if not in_use >> slot & 1:
                if segment.capacity >= needed:
                    return slot, segment
                free = slot
        return free, None

    def _new(self, needed: int, slot: int) -> "tuple[int, int, Segment]":
        capacity = max(_LEAST, 1 << (needed - 1).bit_length())
        self.has_large = self.has_large or capacity > LARGE
        fresh, memory = create(capacity)
        segment = Segment(memory, capacity)
        if slot < SLOTS:
            self._segments[slot] = segment
        elif len(self._segments) < SLOTS:
            slot = len(self._segments)
            self._segments.append(segment)
        return fresh, slot, segment


class MappedSegments:
    """Those that the other end fills. Attributes: `has_large`, whether there was a large one."""

    __slots__ = ("_current", "_lost", "_memory", "has_large")

    def __init__(self) -> None:
        self._memory: list[Any] = []
        self.has_large = False
        self._lost = 0
        self._current = 0

    @property
    def current(self) -> Any:
        """The segment of the last message that had one, as uint8."""
        return self._memory[self._current]

    def take(self, slot: int, fresh: Any, *, lost: bool) -> Any:
        """The segment of a message that came.

        Args:
            slot: of the message.
            fresh: what came along with it, as uint8; None: the segment that is in the slot already.
            lost: something came along, and is not here.

        Returns:
            It, as uint8; nothing in it if it is not here, never what was there before it. None: there is no such slot.
        """
        memory = self._memory
        if slot > SLOTS:
            return None
        while len(memory) <= slot:
            memory.append(_nothing())
        self._current = slot
        if fresh is not None:
            memory[slot] = fresh
            self.has_large = self.has_large or len(fresh) > LARGE
            self._lost &= ~(1 << slot)
        elif lost:
            memory[slot] = _nothing()
            self._lost |= 1 << slot & ALL_HELD
        elif slot == SLOTS:  # each of these is for one message
            memory[slot] = _nothing()
        return memory[slot]

    def held(self) -> int:
        """Which of them are in use here, one bit per slot, and which of them are not here, as many bits more."""
        memory, count = self._memory, sys.getrefcount
        if not memory:
            return 0
        held = self._lost << SLOTS
        for slot in range(min(len(memory), SLOTS)):
            if count(memory[slot]) > ONLY_LISTED:
                held |= 1 << slot
        return held

    def unused_large(self) -> "list[Any]":
        """The large ones that nothing refers to here, as uint8."""
        memory, count, found = self._memory, sys.getrefcount, []
        for slot in range(len(memory)):
            if count(memory[slot]) <= ONLY_LISTED and len(memory[slot]) > LARGE:
                found.append(memory[slot])  # noqa: PERF401 - counted as `only_listed` does
        return found

    def clear(self) -> None:
        """Keep none of them."""
        self._memory.clear()


def _nothing() -> Any:
    """In place of a segment, of bytes that are not in use."""
    return np.empty(0, np.uint8)
