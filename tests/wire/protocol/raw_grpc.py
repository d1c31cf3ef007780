"""A gRPC client that does what no library lets a client do: opens calls and sends nothing, half messages, lies."""

import socket
import struct
from types import TracebackType
from typing import Self

from tests.support import http2

_CANCEL = 8
_GIVE_UP_S = 30

INFER = "/inference.GRPCInferenceService/ModelInfer"


class RawConnection:
    """One connection; it never reads, so send less than 64 KiB of messages over it.

    Args:
        address: `host:port`.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_GIVE_UP_S)
        self._socket.sendall(http2.PREFACE)
        self._next = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def open(self, *headers: tuple[str, str], path: str = INFER) -> int:
        """Open a call; gives its stream."""
        stream, self._next = self._next, self._next + 2
        self._socket.sendall(http2.grpc_call(stream, path, *headers))
        return stream

    def open_many(self, count: int, payload: bytes, *headers: tuple[str, str]) -> None:
        """Open calls and send each its whole message, all of it at once."""
        sent = bytearray()
        for stream in range(self._next, self._next + 2 * count, 2):
            sent += http2.grpc_call(stream, INFER, *headers)
            sent += http2.frame(http2.DATA, http2.END_STREAM, stream, payload)
        self._next += 2 * count
        self._socket.sendall(sent)

    def send(self, stream: int, payload: bytes, *, end: bool = False) -> None:
        """Send bytes of a message, its five bytes of head included."""
        for start in range(0, len(payload), http2.MAX_FRAME):
            part = payload[start : start + http2.MAX_FRAME]
            last = end and start + http2.MAX_FRAME >= len(payload)
            self._socket.sendall(
                http2.frame(http2.DATA, http2.END_STREAM if last else 0, stream, part)
            )

    def cancel(self, stream: int) -> None:
        """Reset a call."""
        self._socket.sendall(http2.frame(http2.RESET, 0, stream, struct.pack(">I", _CANCEL)))
