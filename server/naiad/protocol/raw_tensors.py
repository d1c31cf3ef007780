"""Tensors as raw bytes, as HTTP puts them behind its JSON and gRPC into raw contents (rows 3.9, 3.10, 3.13, 10.11, 10.14). Pure.

Reading makes views of the message, never copies; a view may begin at any address, so that code which needs aligned memory makes the
copy. BYTES elements that are many stay as they are on the wire, and become objects where a model needs objects. Bytes that do not fill their shape
do not raise: they become the tensor's `fault`, so that name, datatype and shape are validated first, in Triton's order.
"""

import math
import struct
import typing

import numpy as np

from naiad.core.datatypes import BYTES, DataType
from naiad.core.record import Record
from naiad.core.tensor import (
    UNPACKED,
    PackedStrings,
    Tensor,
    count_packed,
    object_array,
    octets,
    packed_bytes,
    packed_strings,
)
from naiad.tensors.freed_aside import freed_aside

Elements = np.ndarray[typing.Any, np.dtype[typing.Any]]

MAX_RANK = 32
"""Dimensions that a numpy array of any supported version can have; no model comes near."""

_MOST_BYTES = 2**63 - 1
"""The most bytes of an array, also of an empty one without its zeros: numpy refuses to make a larger one."""

_LENGTH = struct.Struct("<I")
_COPIED = 65_536
"""Up to here the bytes of an output are copied, which is cheaper than a view."""

_OBJECTS = 16
"""BYTES tensors of up to so many elements become objects at once. More stay packed: a worker process takes the bytes as they are."""

_NOTHING: Elements = np.empty((0,), dtype=np.uint8)


class InputSpec(Record, frozen=True):
    """An input without its values. No dimension of the shape is negative; `count` is how many elements it holds."""

    name: str
    datatype: DataType
    shape: tuple[int, ...]
    count: int

    def faulty(self, fault: str) -> Tensor:
        """The tensor whose bytes do not fill the shape; its array must not be read."""
        return faulty(self.name, self.datatype, self.shape, fault)


def read(body: bytes | memoryview, start: int, size: int, spec: InputSpec, *, model: str) -> Tensor:
    """A tensor whose bytes are `body[start:start + size]`, as a view; they lie within the body."""
    datatype, shape, count = spec.datatype, spec.shape, spec.count
    if len(shape) > MAX_RANK:
        return spec.faulty(f"a shape can have at most {MAX_RANK} dimensions")
    if not count and exceeds_memory(shape, datatype):
        return spec.faulty(too_large(model=model, name=spec.name, shape=shape))
    if datatype is BYTES:
        return _read_strings(body, start, size, spec, model=model)
    if size != count * datatype.size:
        return wrong_size(spec, size, model=model)
    return Tensor(spec.name, datatype, shape, np.ndarray(shape, datatype.dtype, body, start))


def faulty(name: str, datatype: DataType, shape: tuple[int, ...], fault: str) -> Tensor:
    """A tensor whose bytes do not fill its shape; its array must not be read."""
    return Tensor(name, datatype, shape, _NOTHING, fault)


def exceeds_memory(shape: tuple[int, ...], datatype: DataType) -> bool:
    """Whether numpy refuses to make an array of this shape, no dimension of it negative: dimensions of 0 do not count."""
    return math.prod(size for size in shape if size) * datatype.dtype.itemsize > _MOST_BYTES


def too_large(*, model: str, name: str, shape: tuple[int, ...]) -> str:
    """The fault of a tensor whose shape `exceeds_memory`."""
    return (
        f"shape {list(shape)} of input '{name}' for model '{model}' exceeds the maximum allowed size of a tensor, 2^63-1 bytes: "
        "dimensions of 0 do not count here; send smaller ones beside them"
    )


def wrong_size(spec: InputSpec, size: int, *, model: str) -> Tensor:
    """A tensor that came with too few or too many bytes (row 4.8)."""
    datatype = spec.datatype
    return spec.faulty(
        f"input byte size mismatch for input '{spec.name}' for model '{model}'. Expected {spec.count * datatype.size}, got {size}: "
        f"shape {list(spec.shape)} of {datatype.name} takes {datatype.size} bytes per element"
    )


def wrong_count(model: str, name: str, expected: int, got: int) -> str:
    """The fault of a tensor with too few or too many strings (row 4.9)."""
    return f"expected {expected} string elements for inference input '{name}' for model '{model}', got {got}"


