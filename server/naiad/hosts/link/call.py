"""A call of another model, as a REQUEST or a CALL has it behind the layout of its tensors.

A mark that no JSON begins with; the number of the first request of the calling batch and its size (0: not known), whether the batch's own thread waits,
whether the caller takes many responses; perhaps the number of the request whose trace the call belongs to; then, in JSON, `[model, version, id, correlation id, flags, timeout µs, parameters, requested outputs]`.
A model makes the same call over and over, with other tensors for another batch: so both sides remember the JSON.
"""

import struct
from typing import Any, NamedTuple

from naiad.hosts.link.codec import to_json

_HEAD = struct.Struct("<BQQB")
_MARK = ord("C")
_NUMBER = struct.Struct("<Q")
_BLOCKS, _DECOUPLED, _TRACED = 1, 2, 4
_KNOWN = 256
_KNOWN_BYTES = 1024


class Call(NamedTuple):
    """A call as it was received.

    Attributes:
        text: the fields that are in JSON.
        first: the number of the first request of the calling batch.
        size: that of this batch; 0: it is not known.
        blocks: whether the batch's own thread waits.
        decoupled: whether the caller takes many responses.
        traced: the number of the request whose trace it belongs to, if that one is traced; None: it belongs to none.
    """

    text: bytes
    first: int
    size: int
    blocks: bool
    decoupled: bool
    traced: "int | None" = None


class CallWriter:
    """Writes calls; may be used by several threads."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], bytes] = {}

    def write(
        self,
        fields: "tuple[Any, ...]",
        first: int,
        count: int,
        *,
        blocks: bool,
        decoupled: bool,
        traced: "int | None" = None,
    ) -> bytes:
        """See above; `fields` are those in JSON, the last two of them a dict and a list."""
        *plain, parameters, names = fields
        flags = (_BLOCKS if blocks else 0) | (_DECOUPLED if decoupled else 0)
        if traced is None:
            head = _HEAD.pack(_MARK, first, count, flags)
        else:
            head = _HEAD.pack(_MARK, first, count, flags | _TRACED) + _NUMBER.pack(traced)
        if parameters:
            return head + to_json(fields).encode()
        # Of equal values of other types, True is not a 1 in JSON.
        key = (*plain, *map(type, plain), *names)
        text = self._known.get(key)
        if text is None:
            text = to_json(fields).encode()
            if len(text) <= _KNOWN_BYTES:
                if len(self._known) >= _KNOWN:
                    self._known.clear()
                self._known[key] = text
        return head + text


def read(rest: "bytes | bytearray") -> "Call | None":
    """A call; None if it is another request."""
    if not rest or rest[0] != _MARK:
        return None
    _, first, count, flags = _HEAD.unpack_from(rest)
    at, traced = _HEAD.size, None
    if flags & _TRACED:
        (traced,) = _NUMBER.unpack_from(rest, at)
        at += _NUMBER.size
    blocks, decoupled = bool(flags & _BLOCKS), bool(flags & _DECOUPLED)
    return Call(bytes(rest[at:]), first, count, blocks, decoupled, traced)
