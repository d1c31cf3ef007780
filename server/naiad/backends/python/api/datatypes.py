"""Triton's datatype numbers, numpy's dtypes, and BYTES tensors as flat bytes: each element behind its length in 4 little-endian bytes (row 15.28)."""

import struct
from typing import Any

import numpy as np

from naiad.backends.python.api.errors import TritonModelException

BYTES = 13
BF16 = 14

_NUMPY = (
    (1, "BOOL", np.bool_),
    (2, "UINT8", np.uint8),
    (3, "UINT16", np.uint16),
    (4, "UINT32", np.uint32),
    (5, "UINT64", np.uint64),
    (6, "INT8", np.int8),
    (7, "INT16", np.int16),
    (8, "INT32", np.int32),
    (9, "INT64", np.int64),
    (10, "FP16", np.float16),
    (11, "FP32", np.float32),
    (12, "FP64", np.float64),
    (BYTES, "STRING", np.object_),
)

_TYPES = {number: scalar for number, _, scalar in _NUMPY}
_BY_STRING: "dict[str, Any]" = {"TYPE_" + name: scalar for _, name, scalar in _NUMPY}
_BY_STRING["TYPE_BOOL"] = bool  # as Triton's own table has it
TRITON_STRING_TO_NUMPY = _BY_STRING
"""What models find under this name in Triton."""

CODES = {np.dtype(scalar): number for number, _, scalar in _NUMPY}
"""Triton's number of a numpy dtype; BF16 is not here, numpy has none."""

WIRE_NAMES = {number: name for number, name, _ in _NUMPY}
WIRE_NAMES.update({BYTES: "BYTES", BF16: "BF16"})
"""What a datatype of that number is called on the wire (row 2.16)."""


def code_of(dtype: Any) -> int:
    """Triton's number of a numpy dtype.

    Raises:
        TritonModelException: Triton has no such datatype.
    """
    number = CODES.get(dtype)
    if number is None:
        if dtype.kind == "S":
            return BYTES
        raise TritonModelException(
            "NumPy dtype is not supported: {!r}. {}".format(
                dtype,
                "Text goes as an object array of bytes: array.astype(object)"
                if dtype.kind == "U"
                else "Use one of bool, (u)int8 to (u)int64, float16 to float64, or object (bytes); "
                "BF16 goes by DLPack: Tensor.from_dlpack",
            )
        )
    return number


def triton_to_numpy_type(data_type: int) -> Any:
    """The numpy scalar type of a Triton datatype number; None when there is none (BF16)."""
    return _TYPES.get(data_type)


def numpy_to_triton_type(data_type: Any) -> "int | None":
    """Triton's datatype number of a numpy type or dtype; None when there is none."""
    dtype = np.dtype(data_type)
    return BYTES if dtype.kind == "S" else CODES.get(dtype)


def triton_string_to_numpy(triton_type_string: str) -> Any:
    """The numpy scalar type of a config's datatype name, e.g. TYPE_FP32; TYPE_BOOL gives bool.

    Raises:
        KeyError: there is none (TYPE_BF16).
    """
    return _BY_STRING[triton_type_string]


def elements_of(array: "np.ndarray[Any, Any]") -> "list[bytes]":
    """The elements of an object or S array in C order, as bytes: text as UTF-8, anything else as its str()."""
    values = array.ravel().tolist()
    for value in values:
        if type(value) is not bytes:
            return [item if type(item) is bytes else str(item).encode() for item in values]
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
