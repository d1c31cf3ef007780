"""preserve_ordering (row 12.9): batches leave in the order in which they were sent, whichever instance is faster.

Pure. The order is kept between batches; inside a batch it is the order of the queue.
"""

import typing

T = typing.TypeVar("T")


class Reordering(typing.Generic[T]):
    """Keeps items that came back early until all earlier ones have come back."""

    __slots__ = ("_early", "_tickets", "due")

    def __init__(self) -> None:
        self._tickets = 0
        self.due = 0
        """The ticket of the next item to leave."""
        self._early: dict[int, T] = {}

    def sent(self) -> int:
        """The ticket of an item that is sent: its position in the order."""
        ticket = self._tickets
        self._tickets += 1
        return ticket

    def came_back(self, ticket: int, item: T) -> list[T]:
        """An item came back; returns the items that leave now, in order."""
        self._early[ticket] = item
        ready: list[T] = []
        while self.due in self._early:
            ready.append(self._early.pop(self.due))
            self.due += 1
        return ready

    def early(self) -> list[T]:
        """The items that came back and wait for the one that is due."""
        return list(self._early.values())
