"""A client of one connection without a socket: what it sends, and the frames that it gets."""

import struct
import typing

import hpack

from naiad.protocol.transport.http2 import frames
from naiad.protocol.transport.http2.connection import Http2Server, Limits
from naiad.protocol.transport.http2.frames import ACK, END_HEADERS, END_STREAM, Kind, head
from naiad.protocol.transport.http2.header_blocks import BlockCache
from naiad.protocol.transport.http2.sender import TURN_BYTES

Frame = tuple[Kind, int, int, bytes]
"""Kind, flags, stream, payload."""

REQUEST: tuple[tuple[str, str], ...] = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/a/b"),
    (":authority", "x"),
    ("content-type", "application/grpc"),
)


def split(data: bytes) -> list[Frame]:
    """The frames in what a server wrote."""
    found: list[Frame] = []
    while data:
        size_and_kind, flags, stream = frames.READ_HEAD(data, 0)
        end = 9 + (size_and_kind >> 8)
        found.append((Kind(size_and_kind & 0xFF), flags, stream, data[9:end]))
        data = data[end:]
    return found


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame, of any kind."""
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def block(*fields: tuple[str, str]) -> bytes:
    """A header block without a dynamic table."""
    sensitive = [(name, value, True) for name, value in fields]
    encoded: bytes = hpack.Encoder().encode(sensitive, huffman=False)
    return encoded


class Client:
    """The connection and its client; `settled`: the server's settings are acknowledged."""

    def __init__(
        self,
        *,
        settled: bool = True,
        blocks: BlockCache | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.server = Http2Server(blocks or BlockCache(), limits or Limits())
        self.got()
        self.send(frames.PREFACE, frames.settings({}))
        if settled:
            self.send(frames.SETTINGS_ACK)
            self.server._decoder = None  # as after a first block with the size of an empty table
        self.got()

    def send(self, *data: bytes) -> list[typing.Any]:
        """Send bytes, in one piece; returns the events of all turns."""
        events: list[typing.Any] = list(self.server.receive(b"".join(data)))
        while self.server.behind:
            events += self.server.receive(b"")
        return events

    def got(self) -> list[Frame]:
        """The frames that came since this was called before."""
        sender = self.server.sender
        out, sender.out, sender.turn = sender.out, [], TURN_BYTES
        return split(b"".join(map(bytes, out)))

    def open(
        self, stream: int = 1, *, ended: bool = False, fields: typing.Any = REQUEST
    ) -> typing.Any:
        """Begin a request; returns the server's stream."""
        (event,) = self.send(headers(stream, block(*fields), ended=ended))
        return event.stream


def headers(stream: int, encoded: bytes, *, ended: bool = False) -> bytes:
    """A HEADERS frame with a whole block."""
    flags = END_HEADERS | (END_STREAM if ended else 0)
    return frame(Kind.HEADERS, flags, stream, encoded)


def data(stream: int, payload: bytes, *, ended: bool = False) -> bytes:
    """A DATA frame."""
    return head(len(payload), Kind.DATA, END_STREAM if ended else 0, stream) + payload


def goaway_of(found: list[Frame]) -> tuple[int, int]:
    """Last stream and code of the one GOAWAY among frames."""
    (payload,) = [payload for kind, _, _, payload in found if kind is Kind.GOAWAY]
    last, code = struct.unpack_from(">II", payload)
    return last, code


def resets_of(found: list[Frame]) -> list[tuple[int, int]]:
    """Stream and code of each RST_STREAM."""
    return [
        (stream, struct.unpack(">I", payload)[0])
        for kind, _, stream, payload in found
        if kind is Kind.RST_STREAM
    ]


__all__ = ["ACK", "END_HEADERS", "END_STREAM", "Kind"]
