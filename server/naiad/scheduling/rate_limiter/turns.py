"""Which of the instances that wait for resources are next: shares of executions follow the priorities. Pure.

Start-time fair queueing. Each execution moves its instance's turn back by its priority, so that an instance of priority 2 has half as many turns as one of
priority 1 while both have work. An instance that had none for a while begins at the turn of those that went on: it cannot save turns up, and a model that
was loaded later does not stop the others until it has caught up, as it would if executions were counted from the load on.
"""

import collections.abc
import typing

import msgspec

from naiad.scheduling.rate_limiter.keys import Amounts, ResourceKey


class Turn(msgspec.Struct, eq=False):
    """The turn of an instance.

    Attributes:
        needs: what it needs of each resource.
        priority: how far an execution moves it back; at least 1.
        start: its place in the order; the smallest is first.
        finish: the start of its next turn, if it goes on without a pause.
        number: decides between equal starts: the one that waits longest is first.
    """

    needs: Amounts
    priority: int
    start: int = 0
    finish: int = 0
    number: int = 0

    def order(self) -> tuple[int, int]:
        """What turns are sorted by."""
        return self.start, self.number


AnyTurn = typing.TypeVar("AnyTurn", bound=Turn)


def runnable(
    waiting: collections.abc.Iterable[AnyTurn], unused: collections.abc.Mapping[ResourceKey, int]
) -> collections.abc.Iterator[AnyTurn]:
    """The turns that can run now, in order.

    One that lacks a resource keeps what it needs from those behind it, so that an instance which needs much is not overtaken for ever by others that need
    little. Those that need other resources are not held up.

    Args:
        waiting: all that wait.
        unused: how much of each resource is left.
    """
    left = dict(unused)
    kept = set[ResourceKey]()
    for turn in sorted(waiting, key=Turn.order):
        if kept.isdisjoint(turn.needs) and all(
            amount <= left.get(key, 0) for key, amount in turn.needs.items()
        ):
            for key, amount in turn.needs.items():
                left[key] -= amount
            yield turn
        else:
            kept.update(turn.needs)


def blocking(waiting: collections.abc.Iterable[Turn], turn: Turn) -> set[ResourceKey]:
    """The resources that a turn waits for: its own, and those of earlier turns that keep one of these from it."""
    keys = set(turn.needs)
    for earlier in sorted(waiting, key=Turn.order, reverse=True):
        if earlier.order() < turn.order() and not keys.isdisjoint(earlier.needs):
            keys.update(earlier.needs)
    return keys
