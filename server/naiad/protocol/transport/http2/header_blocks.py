"""Header blocks to fields, and back. What a block holds is remembered by its bytes, as long as no dynamic table is in use.

On a connection that carries calls we announce SETTINGS_HEADER_TABLE_SIZE 0. A client that has acknowledged that says at the beginning of its next block that its table is empty now
(RFC 7541, section 4.2). Until then its blocks depend on those before them, and the connection decodes with a table of its own: for good with a client
that ignores the setting, which works, too. From then on a block means the same on every connection, and all share `BlockCache`.
"""

import contextlib
import typing

import hpack
import msgspec

from naiad.protocol.transport.http2.errors import ConnectionFault, ErrorCode
from naiad.protocol.transport.http2.header_fields import Places, huffman_decoded, split
from naiad.protocol.transport.http2.header_rules import (
    Fields,
    content_length,
    request_fault,
)

MAX_LIST_BYTES = 16_384
"""The size of a header list that we announce (SETTINGS_MAX_HEADER_LIST_SIZE); grpc takes as much."""

MAX_BLOCK_BYTES = 65_536
"""A block or a list that is larger ends the connection: nothing of it is kept."""

_FIELD_OVERHEAD = 32
"""Bytes by which each field counts more than its name and value (section 6.5.2)."""

_REMEMBERED = 1024
_REMEMBERED_BYTES = 2048
_MAX_TEMPLATES = 64

_LONG_LENGTH = 0x7F
"""The length of a string that goes on in further bytes (RFC 7541, section 5.1)."""

_UNNAMED = b"\x10\x01-"
"""A field that is never indexed, without its value."""


class Block:
    """The fields of a decoded block.

    Attributes:
        fault: why a request with these fields is malformed; "" if it is not.
        size: of the list (section 6.5.2).
        content_length: what the request declares; -1 for nothing.
        memo: what the user of the protocol makes of the fields, once per block that is remembered.
    """

    __slots__ = ("content_length", "fault", "fields", "memo", "size")

    def __init__(self, fields: Fields, pseudo_until: int | None = None) -> None:
        self.fields = fields
        self.fault = request_fault(fields)
        if not self.fault and pseudo_until is not None:
            late = [name for name, _ in fields[pseudo_until:] if name.startswith(b":")]
            self.fault = "a pseudo-header field after a regular one (section 8.3)" if late else ""
        self.size = size_of(fields)
        self.content_length = content_length(fields)
        if self.content_length < -1:
            self.fault = self.fault or "content-length (section 8.1.1)"
        self.memo: typing.Any = None


