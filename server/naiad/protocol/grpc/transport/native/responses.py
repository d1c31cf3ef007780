"""Header blocks of responses: initial metadata, trailers, statuses (gRPC over HTTP/2, "Responses"). Pure."""

import base64
import functools
import re
import struct

from naiad.protocol.grpc import retry_info
from naiad.protocol.grpc.call import LongMessage, Metadata, RpcStatus
from naiad.protocol.transport.http2.header_blocks import encode
from naiad.protocol.transport.http2.sender import Envelope

prefix = struct.Struct(">BI").pack
"""What stands before a message: whether it is compressed, and its length."""

_OK = ((b":status", b"200"), (b"content-type", b"application/grpc"))
_ACCEPTS = (b"grpc-accept-encoding", b"identity, deflate, gzip")

_NEEDS_ESCAPE = re.compile(rb"[^\x20-\x24\x26-\x7e]")

HEADERS = encode((*_OK, _ACCEPTS))
"""Initial metadata."""

HEADERS_ENCODED = {
    encoding: encode((*_OK, (b"grpc-encoding", encoding), _ACCEPTS))
    for encoding in (b"gzip", b"deflate")
}
"""Initial metadata of a response whose messages may be compressed."""

OK_TRAILERS = encode(((b"grpc-status", b"0"), (b"grpc-message", b"")))

OK = Envelope(HEADERS, OK_TRAILERS)
"""Around the message of a unary call."""


def initial(encoding: bytes, metadata: Metadata) -> bytes:
    """Initial metadata with a service's own."""
    named = () if encoding == b"identity" else ((b"grpc-encoding", encoding),)
    return encode((*_OK, *named, _ACCEPTS, *_fields(metadata)))


def framed(message: bytes, *, compressed: bool = False) -> bytes:
    """A message behind its length."""
    return prefix(compressed, len(message)) + message


def in_pieces(message: bytes | LongMessage) -> list[bytes | memoryview]:
    """A message that is not compressed behind its length, sent from where it is."""
    pieces = message.pieces if isinstance(message, LongMessage) else [message]
    return [prefix(False, len(message)), *pieces]


def compressed_in_pieces(pieces: list[bytes]) -> LongMessage:
    """A compressed message behind its length."""
    return LongMessage([prefix(True, sum(map(len, pieces))), *pieces])


@functools.lru_cache(maxsize=256)
def trailers(status: RpcStatus | None) -> bytes:
    """The block that ends a response which has begun; None is OK."""
    return OK_TRAILERS if status is None else encode(_status_fields(status))


def trailers_with(status: RpcStatus | None, metadata: Metadata) -> bytes:
    """The block that ends a response, with a service's own metadata."""
    ended = ((b"grpc-status", b"0"),) if status is None else _status_fields(status)
    return encode((*ended, *_fields(metadata)))


@functools.lru_cache(maxsize=256)
def trailers_only(status: RpcStatus) -> bytes:
    """A response that is nothing but a status."""
    return encode((*_OK, _ACCEPTS, *_status_fields(status)))


NOT_GRPC = b"This port serves gRPC: send POST with content-type application/grpc. REST is on the HTTP port.\n"
"""The body of the response to a request that is not a gRPC call."""


@functools.lru_cache(maxsize=16)
def http_refusal(http_status: int) -> bytes:
    """The header block in front of `NOT_GRPC`."""
    return encode(
        (
            (b":status", b"%d" % http_status),
            (b"content-type", b"text/plain"),
            (b"content-length", b"%d" % len(NOT_GRPC)),
        )
    )


def percent_encoded(text: str) -> bytes:
    """grpc-message: UTF-8, of which all but printable ASCII and the percent sign is escaped."""
    return _NEEDS_ESCAPE.sub(lambda byte: b"%%%02X" % byte[0][0], text.encode("utf-8", "replace"))


def _status_fields(status: RpcStatus) -> tuple[tuple[bytes, bytes], ...]:
    details = _fields(retry_info.details(status))
    message = percent_encoded(status.message)
    return ((b"grpc-status", b"%d" % status.status), (b"grpc-message", message), *details)


def _fields(metadata: Metadata) -> tuple[tuple[bytes, bytes], ...]:
    """Header fields of metadata; values that are bytes, of keys that end in -bin, are sent as base64."""
    return tuple(
        (key.encode(), base64.b64encode(value).rstrip(b"=") if isinstance(value, bytes) else value.encode())
        for key, value in metadata
    )  # fmt: skip
