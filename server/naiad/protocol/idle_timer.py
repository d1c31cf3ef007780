"""A timer for what is kept while it is used, and given up when it was not used for a while."""

import asyncio
import collections.abc


class IdleTimer:
    """It runs from the first use until it has called back. Loop only.

    Args:
        seconds: how long without use; it may take up to twice as long.
        idle: the callback; returns whether it has given up what is kept. If not, it is called again after as many seconds.
    """

    def __init__(self, seconds: float, idle: collections.abc.Callable[[], bool]) -> None:
        self._seconds = seconds
        self._idle = idle
        self._used = False
        self._timer: asyncio.TimerHandle | None = None

    def used(self) -> bool:
        """Note a use. Returns whether it is the first since the last callback."""
        self._used = True
        if self._timer is not None:
            return False
        self._start()
        return True

    def close(self) -> None:
        """Stop. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self) -> None:
        self._used = False
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._used or not self._idle():
            self._start()
