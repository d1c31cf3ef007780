"""Grants resources to instances of all models (`--rate-limit=execution_count`, row 14.17): `turns.py` decides, `amounts.py` knows what there is."""

import collections
import collections.abc
import itertools

from naiad.backends.instance import InstanceSpec
from naiad.scheduling.instances.resources import ResourceUser
from naiad.scheduling.rate_limiter.amounts import ResourceTable, needs_of
from naiad.scheduling.rate_limiter.keys import ExplicitAmounts, ResourceKey
from naiad.scheduling.rate_limiter.turns import Turn, blocking, runnable


class _Turn(Turn, eq=False):
    """The turn of a user.

    Attributes:
        user: the instance.
        waits: whether it is among those that wait, or is being called back.
        holds: whether it has its resources.
    """

    user: ResourceUser | None = None
    waits: bool = False
    holds: bool = False


class RateLimiter:
    """Implements `Resources`.

    Args:
        explicit: `--rate-limit-resource`.
    """

    def __init__(self, explicit: ExplicitAmounts) -> None:
        self._table = ResourceTable(explicit)
        self._turns: dict[ResourceUser, _Turn] = {}
        self._waiting: dict[_Turn, None] = {}
        self._held = collections.Counter[ResourceKey]()
        self._reached: dict[ResourceKey, int] = {}
        self._numbers = itertools.count(1)

    def register(self, specs: collections.abc.Sequence[InstanceSpec]) -> None:
        """See `Resources`."""
        self._table.register(specs)

    def unregister(self, specs: collections.abc.Sequence[InstanceSpec]) -> None:
        """See `Resources`."""
        self._table.unregister(specs)
        amounts = self._table.amounts()
        self._reached = {key: start for key, start in self._reached.items() if key in amounts}

    def limits(self, spec: InstanceSpec) -> bool:
        """See `Resources`."""
        return bool(spec.resources)

    def acquire(self, user: ResourceUser) -> bool:
        """See `Resources`."""
        turn = self._turns.get(user)
        if turn is None:
            turn = _Turn(needs=needs_of(user.spec), priority=max(1, user.spec.priority), user=user)
            self._turns[user] = turn
        if not turn.waits:
            turn.start = max(turn.finish, *(self._reached.get(key, 0) for key in turn.needs))
            turn.number = next(self._numbers)
        self._waiting[turn] = None
        if turn not in self._runnable():
            turn.waits = True
            return False
        del self._waiting[turn]
        turn.waits, turn.holds = False, True
        turn.finish = turn.start + turn.priority
        for key, amount in turn.needs.items():
            self._held[key] += amount
            self._reached[key] = max(turn.start, self._reached.get(key, 0))
        return True

    def release(self, user: ResourceUser) -> None:
        """See `Resources`."""
        turn = self._turns.get(user)
        if turn is not None and turn.holds:
            turn.holds = False
            self._held.subtract(turn.needs)

    def offer(self) -> None:
        """See `Resources`."""
        while (turn := next(self._runnable(), None)) is not None:
            del self._waiting[turn]
            assert turn.user is not None
            turn.user.retry()
            if turn not in self._waiting:
                turn.waits = False

    def withdraw(self, user: ResourceUser) -> None:
        """See `Resources`."""
        self.release(user)
        turn = self._turns.pop(user, None)
        if turn is not None:
            self._waiting.pop(turn, None)
            self.offer()  # it may have kept resources from others

    def holders(self, user: ResourceUser) -> list[ResourceUser]:
        """See `Resources`."""
        turn = self._turns.get(user)
        if turn is None or not turn.waits:
            return []
        keys = blocking(self._waiting, turn)
        return [
            other.user
            for other in self._turns.values()
            if other.holds and other.user is not None and not keys.isdisjoint(other.needs)
        ]

    def unused(self) -> dict[ResourceKey, int]:
        """What is left of each resource; below 0 while instances use more than there is since another one was unloaded."""
        return {key: amount - self._held[key] for key, amount in self._table.amounts().items()}

    def _runnable(self) -> collections.abc.Iterator[_Turn]:
        return runnable(self._waiting, self.unused())
