"""One tensor in a worker's message, on the server's side: what a header says of it, and where it lies beside the header.

What the fields mean is said in `worker/content.py`, which does the same for the worker, with its own types.
"""

import math
from typing import Any

import numpy as np

from naiad.backends.python.api.byte_tensors import (
    deserialize_bytes_tensor,
    serialize_byte_tensor,
)
from naiad.core import datatypes
from naiad.core.tensor import UNPACKED, PackedStrings, Tensor, packed_strings
from naiad.hosts.worker.link import Payload

_UNPACKED_BYTES = 1 << 18
"""BYTES of more bytes stay packed, however few elements they have."""

Frame = tuple[str, str, tuple[int, ...], int, int]
"""Name, datatype, shape, offset, bytes."""


def framed(tensor: Tensor, payload: Payload) -> Frame:
    """Takes a tensor along in a payload; what the header says of it."""
    if type(tensor) is PackedStrings:
        at, size = payload.add(tensor.packed)
        return tensor.name, tensor.datatype.name, tensor.shape, at, size
    array = tensor.array
    flat = tensor.datatype is datatypes.BYTES
    at, size = payload.add(serialize_byte_tensor(array) or b"" if flat else array)
    return tensor.name, tensor.datatype.name, array.shape, at, size


def tensor_at(  # noqa: PLR0917 - a frame's own fields, for each output of each response
    base: Any,
    name: str,
    datatype: datatypes.DataType,
    given: tuple[int, ...],
    shown: tuple[int, ...],
    at: int,
    size: int,
) -> Tensor:
    """A tensor that a worker sent; BYTES of many elements or many bytes stay packed where they lie.

    Args:
        base: where the message's tensors are.
        name: its name.
        datatype: its datatype.
        given: its shape as the worker sent it.
        shown: the shape of the result.
        at: offset in `base`.
        size: bytes.

    Raises:
        ValueError: the bytes are not such a tensor.
    """
    if datatype is datatypes.BYTES and (
        size > _UNPACKED_BYTES or (size > 4 * UNPACKED and math.prod(given) > UNPACKED)
    ):
        return packed_strings(name, shown, np.ndarray((size,), np.uint8, base, at))
    array = array_at(base, datatype, given, at=at, size=size)
    return Tensor(name, datatype, shown, array if shown is given else array.reshape(shown))


def array_at(
    base: Any, datatype: datatypes.DataType, shape: tuple[int, ...], *, at: int, size: int
) -> np.ndarray[Any, Any]:
    """The elements of a tensor that a worker sent.

    Args:
        base: where the message's tensors are.
        datatype: the tensor's. BYTES are read into objects; the elements of all others stay where they lie.
        shape: as the header says it.
        at: offset in `base`.
        size: bytes.

    Raises:
        ValueError: the bytes are not such a tensor.
    """
    if datatype is datatypes.BYTES:
        array = deserialize_bytes_tensor(bytes(base[at : at + size])).reshape(shape)
    elif size:
        array = np.ndarray(shape, datatype.dtype, base, at)
    elif 0 in shape:
        array = np.empty(shape, datatype.dtype)
    else:
        raise ValueError(f"no bytes for a tensor of shape {list(shape)}")
    if array.shape != shape:
        raise ValueError(f"a tensor of shape {list(shape)}, expected dimensions of 0 and more")
    return array
