"""Messages out of the data of a stream: each behind one byte that says whether it is compressed, and four of length. Pure."""

import collections.abc
import struct
import typing

import msgspec

from naiad.protocol.grpc.call import RpcStatus
from naiad.protocol.grpc.settings import MAX_MESSAGE_BYTES
from naiad.protocol.transport.http2.events import Data
from naiad.protocol.transport.http2.streams import Filling

PREFIX_BYTES = 5
READ_PREFIX = struct.Struct(">BI").unpack_from

AHEAD_BYTES = 4_194_304
"""Of a message whose length is known, so many bytes may be on their way; grpc lets as many come."""

LONG_BYTES = 4_194_304
"""Above it a message is joined in a thread: to join 4 MiB takes a millisecond, and 1 GB half a second, most of it for fresh memory."""

LENT_BYTES = 524_288
"""From here on a message with tensors goes straight to memory that a worker process can read."""

_VIEWED_BYTES = 1_024
_COLLECTED_BYTES = 65_536

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
        view: one in lent memory, in place of `body`.
    """

    body: bytes
    compressed: bool
    parts: list[bytes] | None = None
    view: memoryview | None = None

    def joined(self) -> bytes:
        """The message in one piece. Between the pieces' bytes the interpreter lock is free."""
        if self.parts is not None:
            self.body, self.parts = b"".join(self.parts), None
        return self.body


Lend = collections.abc.Callable[[memoryview, int], Filling | None]
"""Gives memory for a long message, from how it begins and how many bytes it has; None for none."""


class MessageReader:
    """Puts messages together. A message is copied once: out of what the socket gave. One of more than `LONG_BYTES` is copied into pieces, for a thread to join.

    Args:
        lend: asked for the memory of messages of `LENT_BYTES` and more that are not compressed.

    Attributes:
        missing: bytes that the message which has begun still needs; 0 between two messages.
        filling: where the next of them go; None if they are to be read here.
    """

    __slots__ = ("_compressed", "_is_long", "_lend", "_limit", "_parts", "_prefix", "filling", "missing")  # fmt: skip

    def __init__(self, limit: int = MAX_MESSAGE_BYTES, *, lend: Lend | None = None) -> None:
        self._limit = limit
        self._lend = lend
        self._prefix = b""
        self._parts: list[typing.Any] = []
        self._is_long = False
        self._compressed = False
        self.missing = 0
        self.filling: Filling | None = None

    def take(self, event: Data) -> collections.abc.Iterator[Message]:
        """The messages that are whole with the data of an event.

        Raises:
            MessageError: see there.
        """
        buffer, more = event.buffer, event.more
        yield from self.read(buffer, event.start, event.end)
        if more and self.filling is not None:
            start, end = more[0]
            count = min(len(more), self.filling.missing // (end - start))
            self.filling.put_alike(buffer, start, end - start, count)
            more = more[count:]
            if filled := self._filled(self.filling):
                yield filled
        for start, end in more:
            yield from self.read(buffer, start, end)

    def read(self, buffer: bytes, start: int, end: int) -> collections.abc.Iterator[Message]:
        """The messages that are whole with `buffer[start:end]`, and with what came to `filling` since.

        Raises:
            MessageError: see there.
        """
        if self.filling is not None and (filled := self._filled(self.filling)):
            yield filled
        while start < end:
            if not self.missing:
                start = self._begin(buffer, start, end)
                if start < 0:
                    return
                length = self.missing
                if length <= end - start:
                    self.missing = 0
                    yield Message(buffer[start : start + length], self._compressed)
                    start += length
                    continue
                if start == end:
                    return
            filling = self._fill(buffer, start)
            if filling is not None:
                start += filling.put(buffer, start, end)
                if filled := self._filled(filling):
                    yield filled
                continue
            taken = min(self.missing, end - start)
            self._keep(buffer, start, start + taken)
            self.missing -= taken
            start += taken
            if not self.missing:
                yield self._kept()

    def _begin(self, buffer: bytes, start: int, end: int) -> int:
        """Read the prefix of a message; returns where the message begins, -1 if the prefix is not whole."""
        if self._prefix or end - start < PREFIX_BYTES:
            taken = min(PREFIX_BYTES - len(self._prefix), end - start)
            self._prefix += buffer[start : start + taken]
            if len(self._prefix) < PREFIX_BYTES:
                return -1
            flag, length = READ_PREFIX(self._prefix)
            self._prefix = b""
        else:
            flag, length = READ_PREFIX(buffer, start)
            taken = PREFIX_BYTES
        self._check(flag, length)
        self._compressed = bool(flag)
        self.missing = length
        return start + taken

    def _fill(self, buffer: bytes, start: int) -> Filling | None:
        """Where the message goes whose next bytes are at `buffer[start]`."""
        if (
            self.filling is None
            and self._lend is not None
            and self.missing >= LENT_BYTES
            and not (self._compressed or self._parts)
        ):
            self.filling = self._lend(memoryview(buffer)[start:], self.missing)
        return self.filling

    def _filled(self, filling: Filling) -> Message | None:
        self.missing = filling.missing
        if self.missing:
            return None
        self.filling = None
        return Message(b"", False, None, filling.memory.toreadonly())

    def _kept(self) -> Message:
        """The message whose pieces are all there."""
        parts, self._parts = self._parts, []
        if self._is_long:
            return Message(b"", self._compressed, [bytes(part) for part in parts])
        return Message(b"".join(parts), self._compressed)

    def _keep(self, buffer: bytes, start: int, end: int) -> None:
        """Keep a piece of a message, before it is counted. Small ones are copied together: a view takes 200 bytes."""
        parts = self._parts
        if not parts:
            self._is_long = self.missing > LONG_BYTES
        if end - start >= _VIEWED_BYTES:
            parts.append(buffer[start:end] if self._is_long else memoryview(buffer)[start:end])
        elif parts and type(parts[-1]) is bytearray and len(parts[-1]) < _COLLECTED_BYTES:
            parts[-1] += buffer[start:end]
        else:
            parts.append(bytearray(buffer[start:end]))

    @property
    def inside(self) -> bool:
        """Whether a message has begun and is not whole."""
        return bool(self.missing or self._prefix)

    def drop(self) -> None:
        """Free what came of a message."""
        self._parts.clear()
        self.filling = None
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
    """How much the client may send beyond `window`, so that what is missing of a message comes, and `initial` bytes in any case; 0 while more than half is left."""
    wanted = min(max(missing, initial), AHEAD_BYTES)
    return wanted - window if window <= wanted >> 1 else 0
