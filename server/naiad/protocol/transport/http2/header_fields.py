"""Finds the fields of a header block without decoding them, and takes out those that differ from call to call (RFC 7541, section 6). Pure.

Only for blocks that need no dynamic table.
"""

import functools

import msgspec
from hpack import Encoder, HPACKDecodingError
from hpack.huffman_table import (
    HUFFMAN_COMPLETE,
    HUFFMAN_EMIT_SYMBOL,
    HUFFMAN_FAIL,
    HUFFMAN_TABLE,
)

PER_CALL = (
    "grpc-timeout", "traceparent", "tracestate", "baggage", "x-request-id", "request-id", "x-correlation-id", "grpc-trace-bin", "grpc-tags-bin",
    "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-datadog-trace-id", "x-datadog-parent-id", "x-cloud-trace-context",
    "x-amzn-trace-id", "uber-trace-id", "sentry-trace", "elastic-apm-traceparent", "x-ot-span-context",
)  # fmt: skip
"""Fields whose values differ from call to call: deadlines, ids, traces."""

_INDEXED, _INDEXING, _SIZE_UPDATE = 0x80, 0x40, 0x20
_LONG_LENGTH = 0x7F
_MAX_SHIFT = 28


Places = tuple[tuple[bytes, int, int], ...]
"""Fields of `PER_CALL` in a block: the name of each, where its value begins with its length, and where it ends."""


class Split(msgspec.Struct, frozen=True, gc=False):
    """A block in two.

    Attributes:
        stable: the block without the fields of `PER_CALL`.
        first: at which byte of `stable` the first of those fields was; -1 if there was none.
        places: of those fields.
    """

    stable: bytes
    first: int
    places: Places


def split(block: bytes) -> Split | None:
    """The block in two; None if it cannot be one, or one without a dynamic table."""
    at = kept = 0
    first = -1
    stable = b""
    places: list[tuple[bytes, int, int]] = []
    try:
        while at < len(block):
            start = at
            at, name, value_at = _after_field(block, at)
            if name is not None:
                places.append((name, value_at, at))
                stable += block[kept:start]
                kept = at
                if first < 0:
                    first = len(stable)
    except IndexError:
        return None
    if at != len(block):
        return None
    return Split(stable + block[kept:] if places else block, first, tuple(places))


def _after_field(block: bytes, at: int) -> tuple[int, bytes | None, int]:
    """Where the field that begins at `at` ends, its name if that is one of `PER_CALL`, and where its value begins (section 6).

    Raises:
        IndexError: it does not end in the block, or means a dynamic table.
    """
    byte = block[at]
    at += 1
    if byte & _INDEXED or byte & 0xE0 == _SIZE_UPDATE:
        if byte in {0xFF, 0x3F}:  # goes on: an index or a size that there is not
            raise IndexError
        return at, None, at
    name = None
    prefix = 0x3F if byte & _INDEXING else 0x0F
    index = byte & prefix
    if not index:
        name_at = at
        at = _after_string(block, at)
        name = _NAMES.get(block[name_at:at])
    elif index == prefix:
        if block[at] & 0x80:
            raise IndexError
        at += 1
    return _after_string(block, at), name, at


def _after_string(block: bytes, at: int) -> int:
    """Where the string that begins at `at` ends (section 5.2)."""
    length = block[at] & _LONG_LENGTH
    at += 1
    if length == _LONG_LENGTH:
        shift = 0
        while True:
            byte = block[at]
            at += 1
            length += (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
            if shift > _MAX_SHIFT:
                raise IndexError
    return at + length


def huffman_decoded(encoded: bytes) -> bytes:
    """The bytes that Huffman's code stands for (section 5.2 and appendix B).

    `hpack` reads half a byte at a time and logs each field: 26 µs for a traceparent, which clients that trace send with every call. Its table is used here.

    Raises:
        HPACKDecodingError: that is not a whole string of Huffman's code, or its padding is wrong.
    """
    state, complete = 0, True
    parts: list[bytes] = []
    for byte in encoded:
        state, complete, symbols = _huffman_step(state, byte)
        parts.append(symbols)
    if not complete:
        raise HPACKDecodingError("an incomplete Huffman string")
    return b"".join(parts)


@functools.lru_cache(maxsize=16_384)
def _huffman_step(state: int, byte: int) -> tuple[int, bool, bytes]:
    """What a byte does in a state: the next state, whether the string may end there, the symbols that have become whole."""
    symbols = b""
    flags = 0
    for half in (byte >> 4, byte & 0x0F):
        state, flags, symbol = HUFFMAN_TABLE[state * 16 + half]
        if flags & HUFFMAN_FAIL:
            raise HPACKDecodingError("an invalid Huffman string")
        if flags & HUFFMAN_EMIT_SYMBOL:
            symbols += bytes((symbol,))
    return state, bool(flags & HUFFMAN_COMPLETE), symbols


def _encoded_names() -> dict[bytes, bytes]:
    """The names of `PER_CALL` as they are on the wire, plain and in Huffman's code."""
    names = {}
    for text in PER_CALL:
        name = text.encode()
        for huffman in (False, True):
            # As a field that is never indexed: its first byte, the name, and a value of no bytes.
            field: bytes = Encoder().encode([(name, b"", True)], huffman=huffman)
            names[field[1:-1]] = name
    return names


_NAMES = _encoded_names()
