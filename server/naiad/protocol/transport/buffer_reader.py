"""The protocol of a connection's transport while data go straight to memory that waits for them.

asyncio gives such a protocol no bytes object, but asks it for the buffer to read into (`BufferedProtocol`). What else happens to the socket is the connection's.
"""

import asyncio
import typing

from typing_extensions import override


class SocketEvents(typing.Protocol):
    """The connection, as whatever reads for it passes on what happens to the socket: see `asyncio.Protocol`."""

    def eof_received(self) -> bool | None:
        """The client sends nothing more."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""

    def pause_writing(self) -> None:
        """The client does not read."""

    def resume_writing(self) -> None:
        """It reads again."""


ConnectionT = typing.TypeVar("ConnectionT", bound=SocketEvents)


class BufferReader(asyncio.BufferedProtocol, typing.Generic[ConnectionT]):
    """Reads for a connection; a subclass says where to. It knows the connection only until the socket is closed: the transport may refer to it for longer."""

    __slots__ = ("_connection",)

    def __init__(self, connection: ConnectionT) -> None:
        self._connection: ConnectionT | None = connection

    @override
    def eof_received(self) -> bool | None:
        return None if self._connection is None else self._connection.eof_received()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.pause_writing()

    @override
    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.resume_writing()
