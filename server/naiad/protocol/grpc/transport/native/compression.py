"""Compression of messages: by the encoding that the call names, both ways (row 10.36). Short messages on the event loop, longer ones in a thread."""

import asyncio
import collections.abc
import functools
import zlib

from naiad.protocol.grpc.call import (
    LongMessage,
    Response,
    RpcStatus,
    as_inference_error,
    rpc_status,
)
from naiad.protocol.grpc.codec.compression import HERE, decompress
from naiad.protocol.grpc.transport.native.call_head import ENCODINGS
from naiad.protocol.grpc.transport.native.messages import Message
from naiad.protocol.grpc.transport.native.responses import (
    compressed_in_pieces,
    framed as plain,
    in_pieces,
)

COMPRESSED_HERE = 16_384
"""Up to here a message is compressed on the event loop, in 0.2 ms at most: a hand-over to a thread costs half of that. 64 KiB take up to 1.8 ms."""

Then = collections.abc.Callable[[Response], None]
"""Called on the loop with the bytes, or with the error in place of them."""

_ONE_PIECE = 1_048_576

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


def take_whole(
    loop: asyncio.AbstractEventLoop, message: Message, encoding: bytes, limit: int, then: Then
) -> None:
    """Call `then` with what a message holds, in one piece and decompressed: at once, or later for a long message."""
    if message.parts is not None or (message.compressed and len(message.body) > HERE):
        _in_thread(loop, then, _whole, message, encoding, limit)
    else:
        then(_whole(message, encoding, limit))


def _whole(message: Message, encoding: bytes, limit: int) -> Response:
    body = message.joined()
    return decompressed(body, encoding, limit) if message.compressed else body


def frame_later(
    loop: asyncio.AbstractEventLoop, message: bytes | LongMessage, encoding: bytes, then: Then
) -> None:
    """Call `then` with what `framed` returns, later: for a message of more than `COMPRESSED_HERE` bytes."""
    _in_thread(loop, then, framed, message, encoding)


def chosen(
    liked: collections.abc.Sequence[bytes], accepts: collections.abc.Container[bytes]
) -> bytes:
    """The encoding of a response: the best that the client reads."""
    return next((encoding for encoding in liked if encoding in accepts), b"identity")


def framed(message: bytes | LongMessage, encoding: bytes) -> bytes | LongMessage:
    """A message behind its prefix, compressed if that makes it shorter."""
    window = _WINDOW.get(encoding)
    if type(message) is not bytes or len(message) > _ONE_PIECE:
        long = message if isinstance(message, LongMessage) else LongMessage([message])
        return _framed_long(long, window)
    if window is not None:
        compressor = zlib.compressobj(wbits=window)
        compressed = compressor.compress(message) + compressor.flush()
        if len(compressed) < len(message):
            return plain(compressed, compressed=True)
    return plain(message)


def _framed_long(message: LongMessage, window: int | None) -> LongMessage:
    """As `framed`. In pieces: `zlib` works without the interpreter lock, but puts together what one call returns under it."""
    if window is not None:
        compressor = zlib.compressobj(wbits=window)
        pieces = [compressor.compress(piece) for piece in message.cut()]
        pieces.append(compressor.flush())
        if sum(map(len, pieces)) < len(message):
            return compressed_in_pieces(pieces)
    return LongMessage(in_pieces(message))


def _in_thread(
    loop: asyncio.AbstractEventLoop,
    then: Then,
    run: collections.abc.Callable[..., Response],
    *arguments: object,
) -> None:
    future = loop.run_in_executor(None, run, *arguments)
    future.add_done_callback(functools.partial(_pass_on, then))


def _pass_on(then: Then, future: "asyncio.Future[Response]") -> None:
    if future.cancelled():
        return  # the server exits, and gives its calls up
    error = future.exception()
    if error is None:
        then(future.result())
    elif isinstance(error, Exception):
        then(rpc_status(as_inference_error(error, "compression")))
