"""Queues between the event loop and the thread of an instance, over eventfds.

A lock, a queue and `call_soon_threadsafe` wake the other side while the caller still holds the interpreter lock, so the side that wakes up sleeps again at once until the lock is released: with both sides on one processor a
hand-over and back took eight context switches, where these take three (27 µs instead of 77 µs; docs/performance.md). Reading and writing an
eventfd releases the lock first. Its counter is the number of items, so one read takes one item, whatever the order in which the sides run.
"""

import asyncio
import collections
import collections.abc
import os
import typing

Item = typing.TypeVar("Item")


class ThreadQueue(typing.Generic[Item]):
    """A queue for one thread. Any thread calls `put`; that thread calls `get` and `close`."""

    __slots__ = ("_event", "_items")

    def __init__(self) -> None:
        self._items: collections.deque[Item] = collections.deque()
        self._event = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_CLOEXEC)

    def put(self, item: Item) -> None:
        """Add an item."""
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
            ):  # by a signal; `os.eventfd_read` does not retry, as `os.read` does
                continue
        return self._items.popleft()

    def drain(self) -> list[Item]:
        """All items, for a thread that does not run."""
        items, self._items = list(self._items), collections.deque()
        return items

    def close(self) -> None:
        """Close the descriptor; no `put` may follow."""
        os.close(self._event)


class LoopQueue(typing.Generic[Item]):
    """A queue for an event loop, from any thread. Items that come close together share one wake-up.

    Args:
        loop: the event loop.
        take: called on the loop with each item, in order.
    """

    __slots__ = ("_event", "_items", "_loop", "_take", "_woken")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, take: collections.abc.Callable[[Item], None]
    ) -> None:
        self._loop = loop
        self._take = take
        self._items: collections.deque[Item] = collections.deque()
        self._woken = False
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        loop.add_reader(self._event, self._on_wakeup)

    def put(self, item: Item) -> None:
        """Add an item. One that comes after `close` is dropped."""
        self._items.append(item)
        if not self._woken:
            self._woken = True
            os.eventfd_write(self._event, 1)

    def flush(self) -> None:
        """Take the items that are queued now; on the loop. Its exception handler gets what `take` raises."""
        items, take = self._items, self._take
        # Not until it is empty: a thread that keeps adding items would block the loop.
        for _ in range(len(items)):
            try:
                take(items.popleft())
            except Exception as error:  # noqa: BLE001 - the items behind it are other requests'
                self._loop.call_exception_handler(
                    {"message": "an item of a queue was not taken", "exception": error}
                )

    def close(self) -> None:
        """Take no more items; on the loop. Threads may still call `put`: the descriptor stays open until the queue is deleted."""
        self._loop.remove_reader(self._event)

    def __del__(self) -> None:
        os.close(self._event)

    def _on_wakeup(self) -> None:
        try:  # noqa: SIM105 - the context manager takes as long as the queue
            os.eventfd_read(self._event)
        except BlockingIOError:  # a spurious wake-up
            pass
        self._woken = False  # before items are taken: a `put` from here on wakes the loop again
        try:
            self.flush()
        finally:
            if self._items and not self._woken:
                self._woken = True
                os.eventfd_write(self._event, 1)


class LoopCallQueue:
    """A queue of calls for an event loop. One thread calls `put`; everything else is called on the loop.

    Args:
        loop: makes the calls, in order.
    """

    __slots__ = ("_calls", "_event", "_is_open", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: collections.deque[collections.abc.Callable[[], None]] = collections.deque()
        self._is_open = True
        self._event = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        loop.add_reader(self._event, self._call_next)

    def put(self, call: collections.abc.Callable[[], None]) -> None:
        """Add a call. A loop that has ended makes none."""
        self._calls.append(call)
        os.eventfd_write(self._event, 1)

    def close(self) -> None:
        """Close the descriptor; no `put` may follow."""
        self._loop.remove_reader(self._event)
        self._is_open = False
        os.close(self._event)

    def __del__(self) -> None:
        if self._is_open:  # the loop ended before the thread
            os.close(self._event)

    def _call_next(self) -> None:
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:  # a spurious wake-up
            return
        self._calls.popleft()()
