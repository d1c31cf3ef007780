"""preserve_ordering (row 12.9): batches leave in the order in which they were sent, whichever instance is faster.

Pure. A batch comes back as a whole, so order is kept between batches and not between requests: inside a batch it is
the queue's own.
"""

import typing

T = typing.TypeVar("T")


class Reordering(typing.Generic[T]):
    """Holds back what came back too early."""

    __slots__ = ("_early", "_tickets", "due")

    def __init__(self) -> None:
        self._tickets = 0
        self.due = 0
        """Whose turn it is to leave."""
        self._early: dict[int, T] = {}

    def sent(self) -> int:
        """Something was sent: its place in the order."""
        ticket = self._tickets
        self._tickets += 1
        return ticket

    def came_back(self, ticket: int, item: T) -> list[T]:
        """Something came back: everything that may leave now, in order."""
        self._early[ticket] = item
        ready: list[T] = []
        while self.due in self._early:
            ready.append(self._early.pop(self.due))
            self.due += 1
        return ready

    def early(self) -> list[T]:
        """What came back and waits for what is due."""
        return list(self._early.values())
