"""A gRPC client that does what no library lets a client do: opens calls and sends nothing, half messages, lies. Enough HTTP/2 by hand for that."""

import socket
import struct
from types import TracebackType
from typing import Self

_DATA, _HEADERS, _RESET, _SETTINGS = 0, 1, 3, 4
_END_STREAM, _END_HEADERS = 1, 4
_CANCEL = 8
_MAX_FRAME = 16_384
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
        self._socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b""))
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
        block = b"".join(
            _literal(name, value)
            for name, value in (
                (":method", "POST"),
                (":scheme", "http"),
                (":path", path),
                (":authority", "localhost"),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                *headers,
            )
        )
        self._socket.sendall(_frame(_HEADERS, _END_HEADERS, stream, block))
        return stream

    def send(self, stream: int, payload: bytes, *, end: bool = False) -> None:
        """Send bytes of a message, its five bytes of head included."""
        for start in range(0, len(payload), _MAX_FRAME):
            part = payload[start : start + _MAX_FRAME]
            last = end and start + _MAX_FRAME >= len(payload)
            self._socket.sendall(_frame(_DATA, _END_STREAM if last else 0, stream, part))

    def cancel(self, stream: int) -> None:
        """Reset a call."""
        self._socket.sendall(_frame(_RESET, 0, stream, struct.pack(">I", _CANCEL)))


def framed(message: bytes, *, compressed: bool = False, length: int | None = None) -> bytes:
    """A message with its head; `length` is what the head says, if not the truth."""
    size = len(message) if length is None else length
    return struct.pack(">BI", compressed, size) + message


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _literal(name: str, value: str) -> bytes:
    """A header field that goes into no table (RFC 7541, section 6.2.2), uncompressed; both shorter than 127 bytes."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
