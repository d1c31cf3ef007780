"""A named tensor on its way through the server.

The array is numpy on the host's memory. It may be a read-only view of the bytes that a client sent:
code that needs to write makes a copy (the batch is that copy).
"""

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from naiad.core.datatypes import BYTES, DataType
from naiad.core.record import Record
from naiad.core.regions import Place
from naiad.tensors.memory import CPU, HOST, Memory

UNPACKED = 4096
"""The elements of BYTES tensors of up to so many are counted on the event loop, which takes less than a millisecond; more are counted elsewhere."""

_LENGTH = struct.Struct("<I")
NO_VALUES: "np.ndarray[Any, Any]" = np.empty((0,), dtype=np.uint8)
"""In place of values that are elsewhere."""
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

    @property
    def memory(self) -> Memory:
        """Where the values lie."""
        return HOST

    def __dlpack__(self, *, stream: Any = None, **_newer: Any) -> Any:
        """A DLPack capsule over the values, read-only ones too; the stream and what newer consumers ask for have no effect on the CPU.

        Raises:
            BufferError: BYTES.
        """
        from naiad.tensors import dlpack  # noqa: PLC0415 - few backends use it, and ctypes takes milliseconds

        return dlpack.export(self.array, self.datatype.name, owner=self)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU."""
        return CPU, 0


class PackedStrings(Tensor, frozen=True):
    """A BYTES tensor of many or long elements, kept as the bytes of the wire: the event loop makes no objects of them.

    Attributes:
        array: made again each time that it is read, which takes a second for 64 MB of short elements: not on the event loop.
        packed: uint8, one dimension: each element behind its length in 4 little-endian bytes. As many elements as the shape holds,
            once that was checked (`naiad.protocol.raw_tensors`).
    """

    packed: "np.ndarray[Any, Any]" = NO_VALUES

    if not TYPE_CHECKING:  # a field, for the type checker

        @property
        def array(self) -> "np.ndarray[Any, Any]":
            """See above.

            Raises:
                ValueError: the elements do not fill the shape.
            """
            return unpack(self.packed).reshape(self.shape)


class RegionTensor(Tensor, frozen=True):
    """An input whose values are in a client's shared memory. It becomes an ordinary tensor before anything reads `array`, which is empty."""

    place: Place = Place("", 0, 0)


class UnreadTensor(Tensor, frozen=True):
    """An input whose numbers are in a client's shared memory, where the worker process of its model reads them.

    Attributes:
        array: read each time, for others that need it; raises InferenceError as `Region.read`.
        place: a bound one, of as many bytes as the shape needs.
    """

    place: Place = Place("", 0, 0)

    if not TYPE_CHECKING:  # a field, for the type checker

        @property
        def array(self) -> "np.ndarray[Any, Any]":
            """See above."""
            place = self.place
            # Octets: bfloat16 knows no buffer protocol.
            octets = place.region.values(place.offset, place.size)
            return octets.view(self.datatype.dtype).reshape(self.shape)

    def shaped(self, shape: tuple[int, ...]) -> "UnreadTensor":
        """The same values in another shape."""
        return UnreadTensor(self.name, self.datatype, shape, NO_VALUES, None, self.place)


class PlacedTensor(Tensor, frozen=True):
    """An output whose values were written to a client's shared memory: responses say its name, datatype and shape only (row 5.20)."""


class Texts:
    """What a protocol has written of the outputs of a response that is sent again and again; on the event loop.

    Attributes:
        by_name: by the name of the output, in a form that only the protocol knows.
        size: bytes of all of them.
        entry: the key of the response in this server's response cache; None if it is not there, or not any more.
    """

    __slots__ = ("by_name", "entry", "size")

    def __init__(self) -> None:
        self.by_name: dict[str, Any] = {}
        self.size = 0
        self.entry: bytes | None = None

    def keep(self, name: str, written: Any, size: int) -> None:
        """Keep what was written of an output."""
        self.by_name[name] = written
        self.size += size


