"""A named tensor on its way through the server.

The array is numpy on the host's memory. It may be a read-only view of the bytes that a client sent:
code that needs to write makes a copy (the batch is that copy).
"""

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from naiad.core.datatypes import BYTES, DataType
from naiad.core.record import Record

UNPACKED = 4096
"""The elements of BYTES tensors of up to so many are counted on the event loop, which takes less than a millisecond; more are counted elsewhere."""

_LENGTH = struct.Struct("<I")
_NOTHING: "np.ndarray[Any, Any]" = np.empty((0,), dtype=np.uint8)
_PACKED_AT_ONCE = 1 << 14
"""Elements that `pack` joins in one go."""


class Tensor(Record, frozen=True):
    """A tensor of a request or of a response.

    Attributes:
        datatype: what its elements are; for a request, what the client said they are.
        shape: its shape on the wire, the batch dimension included.
        array: values in that shape, C order; object array of `bytes` for BYTES. When `fault` is set it is
            empty and must not be read.
        fault: why the bytes that came do not fill this shape (rows 4.8, 4.9). A decoder cannot refuse on the
            spot: name, datatype and shape are validated first, by the engine's validation, which then raises
            this as INVALID_ARG.
    """

    name: str
    datatype: DataType
    shape: tuple[int, ...]
    array: "np.ndarray[Any, Any]"
    fault: str | None = None


class PackedStrings(Tensor, frozen=True):
    """A BYTES tensor of many or long elements, kept as the bytes of the wire: the event loop makes no objects of them.

    Attributes:
        array: made again each time that it is read, which takes a second for 64 MB of short elements: not on the event loop.
        packed: uint8, one dimension: each element behind its length in 4 little-endian bytes. As many elements as the shape holds,
            once that was checked (`naiad.protocol.raw_tensors`).
    """

    packed: "np.ndarray[Any, Any]" = _NOTHING

    if not TYPE_CHECKING:  # a field, for the type checker

        @property
        def array(self) -> "np.ndarray[Any, Any]":
            """See above.

            Raises:
                ValueError: the elements do not fill the shape.
            """
            return unpack(self.packed).reshape(self.shape)


def packed_strings(
    name: str, shape: tuple[int, ...], packed: "np.ndarray[Any, Any]"
) -> PackedStrings:
    """A tensor of the bytes that hold its elements."""
    return PackedStrings(name, BYTES, shape, _NOTHING, None, packed)


def unpack(packed: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """The elements as an object array of one dimension.

    Raises:
        ValueError: an element is cut off.
    """
    body = packed.tobytes()
    elements: list[bytes] = []
    add, length_at = elements.append, _LENGTH.unpack_from
    at, end = 0, len(body)
    while at < end:
        start = at + _LENGTH.size
        if start > end:
            raise ValueError(f"the length of element {len(elements)} is cut off")
        at = start + length_at(body, at)[0]
        add(body[start:at])
    if at > end:
        raise ValueError(f"element {len(elements) - 1} is cut off")
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    return array


def check_packed(packed: "np.ndarray[Any, Any]", count: int) -> None:
    """See that packed bytes hold this many elements. Elements of one length, the usual case, are checked at once.

    Raises:
        ValueError: they do not.
    """
    body = packed.tobytes()
    at, end, found = 0, len(body), 0
    length_at = _LENGTH.unpack_from
    if count > 1 and end % count == 0 and end >= _LENGTH.size * count:
        width = end // count
        lengths = np.ndarray((count,), "<u4", body, 0, (width,))
        if (lengths == width - _LENGTH.size).all():
            return
    while at < end and found <= count:
        if at + _LENGTH.size > end:
            raise ValueError(f"the length of element {found} is cut off")
        at += _LENGTH.size + length_at(body, at)[0]
        found += 1
    if at > end:
        raise ValueError(f"element {found - 1} is cut off")
    if found != count:
        raise ValueError(f"{found} elements or more, expected {count}")


def pack(array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """The reverse of `unpack`, for an object array of `bytes` in any shape. The result is read-only."""
    elements = array.ravel()
    if elements.size <= _PACKED_AT_ONCE:
        return np.frombuffer(_packed(elements), np.uint8)
    # In pieces: the objects of all lengths together would take 20 times the memory of short strings.
    packed = bytearray()
    for start in range(0, elements.size, _PACKED_AT_ONCE):
        packed += _packed(elements[start : start + _PACKED_AT_ONCE])
    whole = np.frombuffer(packed, np.uint8)
    whole.flags.writeable = False
    return whole


def _packed(elements: "np.ndarray[Any, Any]") -> bytes:
    lengths = _LENGTH.pack
    parts: list[bytes] = []
    for element in elements.tolist():
        parts += (lengths(len(element)), element)
    return b"".join(parts)
