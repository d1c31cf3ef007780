"""How fast the instances of a pool are, and which of them a batch is for."""

import collections.abc

from naiad.scheduling.instances.slot import InstanceSlot
from naiad.scheduling.speed.estimate import InstanceLoad, free_in
from naiad.scheduling.speed.faster import waits_for_faster


class Speeds:
    """Looks at the instances of a pool, and changes none.

    Args:
        slots: all of them; the pool's own list.
        free: those without a batch; likewise.

    Attributes:
        mixed: whether instances are of several groups, so that some may be faster than others.
    """

    __slots__ = ("_free", "_slots", "mixed")

    def __init__(
        self,
        slots: collections.abc.Sequence[InstanceSlot],
        free: collections.abc.Sequence[InstanceSlot],
    ) -> None:
        self._slots = slots
        self._free = free
        self.update()

    def update(self) -> None:
        """Instances were added or removed."""
        self.mixed = len({id(slot.times) for slot in self._slots if not slot.removed}) > 1

    def fastest(self) -> InstanceSlot:
        """The free instance whose batches take least; one whose batches are not known yet comes first. Only while one is free."""
        return min(reversed(self._free), key=_batch_ns)

    def awaits_faster(self, batches: int, now: int) -> int:
        """When to decide again, if what waits is left to busy instances that are faster than each free one; 0 if it is not.

        Args:
            batches: how many wait.
            now: monotonic nanoseconds.
        """
        slow_ns = _batch_ns(self.fastest())
        busy = [
            _load(slot, now)
            for slot in self._slots
            if slot.batch is not None
            and slot.usable
            and not slot.removed
            and 0 < slot.times.batch_ns < slow_ns
        ]
        if not busy or not waits_for_faster(slow_ns, busy, batches):
            return 0
        return now + min(load.batch_ns for load in busy)

    def loads(self, now: int) -> list[InstanceLoad]:
        """The usable instances, with their loads."""
        return [_load(slot, now) for slot in self._slots if slot.usable and not slot.removed]

    def busy(self) -> int:
        """How many usable instances execute a batch."""
        return sum(slot.batch is not None for slot in self._slots if slot.usable)


def _load(slot: InstanceSlot, now: int) -> InstanceLoad:
    batch_ns = slot.times.batch_ns
    if slot.batch is None:
        return InstanceLoad(0, batch_ns)
    prefetched_ns = batch_ns if slot.prefetched is not None else 0
    return InstanceLoad(free_in(slot.began_ns, batch_ns, now) + prefetched_ns, batch_ns)


def _batch_ns(slot: InstanceSlot) -> int:
    return slot.times.batch_ns
