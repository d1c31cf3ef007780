"""The order of the responses of a decoupled ensemble: that of the responses of its first decoupled step. Pure.

The steps behind it work on several of them at the same time, and may end in any order. What was made of a later one waits until nothing more is to be
made of those before it.
"""

import collections
import typing

T = typing.TypeVar("T")


class ResponseOrder(typing.Generic[T]):
    """What was made of each response so far, by its number."""

    __slots__ = ("_head", "_known", "_ready", "_working")

    def __init__(self) -> None:
        self._head = 0
        self._known = 0
        self._working = collections.Counter[int]()
        self._ready: dict[int, list[T]] = {}

    def begun(self, number: int) -> None:
        """Work on a response has begun; `done` follows."""
        self._known = max(self._known, number + 1)
        self._working[number] += 1

    def done(self, number: int) -> None:
        """Work on a response is done."""
        self._working[number] -= 1
        if not self._working[number]:
            del self._working[number]

    def add(self, number: int, made: T) -> None:
        """Something was made of a response."""
        self._ready.setdefault(number, []).append(made)

    def take(self) -> list[T]:
        """What is next, in order."""
        taken: list[T] = []
        while True:
            taken += self._ready.pop(self._head, ())
            if self._head >= self._known or self._head in self._working:
                return taken
            self._head += 1
