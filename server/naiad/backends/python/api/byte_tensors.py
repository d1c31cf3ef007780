"""BYTES tensors as flat bytes: each element behind its length in 4 little-endian bytes (row 15.28)."""

import struct
from typing import Any

import numpy as np


def elements_of(array: "np.ndarray[Any, Any]") -> "list[bytes]":
    """The elements of an object or S array in C order, as bytes: text as UTF-8, anything else as its str()."""
    values = array.ravel().tolist()
    for value in values:
        if type(value) is not bytes:
            return [each if type(each) is bytes else str(each).encode() for each in values]
    return values


def serialize_byte_tensor(input_tensor: "np.ndarray[Any, Any]") -> Any:
    """A BYTES tensor as flat bytes.

    Returns:
        bytes; () for an empty tensor; None for an array that holds no bytes at all (as Triton's own function).
    """
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype != np.object_ and input_tensor.dtype.kind != "S":
        return None
    parts: list[bytes] = []
    for element in elements_of(input_tensor):
        parts.append(struct.pack("<I", len(element)))
        parts.append(element)
    return b"".join(parts)


def deserialize_bytes_tensor(encoded_tensor: bytes) -> "np.ndarray[Any, Any]":
    """The elements of flat bytes.

    Returns:
        Object array of bytes, one dimension.

    Raises:
        struct.error: a length is cut off.
        ValueError: an element is cut off.
    """
    elements: list[bytes] = []
    offset = 0
    end = len(encoded_tensor)
    while offset < end:
        (length,) = struct.unpack_from("<I", encoded_tensor, offset)
        offset += 4
        if offset + length > end:
            raise ValueError(
                f"element {len(elements)} says that it has {length} bytes, and {end - offset} are left"
            )
        elements.append(bytes(encoded_tensor[offset : offset + length]))
        offset += length
    array = np.empty(len(elements), dtype=np.object_)
    array[:] = elements
    return array
