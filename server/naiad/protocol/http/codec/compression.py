"""Compressed bodies: what a request's is, what a reply's shall be, and the work itself (rows 1.14, 1.15). Pure.

A compressed body is bounded by what it may become, not by what it is: decompression stops at the limit, so that a bomb costs
no more memory than an honest request.
"""

import enum
import functools
import re
import sys
import zlib

from naiad.errors import InferenceError, invalid, unsupported
from naiad.protocol.http.message import HttpReply

UNPACKED_HERE = 4_096
"""Up to here a body is decompressed on the loop: even a bomb of that size holds no more than 4 MiB, a few milliseconds' work."""

PACKED_HERE = 32_768
"""Up to here a reply is compressed on the loop, in half a millisecond; longer ones go to a thread (zlib releases the GIL)."""

ACCEPTED = (b"Accept-Encoding", b"gzip, deflate")
"""The error message for other encodings (row 1.14)."""

_EITHER_WINDOW = 15 | 32
"""zlib's sign for: tell gzip and zlib apart by the first bytes."""

_LEVEL = 1
"""Half to a third of the default level's time, for replies a few percent longer: the network is rarely what is scarce."""


class Encoding(enum.Enum):
    """How a body is encoded."""

    IDENTITY = b"identity"
    GZIP = b"gzip"
    DEFLATE = b"deflate"
    UNKNOWN = b""


_BY_NAME = {
    b"": Encoding.IDENTITY,
    b"identity": Encoding.IDENTITY,
    b"gzip": Encoding.GZIP,
    b"deflate": Encoding.DEFLATE,
}
_WEIGHT = re.compile(rb"[0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9}").fullmatch
"""Python's float takes more: 0_5, +1, nan."""
_WINDOWS = {Encoding.GZIP: 15 | 16, Encoding.DEFLATE: 15}


def of_request(content_encoding: bytes) -> Encoding:
    """What a Content-Encoding header says; several encodings one over another are UNKNOWN."""
    return _BY_NAME.get(content_encoding.strip().lower(), Encoding.UNKNOWN)


@functools.lru_cache(maxsize=256)
def of_reply(accept_encoding: bytes) -> Encoding:
    """What an Accept-Encoding header asks for: the highest weight wins, the first one on a tie (row 1.15).

    A part that cannot be read is passed over; a weight of 0 forbids.
    """
    best, best_weight = Encoding.IDENTITY, 0.0
    for part in accept_encoding.lower().split(b","):
        name, _, settings = part.partition(b";")
        encoding = _BY_NAME.get(name.strip()) if name.strip() else None
        weight = _weight(settings)
        if encoding is not None and weight > best_weight:
            best, best_weight = encoding, weight
    return best


def _weight(settings: bytes) -> float:
    key, equals, value = settings.strip().partition(b"=")
    if not equals:
        return 0.0 if key else 1.0
    weight = value.strip()
    return float(weight) if key.strip() == b"q" and _WEIGHT(weight) else 0.0


def decompress(body: bytes, *, limit: int) -> bytes:
    """The at most `limit` bytes that a stream holds; its first bytes show whether it is gzip or zlib (row 1.14).

    Raises:
        InferenceError: INVALID_ARG when the body is empty, no such stream, incomplete, or holds more than `limit`.
    """
    if not body:
        raise invalid(
            "nothing to be decompressed: the body is empty; send one, or leave out Content-Encoding"
        )
    stream = zlib.decompressobj(_EITHER_WINDOW)
    try:
        # One byte more than allowed tells an honest body of exactly the limit from a longer one; zlib counts to sys.maxsize.
        content = stream.decompress(body, min(limit + 1, sys.maxsize))
    except zlib.error as error:
        raise invalid(
            f"cannot decompress the request body: {error}; send it gzip or zlib compressed as Content-Encoding says"
        ) from None
    if len(content) > limit:
        raise invalid(
            f"Decompressed data size exceeds the maximum allowed value of {limit} bytes. Use --http-max-input-size to increase "
            "the limit."
        )
    if not stream.eof:
        raise invalid("cannot decompress the request body: it ends too early; send all of it")
    if stream.unused_data:
        raise invalid(
            f"cannot decompress the request body: {len(stream.unused_data)} bytes follow the end of the compressed data; send "
            "one compressed stream"
        )
    return content


def unsupported_encoding(content_encoding: bytes) -> InferenceError:
    """The error of a content encoding other than gzip and deflate (row 1.14)."""
    return unsupported(
        f"Unsupported compression type '{content_encoding[:60].decode('latin-1')}': send the body as gzip, deflate, or as it is"
    )


def size_of(reply: HttpReply) -> int:
    """How many bytes a reply's body has."""
    return sum(map(len, reply.body))


def compress(reply: HttpReply, encoding: Encoding) -> HttpReply:
    """A reply with its body compressed, or the reply itself when that would not make it shorter (row 1.15)."""
    stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOWS[encoding])
    packed = b"".join([*map(stream.compress, reply.body), stream.flush()])
    if len(packed) >= size_of(reply):
        return reply
    headers = (*reply.headers, (b"Content-Encoding", encoding.value))
    return HttpReply(reply.status, headers, (packed,), reply.request_id)
