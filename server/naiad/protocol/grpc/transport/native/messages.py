"""Messages out of the data of a stream: each behind one byte that says whether it is compressed, and four of length. Pure."""

import collections.abc
import struct
import typing

import msgspec

from naiad.protocol.grpc.call import RpcStatus
from naiad.protocol.grpc.settings import MAX_MESSAGE_BYTES

PREFIX_BYTES = 5
READ_PREFIX = struct.Struct(">BI").unpack_from

AHEAD_BYTES = 4_194_304
"""Of a message whose length is known, so many bytes may be on their way; grpc lets as many come."""

LONG_BYTES = 4_194_304
"""Above it a message is joined in a thread: to join 4 MiB takes a millisecond, and 1 GB half a second, most of it for fresh memory."""

_RESOURCE_EXHAUSTED, _INTERNAL = 8, 13


class MessageError(Exception):
    """The data are not valid messages, or one is too long: the call ends with `status`."""

    def __init__(self, status: RpcStatus) -> None:
        super().__init__(status.message)
        self.status = status


class Message(msgspec.Struct, gc=False):
    """A whole message.

    Attributes:
        parts: a long one in pieces, in place of `body`: `joined` puts them together.
    """

    body: bytes
    compressed: bool
    parts: list[bytes] | None = None

    def joined(self) -> bytes:
        """The message in one piece. Between the pieces' bytes the interpreter lock is free."""
        if self.parts is not None:
            self.body, self.parts = b"".join(self.parts), None
        return self.body


class MessageReader:
    """Puts messages together. A message is copied once: out of what the socket gave. One of more than `LONG_BYTES` is copied into pieces, for a thread to join.

    Attributes:
        missing: bytes that the message which has begun still needs; 0 between two messages.
    """

    __slots__ = ("_compressed", "_is_long", "_limit", "_parts", "_prefix", "missing")

    def __init__(self, limit: int = MAX_MESSAGE_BYTES) -> None:
        self._limit = limit
        self._prefix = b""
        self._parts: list[typing.Any] = []
        self._is_long = False
        self._compressed = False
        self.missing = 0

    def read(self, buffer: bytes, start: int, end: int) -> collections.abc.Iterator[Message]:
        """The messages that are whole with `buffer[start:end]`.

        Raises:
            MessageError: see there.
        """
        while start < end:
            if not self.missing:
                if self._prefix or end - start < PREFIX_BYTES:
                    taken = min(PREFIX_BYTES - len(self._prefix), end - start)
                    self._prefix += buffer[start : start + taken]
                    start += taken
                    if len(self._prefix) < PREFIX_BYTES:
                        return
                    flag, length = READ_PREFIX(self._prefix)
                    self._prefix = b""
                else:
                    flag, length = READ_PREFIX(buffer, start)
                    start += PREFIX_BYTES
                self._check(flag, length)
                self._compressed = bool(flag)
                if length <= end - start:
                    yield Message(buffer[start : start + length], self._compressed)
                    start += length
                    continue
                self.missing = length
                self._is_long = length > LONG_BYTES
            taken = min(self.missing, end - start)
            piece = buffer if self._is_long else memoryview(buffer)
            self._parts.append(piece[start : start + taken])
            self.missing -= taken
            start += taken
            if self.missing:
                return
            parts, self._parts = self._parts, []
            if self._is_long:
                yield Message(b"", self._compressed, parts)
            else:
                yield Message(b"".join(parts), self._compressed)

    @property
    def inside(self) -> bool:
        """Whether a message has begun and is not whole."""
        return bool(self.missing or self._prefix)

    def drop(self) -> None:
        """Free what came of a message."""
        self._parts.clear()
        self._prefix = b""
        self.missing = 0

    def _check(self, flag: int, length: int) -> None:
        if flag > 1:
            raise MessageError(
                RpcStatus(
                    _INTERNAL,
                    f"a message begins with the byte {flag}: 0 or 1 was expected, whether it is compressed",
                )
            )
        if length > self._limit:
            raise MessageError(
                RpcStatus(
                    _RESOURCE_EXHAUSTED,
                    f"Received message larger than max ({length} vs. {self._limit}): send less data in one message",
                )
            )


def credit(window: int, missing: int, initial: int) -> int:
    """How much the client may send beyond `window`, so that what is missing of a message comes; 0 while more than half is left."""
    wanted = min(max(missing, initial), AHEAD_BYTES)
    return wanted - window if window <= wanted >> 1 else 0
