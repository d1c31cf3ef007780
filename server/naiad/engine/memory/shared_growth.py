"""What loads take of a memory that they share, by how much it grew: the server's own, or a device's. Pure.

A load by itself took the growth between its begin and its end. Loads that overlap share the growth between the begin of the first and the end of the
last one, in proportion to the sizes of their files. Requests and unloads in the meantime are included: the result is an estimate.
"""

import collections.abc
import typing

LoadT = typing.TypeVar("LoadT", bound=collections.abc.Hashable)


class SharedGrowth(typing.Generic[LoadT]):
    """The loads that overlap in one memory."""

    def __init__(self) -> None:
        self._running: dict[LoadT, int] = {}
        self._ended: dict[LoadT, int] = {}
        self._level = 0

    def begin(self, load: LoadT, *, weight: int, level: int) -> None:
        """A load begins.

        Args:
            load: the load.
            weight: bytes of its files.
            level: bytes of the memory that are in use now.
        """
        if not self._running:
            self._level = level
        self._running[load] = weight

    def end(self, load: LoadT, *, level: int, failed: bool) -> dict[LoadT, int]:
        """A load has ended.

        Args:
            load: the load.
            level: bytes of the memory that are in use now.
            failed: it holds nothing.

        Returns:
            The bytes that each load took, once no load overlaps them any more; empty before that, and if the memory did not grow.
        """
        weight = self._running.pop(load)
        if not failed:
            self._ended[load] = weight
        if self._running:
            return {}
        ended, self._ended = self._ended, {}
        growth = level - self._level
        if growth <= 0:
            return {}
        total = sum(ended.values())
        return {
            each: growth * weight // total if total else growth // len(ended)
            for each, weight in ended.items()
        }
