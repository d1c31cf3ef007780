"""A thread that takes what the event loop gives it, in pieces: slow files and collectors hold up nothing but themselves.

The queue is bounded: what does not fit is dropped and counted. The thread sleeps until there is something, then waits a moment for more, so that
the loop wakes it a few times per second at most.
"""

import collections
import collections.abc
import logging
import sys
import threading
import typing

_log = logging.getLogger(__name__)

T = typing.TypeVar("T")


class Background(typing.Generic[T]):
    """The thread and its queue. It ends with the process, whatever it is doing.

    Args:
        work: takes what has come; on the thread. An exception of it is logged, and the thread goes on.
        most: how much may wait, in the sizes that `put` gets.
        gather_seconds: how long to wait for more once something has come.
        enough: how much ends this wait.
        at_end: called on the thread once it ends.

    Attributes:
        most: as given.
        dropped: how much did not fit.
        is_busy: whether the thread works.
    """

    def __init__(
        self,
        work: collections.abc.Callable[[list[T]], None],
        *,
        name: str,
        most: int,
        gather_seconds: float,
        enough: int = sys.maxsize,
        at_end: collections.abc.Callable[[], None] | None = None,
    ) -> None:
        self._work = work
        self.most = most
        self._enough = enough
        self._at_end = at_end
        # Each is written by one thread only.
        self._given = self._taken = 0
        self._gather_seconds = gather_seconds
        self._waiting = collections.deque[tuple[T, int]]()
        self._wakeup = threading.Event()
        self._hurry = threading.Event()
        self._closing = False
        self.dropped = 0
        self.is_busy = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._started = False

    def put(self, item: T, size: int = 1) -> bool:
        """Give the thread something; whether it fits. Never waits."""
        waiting = self._given - self._taken
        if waiting + size > self.most:
            self.dropped += size
            return False
        self._given += size
        self._waiting.append((item, size))
        if waiting + size >= self._enough:
            self._hurry.set()
        if not self._wakeup.is_set():
            if not self._started:
                self._started = True
                self._thread.start()
            self._wakeup.set()
        return True

    def hurry(self) -> None:
        """Gather no longer what was given."""
        self._hurry.set()

    def close(self, seconds: float) -> bool:
        """Work on what waits, and end; whether it did within this time. Not on the event loop."""
        self._closing = True
        self._hurry.set()
        self._wakeup.set()
        if self._started:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            self._wakeup.wait()
            self._hurry.wait(self._gather_seconds)
            self._wakeup.clear()
            self._hurry.clear()  # before the look at `_closing`: `close` sets it first
            is_last = self._closing
            items = []
            for _ in range(len(self._waiting)):
                item, size = self._waiting.popleft()
                self._taken += size
                items.append(item)
            if items:
                self.is_busy = True
                try:
                    self._work(items)
                except Exception:  # noqa: BLE001 - what comes later is worked on all the same
                    _log.exception("%s failed", self._thread.name)
                self.is_busy = False
            if is_last and not self._waiting:
                if self._at_end is not None:
                    self._at_end()
                return
            if is_last:
                self._hurry.set()
                self._wakeup.set()
