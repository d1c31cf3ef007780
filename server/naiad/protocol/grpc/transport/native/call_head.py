"""What the header fields of a call say: its path, its deadline, its compression, its metadata (gRPC over HTTP/2, "Requests"). Pure."""

import base64
import binascii
import collections.abc
import re

import msgspec

from naiad.protocol.grpc.call import Metadata
from naiad.protocol.transport.http2.errors import ConnectionFault
from naiad.protocol.transport.http2.header_blocks import Headers
from naiad.protocol.transport.http2.header_rules import Fields

_RESERVED = frozenset(
    (
        b":method", b":scheme", b":path", b":authority", b"te", b"content-type", b"content-length", b"host",
        b"grpc-timeout", b"grpc-encoding", b"grpc-accept-encoding", b"grpc-message-type",
    )
)  # fmt: skip
"""What is not metadata."""

_TIMEOUT = re.compile(rb"(\d{1,8})([HMSmun])").fullmatch
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}

UNREADABLE = -1.0
"""The timeout of a call whose grpc-timeout is not what gRPC knows."""

ENCODINGS = (b"identity", b"deflate", b"gzip")
"""What we can read and write."""


class CallHead(msgspec.Struct, frozen=True):
    """What calls with the same block have in common.

    Attributes:
        path: "/service/method".
        http_status: 200, or what a request that is not a gRPC call is answered with.
        encoding: of request messages that say that they are compressed.
        accepts: the encodings that the client reads.
        timeout: seconds; None for no deadline, UNREADABLE for one that cannot be read.
        metadata: what the fields say to the method.
    """

    path: str
    http_status: int
    encoding: bytes
    accepts: frozenset[bytes]
    timeout: float | None
    metadata: tuple[tuple[str, str | bytes], ...]


def head_of(headers: Headers) -> CallHead:
    """The head of a call, from the memo of its block if an earlier call made it."""
    block = headers.block
    head: CallHead | None = block.memo
    if head is None:
        head = block.memo = _read(block.fields)
    return head


def timeout_of(headers: Headers, head: CallHead) -> float | None:
    """As `CallHead.timeout`, of one call."""
    try:
        value = headers.value(b"grpc-timeout")
    except ConnectionFault:
        return UNREADABLE
    return head.timeout if value is None else timeout_seconds(value)


def timeout_seconds(value: bytes) -> float:
    """What grpc-timeout says, in seconds; UNREADABLE for what cannot be read."""
    match = _TIMEOUT(value)
    return UNREADABLE if match is None else int(match[1]) * _SECONDS[match[2]]


class CallMetadata:
    """The metadata of a call, made when they are read."""

    __slots__ = ("_headers",)

    def __init__(self, headers: Headers) -> None:
        self._headers = headers

    def __iter__(self) -> collections.abc.Iterator[tuple[str, str | bytes]]:
        headers = self._headers
        yield from head_of(headers).metadata
        yield from metadata_of(headers.per_call)


def metadata_of(fields: Fields) -> Metadata:
    """The metadata among fields: values of keys that end in -bin are bytes; those that are not valid base64 are left out."""
    metadata: list[tuple[str, str | bytes]] = []
    for name, value in fields:
        if name in _RESERVED or name.startswith(b":"):
            continue
        key = name.decode("ascii", "replace")
        if not name.endswith(b"-bin"):
            metadata.append((key, value.decode("latin-1")))
            continue
        for part in value.split(b","):
            padded = part.strip() + b"=" * (-len(part.strip()) % 4)
            try:
                metadata.append((key, base64.b64decode(padded, validate=True)))
            except binascii.Error:
                continue
    return metadata


def _read(fields: Fields) -> CallHead:
    found = dict(fields)
    content_type = found.get(b"content-type", b"")
    if found[b":method"] != b"POST":
        http_status = 405
    elif not content_type.startswith(b"application/grpc"):
        http_status = 415
    else:
        http_status = 200
    timeout = found.get(b"grpc-timeout")
    accepted = found.get(b"grpc-accept-encoding", b"").replace(b" ", b"").split(b",")
    return CallHead(
        path=found[b":path"].decode("latin-1"),
        http_status=http_status,
        encoding=found.get(b"grpc-encoding", b"identity"),
        accepts=frozenset(accepted) & frozenset(ENCODINGS),
        timeout=None if timeout is None else timeout_seconds(timeout),
        metadata=tuple(metadata_of(fields)),
    )
