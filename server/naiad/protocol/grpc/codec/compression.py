"""Decompresses request messages, up to a limit. Pure.

grpc itself would decompress without a limit, and hold the interpreter lock meanwhile: 1 MB that becomes 1 GB stopped the server for seconds. It is
switched off there (`settings.channel_arguments`); then a message arrives as it was sent. Its first bytes say whether it is compressed: no
protobuf message begins as gzip does, and one that begins as zlib does consists of unknown fields.
"""

import typing
import zlib

from naiad.errors import internal
from naiad.protocol.grpc.call import RpcStatus, rpc_status

_GZIP = b"\x1f\x8b"
COMPRESSED = (_GZIP, b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
"""How compressed messages begin: gzip, and zlib, which gRPC calls deflate, by its four levels."""

HERE = 4_096
"""Up to here a message is decompressed on the event loop: it holds no more than 4 MiB, a few milliseconds' work."""

_EITHER_WINDOW = 15 | 32
_INPUT_BYTES, _OUTPUT_BYTES = 1 << 20, 1 << 22
_RESOURCE_EXHAUSTED = 8


def decompress(message: bytes, limit: int) -> bytes | RpcStatus:
    """What a message that begins as a compressed one holds, or the error of a message that holds more than `limit` bytes or is damaged.

    What cannot be zlib is returned as it is: protobuf reads it.
    """
    is_gzip = message.startswith(_GZIP)
    stream = zlib.decompressobj(_EITHER_WINDOW)
    try:
        # One byte more than allowed tells a message of exactly the limit from a longer one.
        content, is_whole = _content(stream, message, limit + 1)
        damage = "" if is_whole else "it ends too early or too late"
    except zlib.error as error:
        content, damage = b"", str(error)
    if len(content) > limit:
        return RpcStatus(
            _RESOURCE_EXHAUSTED,
            f"the message holds more than {limit} bytes once it is decompressed, the limit of --grpc-max-decompressed-size: "
            "send it without compression, or raise the limit",
        )
    if not damage:
        return content
    if not is_gzip:
        return message
    return rpc_status(
        internal(
            f"Unexpected error decompressing data for algorithm gzip: {damage}; send the message again, or without compression"
        )
    )


def _content(stream: typing.Any, message: bytes, most: int) -> tuple[bytes, bool]:
    """Up to so many bytes of what a message holds, and whether both end together.

    In pieces: `zlib` joins what it makes under the interpreter lock, and `join` without it. So does the input come, of which `zlib` keeps a copy of the rest.
    """
    pieces: list[bytes] = []
    at, left, rest = 0, most, b""
    while left > 0 and not stream.eof:
        if not rest and at < len(message):
            rest = message[at : at + _INPUT_BYTES]
            at += len(rest)
        piece = stream.decompress(rest, min(left, _OUTPUT_BYTES))
        taken, rest = bool(rest), stream.unconsumed_tail
        if not piece and not taken and at >= len(message):
            break  # it ends too early
        pieces.append(piece)
        left -= len(piece)
    ended = stream.eof and not stream.unused_data and at >= len(message)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces), ended
