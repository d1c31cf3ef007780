"""Frames: how they are written, and what each kind has to look like, as a table (RFC 9113, sections 4 and 6). Pure."""

import enum
import struct

import msgspec

from naiad.protocol.transport.http2.errors import ConnectionFault, ErrorCode

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client sends first (section 3.4)."""

HEAD_BYTES = 9
"""Bytes before a payload (section 4.1)."""

MAX_FRAME_BYTES = 16_384
"""The largest payload that we take: SETTINGS_MAX_FRAME_SIZE as it is initially (section 6.5.2)."""

MAX_STREAM_ID = 2**31 - 1
MAX_WINDOW = 2**31 - 1
"""Section 6.9.1."""

READ_HEAD = struct.Struct(">IBI").unpack_from
"""Length and type in one number (24 and 8 bits), flags, stream id with its reserved bit."""

PACK_HEAD = struct.Struct(">IBI").pack
"""The same, the other way."""

_LONG = struct.Struct(">I").pack
_SETTING = struct.Struct(">HI")


class Kind(enum.IntEnum):
    """Frame types (section 6)."""

    DATA = 0x0
    HEADERS = 0x1
    PRIORITY = 0x2
    RST_STREAM = 0x3
    SETTINGS = 0x4
    PUSH_PROMISE = 0x5
    PING = 0x6
    GOAWAY = 0x7
    WINDOW_UPDATE = 0x8
    CONTINUATION = 0x9


ACK = 0x1
END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20


class On(enum.Enum):
    """Where frames of a kind may come."""

    STREAM = "a stream"
    CONNECTION = "the connection, which is stream 0"
    EITHER = "a stream or the connection"


class FrameRule(msgspec.Struct, frozen=True):
    """What frames of one kind look like.

    Attributes:
        section: of RFC 9113.
        on: anything else is a connection error PROTOCOL_ERROR.
        exact: bytes of the payload, -1 for any number.
        least: bytes of the payload at least; fewer, or others than `exact`, are FRAME_SIZE_ERROR.
        padded: whether the flag PADDED means something.
    """

    kind: Kind
    section: str
    on: On
    exact: int = -1
    least: int = 0
    padded: bool = False


RULES: tuple[FrameRule, ...] = (
    FrameRule(Kind.DATA, "6.1", On.STREAM, padded=True),
    FrameRule(Kind.HEADERS, "6.2", On.STREAM, padded=True),
    FrameRule(Kind.PRIORITY, "6.3", On.STREAM, exact=5),
    FrameRule(Kind.RST_STREAM, "6.4", On.STREAM, exact=4),
    FrameRule(Kind.SETTINGS, "6.5", On.CONNECTION),
    FrameRule(Kind.PUSH_PROMISE, "6.6", On.STREAM),
    FrameRule(Kind.PING, "6.7", On.CONNECTION, exact=8),
    FrameRule(Kind.GOAWAY, "6.8", On.CONNECTION, least=8),
    FrameRule(Kind.WINDOW_UPDATE, "6.9", On.EITHER, exact=4),
    FrameRule(Kind.CONTINUATION, "6.10", On.STREAM),
)
"""By number. Frames of other kinds are ignored (section 4.1), flags without a meaning as well."""


def check(rule: FrameRule, stream_id: int, size: int) -> None:
    """Check the head of a frame against its rule.

    Raises:
        ConnectionFault: it breaks the rule.
    """
    on = rule.on
    if on is not On.EITHER and (stream_id == 0) is not (on is On.CONNECTION):
        raise ConnectionFault(
            ErrorCode.PROTOCOL_ERROR,
            f"{rule.kind.name} on stream {stream_id}; it belongs on {on.value} (section {rule.section})",
        )
    if size < rule.least or rule.exact not in (-1, size):
        raise ConnectionFault(
            ErrorCode.FRAME_SIZE_ERROR,
            f"{rule.kind.name} with {size} bytes (section {rule.section})",
        )


def unpadded(data: bytes, start: int, end: int, kind: Kind) -> tuple[int, int]:
    """Where the payload of a frame with the flag PADDED really begins and ends (sections 6.1, 6.2).

    Raises:
        ConnectionFault: the padding is as long as the payload, or longer.
    """
    if start == end:
        raise ConnectionFault(
            ErrorCode.FRAME_SIZE_ERROR, f"{kind.name} with PADDED and no length of it (section 6.1)"
        )
    padding = data[start]
    if padding >= end - start:
        raise ConnectionFault(
            ErrorCode.PROTOCOL_ERROR,
            f"{kind.name} with {padding} bytes of padding in {end - start} bytes (section 6.1)",
        )
    return start + 1, end - padding


def head(size: int, kind: Kind, flags: int, stream_id: int) -> bytes:
    """The nine bytes before a payload."""
    return PACK_HEAD(size << 8 | kind, flags, stream_id)


def reset(stream_id: int, code: ErrorCode) -> bytes:
    """RST_STREAM (section 6.4)."""
    return head(4, Kind.RST_STREAM, 0, stream_id) + _LONG(code)


def window_update(stream_id: int, increment: int) -> bytes:
    """WINDOW_UPDATE (section 6.9); stream 0 is the connection."""
    return head(4, Kind.WINDOW_UPDATE, 0, stream_id) + _LONG(increment)


def ping(payload: bytes, *, ack: bool = False) -> bytes:
    """PING (section 6.7) with eight bytes."""
    return head(8, Kind.PING, ACK if ack else 0, 0) + payload


def goaway(last_stream_id: int, code: ErrorCode, why: str = "") -> bytes:
    """GOAWAY (section 6.8); `why` is its debug data."""
    debug = why.encode("utf-8", "replace")
    payload = _LONG(last_stream_id) + _LONG(code) + debug
    return head(len(payload), Kind.GOAWAY, 0, 0) + payload


def settings(values: dict[int, int]) -> bytes:
    """SETTINGS (section 6.5)."""
    payload = b"".join(_SETTING.pack(*item) for item in values.items())
    return head(len(payload), Kind.SETTINGS, 0, 0) + payload


SETTINGS_ACK = head(0, Kind.SETTINGS, ACK, 0)


def header_frames(stream_id: int, block: bytes, *, end_stream: bool, limit: int) -> bytes:
    """A header block in HEADERS and, where it is longer than `limit`, CONTINUATION frames (sections 6.2, 6.10)."""
    flags = END_STREAM if end_stream else 0
    if len(block) <= limit:
        return head(len(block), Kind.HEADERS, flags | END_HEADERS, stream_id) + block
    pieces = [block[at : at + limit] for at in range(0, len(block), limit)]
    parts = [head(len(pieces[0]), Kind.HEADERS, flags, stream_id), pieces[0]]
    for piece in pieces[1:]:
        last = END_HEADERS if piece is pieces[-1] else 0
        parts += head(len(piece), Kind.CONTINUATION, last, stream_id), piece
    return b"".join(parts)
