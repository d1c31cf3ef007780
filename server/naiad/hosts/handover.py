"""The hand-over between the event loop and a thread: one item, one wake-up, and no fight over the interpreter lock.

A lock, a queue and `call_soon_threadsafe` wake the other side while the caller still holds the interpreter lock, so whoever wakes
up goes back to sleep at once until it is let go: with both sides on one processor that made eight context switches of a hand-over
and back, where these make three (27 µs instead of 77 µs; docs/performance.md). Reading and writing an eventfd lets the lock go first.
Its counter is the number of items, so one read takes one item, whatever the order in which the sides run.
"""

import asyncio
import collections
import collections.abc
import contextlib
import os
import typing

Item = typing.TypeVar("Item")


class ToThread(typing.Generic[Item]):
    """Items for one thread. `put` is called by anybody, `get` and `close` by the thread."""

    __slots__ = ("_event", "_items")

    def __init__(self) -> None:
        self._items: collections.deque[Item] = collections.deque()
        self._event = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_CLOEXEC)

    def put(self, item: Item) -> None:
        """Hand an item over."""
        self._items.append(item)
        os.eventfd_write(self._event, 1)

    def get(self) -> Item:
        """The next item; waits for it."""
        while True:
            try:
                os.eventfd_read(self._event)
                break
            except (
                InterruptedError
            ):  # a signal came here, which `os.eventfd_read` does not wait out as `os.read` does
                continue
        return self._items.popleft()

    def close(self) -> None:
        """Give the descriptor back; nothing is put any more."""
        os.close(self._event)


class Mailbox(typing.Generic[Item]):
    """Items for an event loop, from any thread. Those that come close together share one wake-up.

    Args:
        loop: whose thread takes them.
        take: called on the loop with each item, in the order in which they came.
    """

    __slots__ = ("_event", "_items", "_loop", "_take", "_told")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, take: collections.abc.Callable[[Item], None]
    ) -> None:
        self._loop = loop
        self._take = take
        self._items: collections.deque[Item] = collections.deque()
        self._told = False
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        loop.add_reader(self._event, self._look)

    def put(self, item: Item) -> None:
        """Hand an item over. One that comes after `close` is lost."""
        self._items.append(item)
        if not self._told:
            self._told = True
            os.eventfd_write(self._event, 1)

    def flush(self) -> None:
        """Take what has come by now; on the loop."""
        items, take = self._items, self._take
        # Not until it is empty: a thread that goes on putting would keep the loop here.
        for _ in range(len(items)):
            take(items.popleft())

    def close(self) -> None:
        """Take nothing any more; on the loop. Threads may go on putting: the descriptor stays until nobody can."""
        self._loop.remove_reader(self._event)

    def __del__(self) -> None:
        os.close(self._event)

    def _look(self) -> None:
        with contextlib.suppress(BlockingIOError):  # woken for nothing, as a loop may be
            os.eventfd_read(self._event)
        self._told = False  # before anything is taken: who puts from here on wakes the loop again
        try:
            self.flush()
        finally:
            if self._items and not self._told:
                self._told = True
                os.eventfd_write(self._event, 1)


class ToLoop:
    """Calls for an event loop. `put` is called by one thread, everything else on the loop.

    Args:
        loop: which makes the calls, in their order.
    """

    __slots__ = ("_calls", "_event", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: collections.deque[collections.abc.Callable[[], None]] = collections.deque()
        self._event = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        loop.add_reader(self._event, self._call_next)

    def put(self, call: collections.abc.Callable[[], None]) -> None:
        """Have the loop make a call. A loop that ended makes none."""
        self._calls.append(call)
        os.eventfd_write(self._event, 1)

    def close(self) -> None:
        """Give the descriptor back; nothing is put any more."""
        self._loop.remove_reader(self._event)
        os.close(self._event)

    def _call_next(self) -> None:
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:  # woken for nothing, as a loop may be
            return
        self._calls.popleft()()
