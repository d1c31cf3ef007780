"""Gives the memory of large batches and responses back once an instance has had nothing to do for a while.

Its link keeps the segments, since a page that is there already costs a tenth of a new one; what a message of a gigabyte has left in them would stay as long as the worker otherwise.
Only the pages are taken out of the files, which both processes keep mapped, so that this costs no message: without a batch the worker writes to none of them.
"""

import asyncio
import collections.abc
import mmap
from typing import Any

from naiad.hosts.link.link import Link
from naiad.tensors.mapping import give_back_pages

IDLE_S = 10.0
"""Seconds without a batch, up to twice as many."""

_SLICE = 1 << 22
"""Bytes that are given back in an iteration of the loop: 1 to 4 ms."""


class IdleSegments:
    """Those of one instance. All of it belongs to the event loop.

    Args:
        loop: the event loop.
        is_idle: whether no batch is in the worker, or on its way.
    """

    __slots__ = ("_at", "_is_idle", "_link", "_loop", "_ran", "_timer", "_unused")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, is_idle: collections.abc.Callable[[], bool]
    ) -> None:
        self._loop = loop
        self._is_idle = is_idle
        self._link: Link | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ran = False
        self._unused: list[Any] = []
        self._at = 0

    def ran(self, link: Link) -> None:
        """A batch has ended on a link with large segments."""
        self._link = link
        self._ran = True
        if self._timer is None:
            self._timer = self._loop.call_later(IDLE_S, self._look)

    def stop(self) -> None:
        """The worker ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._link = None
        self._unused.clear()

    def _look(self) -> None:
        self._timer = None
        if self._link is None:
            return
        if self._ran or not self._is_idle():
            self._ran = False
            self._timer = self._loop.call_later(IDLE_S, self._look)
            return
        self._unused, self._at = self._link.unused_large(), 0
        self._go_on()

    def _go_on(self) -> None:
        """Give a slice back, and the rest in the next iterations unless a batch comes."""
        unused = self._unused
        if self._ran or not self._is_idle():
            unused.clear()  # what is left is for another time: `ran` is called after the batch
        if not unused:
            return
        pages = unused[-1]
        size = min(_SLICE, len(pages) - self._at)
        give_back_pages(pages.ctypes.data + self._at, size, mmap.MADV_REMOVE)
        self._at += size
        if self._at >= len(pages):
            unused.pop()
            self._at = 0
        self._loop.call_soon(self._go_on)
