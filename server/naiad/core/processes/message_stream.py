"""Messages between a server and a process beside it: MessagePack with a length in front, over a socket pair."""

import collections.abc
import socket
import threading
import typing

import msgspec

_LENGTH_BYTES = 4
_AT_ONCE = 512
"""Fewer than the buffers that a system call takes."""

_Message = typing.TypeVar("_Message")


class Sender:
    """Sends messages; thread-safe."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._encoder = msgspec.msgpack.Encoder()
        self._sending = threading.Lock()

    def send(self, message: msgspec.Struct) -> None:
        """Send one message; blocks while the other end does not read.

        Raises:
            OSError: the other end is gone.
        """
        data = self.encoded(message)
        with self._sending:
            self._connection.sendall(data)

    def encoded(self, message: msgspec.Struct) -> bytes:
        """A message as it is sent."""
        data = self._encoder.encode(message)
        return len(data).to_bytes(_LENGTH_BYTES, "big") + data

    def send_all(self, encoded: collections.abc.Sequence[bytes]) -> None:
        """Send messages by as few system calls as can be: the interpreter lock is taken again after each.

        Raises:
            OSError: the other end is gone.
        """
        with self._sending:
            for first in range(0, len(encoded), _AT_ONCE):
                some = encoded[first : first + _AT_ONCE]
                sent = self._connection.sendmsg(some)
                if sent < sum(map(len, some)):
                    self._connection.sendall(b"".join(some)[sent:])


def received(
    connection: socket.socket, decoder: "msgspec.msgpack.Decoder[_Message]"
) -> collections.abc.Iterator[_Message]:
    """Every message until the other end is closed."""
    with connection.makefile("rb") as file:
        while length := file.read(_LENGTH_BYTES):
            yield decoder.decode(file.read(int.from_bytes(length, "big")))
