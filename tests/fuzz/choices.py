"""Random bytes read as a row of choices, so that a fuzzer that only knows bytes can build requests and messages.

When the bytes are used up every choice is the first one: a short input is a simple case.
"""

import collections.abc
import typing

Item = typing.TypeVar("Item")


class Choices:
    """Reads choices from the front of some bytes.

    Args:
        data: the fuzzer's input.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        """The next bytes, at most `count`."""
        taken = self._data[self._at : self._at + count]
        self._at += len(taken)
        return taken

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        span = high - low + 1
        width = ((span - 1).bit_length() + 7) // 8
        return low + int.from_bytes(self.take(width), "little") % span

    def boolean(self) -> bool:
        """One bit."""
        return bool(self.integer(0, 1))

    def pick(self, items: "collections.abc.Sequence[Item]") -> Item:
        """One of several."""
        return items[self.integer(0, len(items) - 1)]

    def binary(self, longest: int) -> bytes:
        """Some bytes, at most `longest`."""
        return self.take(self.integer(0, longest))

    def text(self, longest: int) -> str:
        """Some characters."""
        return self.binary(longest).decode("utf-8", "ignore")

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._data))
