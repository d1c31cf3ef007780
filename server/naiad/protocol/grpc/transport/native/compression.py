"""Compression of messages: by the encoding that the call names, both ways (row 10.36). Pure."""

import collections.abc
import zlib

from naiad.protocol.grpc.call import RpcStatus
from naiad.protocol.grpc.codec.compression import decompress
from naiad.protocol.grpc.transport.native.call_head import ENCODINGS
from naiad.protocol.grpc.transport.native.responses import framed as plain

COMPRESSED_HERE = 65_536
"""Up to here a message is compressed on the event loop, in about a millisecond."""

_WINDOW = {b"gzip": 15 | 16, b"deflate": 15}
_UNIMPLEMENTED, _INTERNAL = 12, 13


def decompressed(message: bytes, encoding: bytes, limit: int) -> bytes | RpcStatus:
    """What a message that says that it is compressed holds; see `decompress`."""
    if encoding == b"identity":
        return RpcStatus(
            _INTERNAL, "a message says that it is compressed, and the call names no grpc-encoding"
        )
    if encoding not in ENCODINGS:
        return RpcStatus(
            _UNIMPLEMENTED,
            f'Compression algorithm "{encoding[:64].decode("latin-1")}" is not known: use gzip or deflate',
        )
    return decompress(message, limit)


def chosen(
    liked: collections.abc.Sequence[bytes], accepts: collections.abc.Container[bytes]
) -> bytes:
    """The encoding of a response: the best that the client reads."""
    return next((encoding for encoding in liked if encoding in accepts), b"identity")


def framed(message: bytes, encoding: bytes) -> bytes:
    """A message behind its prefix, compressed if that makes it shorter."""
    window = _WINDOW.get(encoding)
    if window is not None:
        compressor = zlib.compressobj(wbits=window)
        compressed = compressor.compress(message) + compressor.flush()
        if len(compressed) < len(message):
            return plain(compressed, compressed=True)
    return plain(message)
