"""Which opened allocations of other processes stay open: a pure table. Opening one takes 0.15 ms, and frameworks use the same ones again.

An allocation that is open here is not returned to its device, even if the process that made it frees it or ends: so one that no tensor uses stays open only
for a while, only so many do, and none of a process that has ended. A client's allocation stays open until the server says that it has ended: it cannot be
opened again when the client is gone. Limits: standard library, Python 3.8.
"""

from typing import NamedTuple

IDLE_S = 10.0
"""How long an allocation that no tensor uses stays open."""

MOST_IDLE = 64
"""How many of them do."""


CLIENTS = 1 << 63
"""From here on, the number of an owner is that of a client's allocation (`hosts/cuda_regions`)."""


class Key(NamedTuple):
    """An allocation: the server's number of its process, its handle, and the device of this process."""

    owner: int
    handle: bytes
    device: int


class _Open:
    __slots__ = ("base", "idle_since", "uses")

    def __init__(self, base: int) -> None:
        self.base = base
        self.uses = 1
        self.idle_since = 0.0


class OpenHandles:
    """The table. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._open: dict[Key, _Open] = {}
        self._ended: set[int] = set()

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def use(self, key: Key) -> "int | None":
        """One more tensor uses an allocation: its base; None if it is not open: `opened` or nothing comes next."""
        found = self._open.get(key)
        if found is None:
            return None
        found.uses += 1
        return found.base

    def opened(self, key: Key, base: int) -> None:
        """It was opened, for one tensor."""
        self._open[key] = _Open(base)

    def release(self, key: Key, now: float) -> None:
        """A tensor does not use it any more."""
        found = self._open[key]
        found.uses -= 1
        found.idle_since = now

    def end(self, owner: int) -> None:
        """A process has ended."""
        self._ended.add(owner)

    def take_due(self, now: float) -> "list[tuple[Key, int]]":
        """Those to close now, with their bases; they are not in the table any more."""
        due = self._due(now)
        self._ended &= {key.owner for key in self._open.keys() - due}
        return [(key, self._open.pop(key).base) for key in due]

    def wait_s(self, now: float) -> "float | None":
        """Seconds until one is due; None while all are in use."""
        idle = self._idle()
        if not idle:
            return None
        return 0.0 if self._due(now) else max(idle[0][0] + IDLE_S - now, 0.0)

    def _idle(self) -> "list[tuple[float, Key]]":
        """Those that may be closed, and since when; the oldest first."""
        idle = [
            (found.idle_since, key)
            for key, found in self._open.items()
            if not found.uses and (key.owner < CLIENTS or key.owner in self._ended)
        ]
        idle.sort(key=lambda each: each[0])
        return idle

    def _due(self, now: float) -> "list[Key]":
        idle = self._idle()
        surplus = len(idle) - MOST_IDLE
        return [
            key
            for place, (since, key) in enumerate(idle)
            if place < surplus or now - since >= IDLE_S or key.owner in self._ended
        ]