class KeptTensor(Tensor, frozen=True):
    """An output of a response that is sent again and again; `texts` is that of all of its outputs."""

    texts: Texts | None = None


def packed_strings(
    name: str, shape: tuple[int, ...], packed: "np.ndarray[Any, Any]"
) -> PackedStrings:
    """A tensor of the bytes that hold its elements."""
    return PackedStrings(name, BYTES, shape, NO_VALUES, None, packed)


def region_tensor(
    name: str, datatype: DataType, shape: tuple[int, ...], place: Place
) -> RegionTensor:
    """An input that is in a client's shared memory."""
    return RegionTensor(name, datatype, shape, NO_VALUES, None, place)


def unread_tensor(tensor: RegionTensor, place: Place) -> UnreadTensor:
    """An input that its model's worker process reads; `place`: its own, with the region."""
    return UnreadTensor(tensor.name, tensor.datatype, tensor.shape, NO_VALUES, None, place)


def placed_tensor(tensor: Tensor) -> PlacedTensor:
    """An output that was written to a client's shared memory."""
    return PlacedTensor(tensor.name, tensor.datatype, tensor.shape, NO_VALUES)


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
    return object_array(elements)


def octets(array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """The bytes of numbers in C order, as uint8: a view where they lie so. bfloat16 knows no buffer protocol, so every datatype is written as plain bytes."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def object_array(elements: "Sequence[Any]") -> "np.ndarray[Any, Any]":
    """An array of one dimension that holds these objects as they are."""
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    return array


def count_packed(
    body: "bytes | memoryview", start: int, end: int, most: int
) -> tuple[int, int, int]:
    """Read the packed elements in `body[start:end]`, at most one more than `most`; `most` of one length, the usual case, at once.

    Returns:
        How many there are, where the last one begins, and where it ends: beyond `end` if it is cut off, and before it if a length is, or if
        there are more elements.
    """
    size = end - start
    if most > 0 and size >= most * _LENGTH.size and not size % most:
        width = size // most
        lengths: np.ndarray[Any, Any] = np.ndarray((most,), "<u4", body, start, (width,))
        if (lengths == width - _LENGTH.size).all():
            return most, end - width + _LENGTH.size, end
    at = element_at = start
    length_at, prefix, last = _LENGTH.unpack_from, _LENGTH.size, end - _LENGTH.size
    for elements in range(most + 1):
        if at > last:
            return elements, element_at, at
        element_at = at + prefix
        at = element_at + length_at(body, at)[0]
    return max(most + 1, 0), element_at, at


def check_packed(packed: "np.ndarray[Any, Any]", count: int) -> None:
    """See that packed bytes hold this many elements.

    Raises:
        ValueError: they do not.
    """
    end = packed.nbytes
    elements, _, at = count_packed(packed.tobytes(), 0, end, count)
    if at > end:
        raise ValueError(f"element {elements - 1} is cut off")
    if at < end and elements <= count:
        raise ValueError(f"the length of element {elements} is cut off")
    if elements != count:
        raise ValueError(f"{elements} elements or more, expected {count}")


def pack(array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """The reverse of `unpack`, for an object array of `bytes` in any shape. The result is read-only."""
    elements = array.ravel()
    if elements.size <= _PACKED_AT_ONCE:
        return np.frombuffer(packed_bytes(elements), np.uint8)
    # In pieces: the objects of all lengths together would take 20 times the memory of short strings.
    packed = bytearray()
    for start in range(0, elements.size, _PACKED_AT_ONCE):
        packed += packed_bytes(elements[start : start + _PACKED_AT_ONCE])
    whole = np.frombuffer(packed, np.uint8)
    whole.flags.writeable = False
    return whole


def packed_bytes(elements: "np.ndarray[Any, Any]") -> bytes:
    """`bytes` objects, each behind its length in 4 little-endian bytes."""
    lengths = _LENGTH.pack
    parts: list[bytes] = []
    for element in elements.tolist():
        parts += (lengths(len(element)), element)
    return b"".join(parts)
