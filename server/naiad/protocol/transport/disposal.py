"""Frees large objects of connections that have gone, one per iteration of the event loop: giving 40 MB back to the system takes 20 ms, with the interpreter lock held."""

import asyncio
import collections
import collections.abc


class Disposal:
    """What is to be freed. All connections of a listener share it, or those that end together would free as much in one iteration. Loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: collections.deque[object] = collections.deque()

    def __len__(self) -> int:
        """How many objects wait."""
        return len(self._waiting)

    def add(self, objects: collections.abc.Iterable[object]) -> None:
        """Free objects to which nothing else refers, in the iterations that follow."""
        idle = not self._waiting
        self._waiting.extend(objects)
        if idle and self._waiting:
            self._loop.call_soon(self._free_one)

    def _free_one(self) -> None:
        self._waiting.popleft()
        if self._waiting:
            self._loop.call_soon(self._free_one)
