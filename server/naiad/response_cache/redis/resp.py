"""The Redis protocol (RESP2), as far as a cache needs it: commands out, replies in. Pure.

A client of our own, and not the package `redis`: that one takes a task, a lock and about 100 microseconds per command, while a look-up here
must add little to a request, and all look-ups share one connection.
"""

import collections.abc

_END = b"\r\n"

LARGEST = 1 << 29
"""The largest value that Redis has."""


class ReplyError(Exception):
    """Redis responds with an error."""


Reply = bytes | int | None | ReplyError


def command(*arguments: bytes) -> bytes:
    """A command with its arguments."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        parts += (b"$%d\r\n" % len(argument), argument, _END)
    return b"".join(parts)


class ReplyParser:
    """Reads replies from pieces of a stream."""

    def __init__(self) -> None:
        self._unread = bytearray()
        self._bulk = -1
        """Bytes of the value that is being received; -1 for none."""

    def feed(self, data: bytes) -> collections.abc.Iterator[Reply]:
        """The replies that are complete now.

        Raises:
            ValueError: these are not replies to commands of a cache.
        """
        self._unread += data
        while True:
            if self._bulk >= 0:
                end = self._bulk + len(_END)
                if len(self._unread) < end:
                    return
                value = bytes(memoryview(self._unread)[: self._bulk])
                del self._unread[:end]
                self._bulk = -1
                yield value
                continue
            at = self._unread.find(_END)
            if at < 0:
                return
            line = bytes(self._unread[:at])
            del self._unread[: at + len(_END)]
            if line[:1] == b"$" and (length := _length(line)) >= 0:
                self._bulk = length
            else:
                yield _short(line)


def _length(line: bytes) -> int:
    length = int(line[1:])
    if length > LARGEST:
        raise ValueError(f"a value of {length} bytes")
    return length


def _short(line: bytes) -> Reply:
    """A reply of one line."""
    kind, rest = line[:1], line[1:]
    if kind == b"$":
        return None
    if kind == b"+":
        return rest
    if kind == b":":
        return int(rest)
    if kind == b"-":
        return ReplyError(rest.decode(errors="replace"))
    raise ValueError(f"a reply that begins with {kind!r}")
