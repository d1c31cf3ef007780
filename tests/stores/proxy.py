"""A TCP proxy in front of a store, whose responses a test drops, delays or corrupts."""

import collections.abc
import contextlib
import socket
import threading
import typing

Change = collections.abc.Callable[[bytes, int, int], bytes | None]
"""Gets a piece of a response, its offset in the connection and the number of the connection; gives what is passed on, or None to cut the
connection. It may block."""

_PIECE = 1 << 16


def unchanged(piece: bytes, offset: int, connection: int) -> bytes:
    """Pass on everything."""
    return piece


class Proxy:
    """A proxy on 127.0.0.1, for a context.

    Args:
        target: the port behind it.
        change: what happens to responses; may be replaced at any time.

    Attributes:
        port: of the proxy.
        connections: how many there have been.
        received: bytes of responses.
    """

    def __init__(self, target: int, change: Change = unchanged) -> None:
        self.change = change
        self.connections = 0
        self.received = 0
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets = set[socket.socket]()
        self._released = threading.Event()
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> typing.Self:
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.release()
        self.cut()
        self._accepting.join()

    def address(self, path: str) -> str:
        """The address of `bucket/prefix` through the proxy."""
        return f"s3://127.0.0.1:{self.port}/{path}"

    def hold(self) -> None:
        """Wait for `release`; for `change`."""
        self._released.wait(60)

    def release(self) -> None:
        """End every `hold`, those to come too."""
        self._released.set()

    def cut(self) -> None:
        """Cut all connections."""
        for one in tuple(self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            self.connections += 1
            self._sockets |= {client, server}
            for work, arguments in (
                (self._requests, (client, server)),
                (self._responses, (server, client, self.connections)),
            ):
                threading.Thread(target=work, args=arguments, daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := client.recv(_PIECE):
                server.sendall(piece)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _responses(self, server: socket.socket, client: socket.socket, connection: int) -> None:
        offset = 0
        with server, client, contextlib.suppress(OSError):
            while piece := server.recv(_PIECE):
                self.received += len(piece)
                changed = self.change(piece, offset, connection)
                if changed is None:
                    break
                offset += len(piece)
                client.sendall(changed)
            for end in (server, client):
                end.shutdown(socket.SHUT_RDWR)
        self._sockets -= {client, server}
