"""Messages between a server and a process beside it: MessagePack with a length in front, over a socket pair."""

import collections.abc
import socket
import threading
import typing

import msgspec

_LENGTH_BYTES = 4
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
        data = self._encoder.encode(message)
        with self._sending:
            self._connection.sendall(len(data).to_bytes(_LENGTH_BYTES, "big") + data)


def received(
    connection: socket.socket, decoder: "msgspec.msgpack.Decoder[_Message]"
) -> collections.abc.Iterator[_Message]:
    """Every message until the other end is closed."""
    with connection.makefile("rb") as file:
        while length := file.read(_LENGTH_BYTES):
            yield decoder.decode(file.read(int.from_bytes(length, "big")))