class Headers(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The fields of one request: a block that others may have too, and what only this one has, which is decoded when it is read.

    Attributes:
        places: where that is in the encoded block.
    """

    block: Block
    _encoded: bytes = b""
    places: Places = ()

    @property
    def per_call(self) -> Fields:
        """What only this one has. A value that Huffman's code does not allow is left out: a trace that cannot be read is no reason to end a connection."""
        fields: list[tuple[bytes, bytes]] = []
        for name, start, end in self.places:
            with contextlib.suppress(ConnectionFault):
                fields.append((name, value_of(self._encoded, start, end)))
        return fields

    def value(self, name: bytes) -> bytes | None:
        """The value of a field that only this one has; None if it has none.

        Raises:
            ConnectionFault: it cannot be decoded.
        """
        for each, start, end in self.places:
            if each == name:
                encoded = self._encoded
                if encoded[start] < _LONG_LENGTH:  # as `value_of`, without a call
                    return encoded[start + 1 : end]
                return value_of(encoded, start, end)
        return None

    @property
    def fields(self) -> Fields:
        """All of them; those of `PER_CALL` last."""
        return (*self.block.fields, *self.per_call)

    @property
    def size(self) -> int:
        """Of the list (section 6.5.2)."""
        return self.block.size + size_of(self.per_call)


def size_of(fields: Fields) -> int:
    """The size of a header list (section 6.5.2)."""
    return sum(len(name) + len(value) + _FIELD_OVERHEAD for name, value in fields)


TOO_LONG = Headers(Block(()))
"""What is known of a block of which nothing was kept."""
TOO_LONG.block.fault = ""
TOO_LONG.block.size = MAX_BLOCK_BYTES + 1


def decoder(table_bytes: int) -> hpack.Decoder:
    """A decoder with a dynamic table of so many bytes at most."""
    made = hpack.Decoder(max_header_list_size=MAX_BLOCK_BYTES)
    made.max_allowed_table_size = table_bytes
    if not table_bytes:
        made.header_table_size = 0
    return made


_WITHOUT_TABLE = decoder(0)


def decode(with_table: hpack.Decoder, block: bytes) -> Fields:
    """The fields of a block.

    Raises:
        ConnectionFault: it cannot be decoded, which leaves the table unusable (RFC 7541, section 2.2), or holds too much.
    """
    try:
        fields: list[tuple[bytes, bytes]] = [
            (bytes(name), bytes(value)) for name, value in with_table.decode(block, raw=True)
        ]
    except hpack.OversizedHeaderListError:
        raise ConnectionFault(
            ErrorCode.ENHANCE_YOUR_CALM, f"a header list of more than {MAX_BLOCK_BYTES} bytes"
        ) from None
    except hpack.HPACKError as error:
        raise _undecodable(error) from None
    return fields


def _undecodable(error: hpack.HPACKError) -> ConnectionFault:
    return ConnectionFault(
        ErrorCode.COMPRESSION_ERROR, f"a header block that cannot be decoded: {error} (section 4.3)"
    )


class _Template:
    """A block with fields of this call only. One of the same length that is equal everywhere but in their values has them at the same places.

    Attributes:
        pieces: what stands around the values, and where.
    """

    __slots__ = ("block", "pieces", "places")

    def __init__(self, encoded: bytes, places: Places, block: Block) -> None:
        self.block = block
        self.places = places
        pieces = []
        at = 0
        for _, value_at, end in places:
            pieces.append((encoded[at : value_at + 1], at))
            at = end
        if at < len(encoded):
            pieces.append((encoded[at:], at))
        self.pieces = tuple(pieces)


def gives_up_table(block: bytes) -> bool:
    """Whether a block begins with the size of a table of no bytes, and with no other size after it (RFC 7541, section 6.3)."""
    return block[:1] == b"\x20" and block[1:2] != b"" and block[1] & 0xE0 != 0x20  # noqa: PLR2004 - the pattern of such a field


class BlockCache:
    """What blocks without a dynamic table hold. Bounded: twice 1,024 blocks of 2 KiB, those that were not used for longest go first; templates of 64 lengths."""

    def __init__(self) -> None:
        self._young: dict[bytes | tuple[bytes, int], Block] = {}
        self._old: dict[bytes | tuple[bytes, int], Block] = {}
        self._templates: dict[int, _Template] = {}

    def read(self, block: bytes) -> Headers:
        """The fields of a block.

        Raises:
            ConnectionFault: as `decode`.
        """
        template = self._templates.get(len(block))
        if template is not None:
            for piece, at in template.pieces:
                if not block.startswith(piece, at):
                    break
            else:
                return Headers(template.block, block, template.places)
        known = self._young.get(block)
        if known is not None:
            return Headers(known)
        parts = split(block)
        if parts is None or not parts.places:
            return Headers(self._known(block, block, None))
        shared = self._known((parts.stable, parts.first), parts.stable, parts.first)
        headers = Headers(shared, block, parts.places)
        if len(block) > _REMEMBERED_BYTES:
            # Only such a block can hold a list that is too long, and is decoded to see that.
            return TOO_LONG if headers.size > MAX_LIST_BYTES else headers
        if all(block[at] & _LONG_LENGTH != _LONG_LENGTH for _, at, _ in parts.places):
            if len(self._templates) >= _MAX_TEMPLATES:
                self._templates.clear()
            self._templates[len(block)] = _Template(block, parts.places, shared)
        return headers

    def _known(
        self, key: bytes | tuple[bytes, int], block: bytes, first_per_call: int | None
    ) -> Block:
        known = self._young.get(key) or self._old.get(key)
        if known is None:
            if first_per_call is None:
                known = Block(decode(_WITHOUT_TABLE, block))
            else:
                before = decode(_WITHOUT_TABLE, block[:first_per_call])
                after = decode(_WITHOUT_TABLE, block[first_per_call:])
                known = Block((*before, *after), len(before))
        if len(block) <= _REMEMBERED_BYTES and key not in self._young:
            if len(self._young) >= _REMEMBERED:
                self._old, self._young = self._young, {}
            self._young[key] = known
        return known


def value_of(block: bytes, at: int, end: int) -> bytes:
    """The value whose length begins at `block[at]`; `block[end]` is behind it.

    Raises:
        ConnectionFault: it cannot be decoded.
    """
    length = block[at]
    if length < _LONG_LENGTH:  # plain, and its length in one byte
        return block[at + 1 : end]
    if length & _LONG_LENGTH != _LONG_LENGTH:  # its length in one byte
        try:
            return huffman_decoded(block[at + 1 : end])
        except hpack.HPACKError as error:
            raise _undecodable(error) from None
    ((_, value),) = decode(_WITHOUT_TABLE, _UNNAMED + block[at:end])
    return value


_encoder = hpack.Encoder()


def encode(fields: Fields) -> bytes:
    """A block that neither uses nor changes a table, so that it is the same on every connection."""
    block: bytes = _encoder.encode([(name, value, True) for name, value in fields], huffman=False)
    return block
