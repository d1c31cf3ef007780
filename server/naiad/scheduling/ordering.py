"""preserve_ordering (row 12.9): batches leave in the order in which they were sent, whichever instance is faster.

Pure. A batch comes back as a whole, so order is kept between batches and not between requests: inside a batch it is
the queue's own.
"""

import typing

T = typing.TypeVar("T")


class Reordering(typing.Generic[T]):
    """Holds back what came back too early."""

    __slots__ = ("_due", "_early", "_tickets")

    def __init__(self) -> None:
        self._tickets = 0
        self._due = 0
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
        while self._due in self._early:
            ready.append(self._early.pop(self._due))
            self._due += 1
        return ready
