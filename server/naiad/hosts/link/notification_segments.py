"""The segments of large notifications, which are used again: filling pages that are mapped already costs a tenth of filling new ones.

A segment belongs to a slot of its sender, and its descriptor goes with the first notification that uses it. The byte behind its
capacity says whether the receiver still uses what it was sent: the sender sets it, and the receiver, which maps the same memory, clears it when
nothing refers to the notification any more. So a release costs no message, and either side may be any thread. A segment that the receiver
could not map is never cleared: its slot gets a new one when no other is free.
"""

import mmap
import os
import threading
import weakref
from typing import Any

import numpy as np

from naiad.hosts.link.segments import Segment, create

SLOTS = 4
"""Segments that a sender keeps."""

OWN = SLOTS
"""The slot of a segment that is used once."""

KEPT_BYTES = 1 << 25
"""A larger notification has a segment of its own, so that one of them does not hold its memory for ever."""

TRAILER = 64
"""Bytes behind the capacity; the first says that the receiver uses the segment. A cache line, so that it shares none with tensors."""

_LEAST = 1 << 16


class NotificationSegment(Segment):
    """A segment to write a notification to.

    Attributes:
        slot: its slot, or `OWN`.
        fresh: its descriptor until the receiver has been sent it; then -1.
        sending: whether a thread fills or sends it.
        used: the number of the notification that used it last.
    """

    __slots__ = ("fresh", "sending", "slot", "used")

    def __init__(self, memory: mmap.mmap, capacity: int, slot: int, fresh: int) -> None:
        super().__init__(memory, capacity)
        self.slot = slot
        self.fresh = fresh
        self.sending = True
        self.used = 0

    @property
    def is_free(self) -> bool:
        """Whether neither side uses it."""
        return not self.sending and not self.memory[self.capacity]


class SegmentPool:
    """The segments of one sender; its methods may be called in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: list[NotificationSegment | None] = [None] * SLOTS
        self._count = 0

    def take(self, size: int) -> NotificationSegment:
        """A segment of at least `size` bytes that nothing uses; `sent` or `not_sent` comes next.

        Raises:
            OSError: there is no memory or descriptor for a new one.
            MemoryError: the same.
        """
        with self._lock:
            self._count += 1
            segment = self._free(size) or self._new(size)
            segment.sending = True
            segment.used = self._count
            segment.memory[segment.capacity] = 1
            return segment

    def sent(self, segment: NotificationSegment) -> None:
        """The receiver has been sent the segment."""
        _close_descriptor(segment)
        segment.sending = False

    def not_sent(self, segment: NotificationSegment) -> None:
        """The notification was not sent: the segment is free again, or gone if the receiver does not know it."""
        with self._lock:
            if segment.fresh >= 0 and segment.slot != OWN:
                self._slots[segment.slot] = None
            _close_descriptor(segment)
            segment.memory[segment.capacity] = 0
            segment.sending = False

    def clear(self) -> None:
        """Keep none of them."""
        with self._lock:
            self._slots = [None] * SLOTS

    def _free(self, size: int) -> "NotificationSegment | None":
        found: NotificationSegment | None = None
        for segment in self._slots:
            if segment is None or segment.capacity < size or not segment.is_free:
                continue
            if found is None or segment.capacity < found.capacity:
                found = segment
        return found

    def _new(self, size: int) -> NotificationSegment:
        slot = self._slot_for_new() if size <= KEPT_BYTES else OWN
        capacity = size if slot == OWN else max(_LEAST, 1 << (size - 1).bit_length())
        descriptor, memory = create(capacity + TRAILER)
        segment = NotificationSegment(memory, capacity, slot, descriptor)
        if slot != OWN:
            self._slots[slot] = segment
        return segment

    def _slot_for_new(self) -> int:
        """An empty slot, else that of a free segment, which is too small, else the one that was used longest ago; none while all are being sent."""
        oldest: NotificationSegment | None = None
        for slot, segment in enumerate(self._slots):
            if segment is None:
                return slot
            if segment.sending:
                continue
            if oldest is None or (not segment.is_free, segment.used) < (
                not oldest.is_free,
                oldest.used,
            ):
                oldest = segment
        return OWN if oldest is None else oldest.slot


class ReceivedSegments:
    """What a receiver has of the other side's segments; all methods belong to the thread that receives.

    Attributes:
        whole: the segment of the last notification that `take` found, as uint8: the same array each time, which is gone before the memory is unmapped.
    """

    def __init__(self) -> None:
        self.whole: Any = None
        self._mapped: list[Any] = [None] * SLOTS
        self._in_use: dict[int, weakref.ref[Any]] = {}
        self._count = 0

    def take(self, slot: int, fresh: Any, size: int) -> Any:
        """The first bytes of a notification's segment, as uint8; the sender does not write to it as long as they or a view of them are referenced.

        Args:
            slot: of the notification.
            fresh: the segment that came along with it, as uint8; None: the one that is in the slot already.
            size: bytes of the notification.

        Returns:
            None: there is no such segment.
        """
        if slot > OWN:
            return None
        whole = fresh
        if fresh is None:
            whole = self._mapped[slot] if slot != OWN else None
        elif slot != OWN:
            self._mapped[slot] = fresh
        self.whole = whole if slot != OWN else None
        if whole is None or size + TRAILER > len(whole):
            return None
        memory = whole.base
        if isinstance(memory, memoryview):
            memory = memory.obj
        found = np.frombuffer(memory, np.uint8, size)
        self._count += 1
        release = _Release(self._in_use, self._count, memory)
        self._in_use[self._count] = weakref.ref(found, release)
        return found

    def clear(self) -> None:
        """Keep none of them."""
        self._mapped = [None] * SLOTS
        self.whole = None
        self._in_use.clear()


class _Release:
    """Tells the sender that a notification is not in use any more; called in any thread."""

    __slots__ = ("_in_use", "_memory", "_number")

    def __init__(
        self, in_use: "dict[int, weakref.ref[Any]]", number: int, memory: mmap.mmap
    ) -> None:
        self._in_use = in_use
        self._number = number
        self._memory = memory

    def __call__(self, _reference: "weakref.ref[Any]") -> None:
        self._in_use.pop(self._number, None)
        memory = self._memory
        memory[len(memory) - TRAILER] = 0


def _close_descriptor(segment: NotificationSegment) -> None:
    descriptor, segment.fresh = segment.fresh, -1
    if descriptor >= 0:
        os.close(descriptor)