def write(tensor: Tensor) -> bytes | memoryview:
    """A tensor's bytes in wire form, row-major, little-endian; a view of the array when it is large and holds no BYTES."""
    if tensor.datatype is BYTES:
        if type(tensor) is PackedStrings:
            return tensor.packed.data
        return packed_bytes(tensor.array.ravel())
    array = tensor.array
    if array.nbytes <= _COPIED:
        return array.tobytes()
    return freed_aside(octets(array)).data


LARGE_ARRAY_BYTES = 1 << 17
"""Bytes of an array from which writing it as JSON takes more than a few milliseconds."""


def is_large(tensor: Tensor) -> bool:
    """Whether writing a tensor as JSON, or making raw bytes of its objects, would keep the event loop for long."""
    if tensor.datatype is not BYTES:
        return tensor.array.nbytes > LARGE_ARRAY_BYTES
    if type(tensor) is PackedStrings:
        return tensor.packed.size > LARGE_ARRAY_BYTES or math.prod(tensor.shape) > UNPACKED
    array = tensor.array
    return array.nbytes > LARGE_ARRAY_BYTES or sum(map(len, array.flat)) > LARGE_ARRAY_BYTES


def _read_strings(
    body: bytes | memoryview, start: int, size: int, spec: InputSpec, *, model: str
) -> Tensor:
    """A BYTES tensor: each element is a little-endian uint32 length and that many bytes (row 3.13)."""
    name, shape, count = spec.name, spec.shape, spec.count
    if count > _OBJECTS:
        # fewer bytes hold few elements, whatever the shape says
        unchecked = count > UNPACKED and size > UNPACKED * _LENGTH.size
        fault = "" if unchecked else _fault(body, start, size, count, model=model, name=name)
        if fault:
            return spec.faulty(fault)
        return packed_strings(name, shape, np.ndarray((size,), np.uint8, body, start))
    elements: list[bytes] = []
    if type(body) is not bytes:
        body, start = bytes(body[start : start + size]), 0
    at, end = start, start + size
    length_at, prefix, last = _LENGTH.unpack_from, _LENGTH.size, end - _LENGTH.size
    # A stream of empty elements costs four bytes each: no more are cut out than the shape asks for.
    while at <= last and len(elements) < count:
        element_at = at + prefix
        at = element_at + length_at(body, at)[0]
        if at > end:
            break
        elements.append(body[element_at:at])
    if at != end or len(elements) != count:
        return spec.faulty(_fault(body, start, size, count, model=model, name=name))
    return Tensor(name, BYTES, shape, object_array(elements).reshape(shape))


def unchecked(inputs: list[Tensor]) -> list[PackedStrings]:
    """Those of which it was not checked whether their elements fill their shapes, because that takes long; see `fault_in`."""
    return [
        tensor
        for tensor in inputs
        if type(tensor) is PackedStrings
        and tensor.packed.size > UNPACKED * _LENGTH.size
        and math.prod(tensor.shape) > UNPACKED
    ]


def fault_in(packed: memoryview, count: int, model: str, name: str) -> str:
    """Why packed elements are not as many as a shape holds; "" when they are. Takes a second for 64 MB of short elements."""
    return _fault(bytes(packed), 0, packed.nbytes, count, model=model, name=name)


def _fault(
    body: bytes | memoryview, start: int, size: int, count: int, *, model: str, name: str
) -> str:
    """Why `body[start:start + size]` is not so many elements, "" when it is; reads at most one element too many."""
    end = start + size
    elements, element_at, at = count_packed(body, start, end, count)
    if at == end and elements == count:
        return ""
    what = f"for inference input '{name}' for model '{model}'"
    if at > end:
        fault = (
            f"incomplete string data {what}, expecting string of length {at - element_at} but only {end - element_at} "
            f"bytes available after {elements - 1} elements"
        )
    elif elements > count:
        fault = f"unexpected number of string elements {elements} {what}, expecting {count}"
    elif at < end:
        fault = (
            f"incomplete string length indicator {what}, expecting 4 bytes but only {end - at} bytes available after "
            f"{elements} elements"
        )
    else:
        fault = wrong_count(model, name, count, elements)
    return f"{fault}; each element is a little-endian uint32 length, then its bytes"
