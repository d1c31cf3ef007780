"""The progress of a copy as lines for people, and the words for amounts in them."""

import collections.abc
import time

_EVERY_S = 5.0
"""Seconds between two lines."""


class Progress:
    """Reports the progress of a copy, a line now and then.

    Args:
        models: how many there are; 0 where files are copied as they are.
        size: bytes of them all.
        say: where the line goes.
        clock: seconds.
    """

    def __init__(
        self,
        *,
        models: int,
        size: int,
        say: collections.abc.Callable[[str], None],
        clock: collections.abc.Callable[[], float] = time.monotonic,
    ) -> None:
        self._models = models
        self._size = size
        self._clock = clock
        self._say = say
        self._copied = 0
        self._reported = clock()

    def advance(self, count: int) -> None:
        """Count so many bytes more."""
        self._copied += count
        now = self._clock()
        if now - self._reported >= _EVERY_S:
            self._reported = now
            done = 100 * self._copied // max(self._size, 1)
            models = f" in {counted(self._models, 'model')}" if self._models else ""
            self._say(f"{amount(self._copied)} of {amount(self._size)}{models} ({done} %)")


def counted(count: int, noun: str) -> str:
    """So many of a noun, for people."""
    return f"{count} {noun}{'s' * (count != 1)}"


_KILO = 1000


def amount(size: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < _KILO:
            return f"{size:.0f} {unit}" if unit in ("B", "kB") else f"{size:.1f} {unit}"
        size /= _KILO
    return f"{size:.1f} TB"
