"""Enough HTTP/2 by hand to send what no client library sends: half a message, too many pings, nothing more."""

import struct

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
"""Frame types (RFC 9113, section 6)."""

END_STREAM, END_HEADERS = 1, 4
"""Flags of DATA and HEADERS frames."""

FRAME_HEAD = 9
"""Bytes before a frame's payload."""

MAX_FRAME = 16_384
"""Bytes of payload that a server takes by default."""


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b"")
"""What a client sends first."""


def grpc_call(stream: int, path: str, *headers: tuple[str, str]) -> bytes:
    """The HEADERS frame that opens a gRPC call; names and values are shorter than 127 bytes."""
    fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        *headers,
    ]
    return frame(HEADERS, END_HEADERS, stream, b"".join(_literal(*field) for field in fields))


def grpc_message(message: bytes, *, compressed: bool = False, length: int | None = None) -> bytes:
    """A gRPC message with its head; `length` is what the head says, if not the truth."""
    size = len(message) if length is None else length
    return struct.pack(">BI", compressed, size) + message


def _literal(name: str, value: str) -> bytes:
    """A header field that goes into no table (RFC 7541, section 6.2.2), uncompressed."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
