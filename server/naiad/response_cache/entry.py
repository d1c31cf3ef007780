"""What the cache keeps of a response: its outputs and parameters, in memory of their own."""

import json
import struct
import typing

import numpy as np

from naiad.core import datatypes
from naiad.core.record import Record
from naiad.core.request import InferRequest, Parameters
from naiad.core.response import InferResponse
from naiad.core.tensor import (
    KeptTensor,
    PackedStrings,
    Tensor,
    Texts,
    check_packed,
    pack,
    packed_strings,
)

_OVERHEAD = 512
"""About the memory of an entry beside the values of its outputs: objects, names, the key."""

_OUTPUT_OVERHEAD = 256
_HEAD = struct.Struct("<4sI")
_MAGIC = b"ncr1"
"""Begins the bytes of an entry; another version of the format begins otherwise."""


class CachedResponse(Record, frozen=True):
    """A response without what belongs to its request.

    Attributes:
        outputs: read-only.
        size: bytes of memory, about.
        texts: what protocols have written of them, beside `size`.
    """

    outputs: list[Tensor]
    parameters: Parameters
    size: int
    texts: Texts

    def response_to(self, request: InferRequest, version: int) -> InferResponse:
        """The response to a request."""
        return InferResponse(
            request.model_name, version, request.id, self.outputs, self.parameters, texts=self.texts
        )


def size_of(response: InferResponse) -> int:
    """The memory that an entry of this response takes, about."""
    return _OVERHEAD + sum(_size(output) + _OUTPUT_OVERHEAD for output in response.outputs)


def entry_of(response: InferResponse) -> CachedResponse:
    """The entry of a response, copied: its outputs may be views of a whole batch, or of memory that a worker uses again."""
    texts = Texts()
    outputs = [_own(output, texts) for output in response.outputs]
    size = _OVERHEAD + sum(output.packed.nbytes if type(output) is PackedStrings else output.array.nbytes for output in outputs)  # fmt: skip
    size += _OUTPUT_OVERHEAD * len(outputs)
    return CachedResponse(outputs, dict(response.parameters), size, texts)


def _size(output: Tensor) -> int:
    if type(output) is PackedStrings:
        return output.packed.nbytes
    if output.datatype is datatypes.BYTES:
        return sum(len(element) + 4 for element in output.array.flat)
    return output.array.nbytes


def _own(output: Tensor, texts: Texts) -> Tensor:
    if type(output) is PackedStrings or output.datatype is datatypes.BYTES:
        # Strings are kept as on the wire: objects would take many times the memory.
        packed = output.packed.copy() if type(output) is PackedStrings else pack(output.array)
        packed.flags.writeable = False
        return packed_strings(output.name, output.shape, packed)
    array = output.array.copy()
    array.flags.writeable = False
    return KeptTensor(output.name, output.datatype, output.shape, array, None, texts)


def to_bytes(entry: CachedResponse) -> bytes:
    """An entry for another process.

    Raises:
        TypeError: a parameter has no JSON.
    """
    described: list[tuple[str, str, tuple[int, ...], int]] = []
    parts: list[bytes] = []
    for output in entry.outputs:
        part = output.packed.tobytes() if type(output) is PackedStrings else output.array.tobytes()
        described.append((output.name, output.datatype.name, output.shape, len(part)))
        parts.append(part)
    header = json.dumps([described, entry.parameters], separators=(",", ":")).encode()
    return b"".join((_HEAD.pack(_MAGIC, len(header)), header, *parts))


def from_bytes(data: bytes) -> CachedResponse:
    """The reverse of `to_bytes`, without a copy.

    Raises:
        ValueError: these are not the bytes of an entry.
    """
    try:
        magic, length = _HEAD.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError("it does not begin as an entry")
        at = _HEAD.size + length
        described, parameters = json.loads(data[_HEAD.size : at])
        outputs: list[Tensor] = []
        for name, kind, dims, size in described:
            outputs.append(_read(data, name, datatypes.BY_NAME[kind], tuple(dims), at, size))
            at += size
    except (struct.error, KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if at != len(data):
        raise ValueError(f"it has {len(data)} bytes, expected {at}")
    return CachedResponse(outputs, typing.cast("Parameters", parameters), len(data), Texts())


def _read(  # noqa: PLR0917 - one line of the header, and where its bytes are
    data: bytes, name: str, datatype: datatypes.DataType, shape: tuple[int, ...], at: int, size: int
) -> Tensor:
    count = 1
    for length in shape:
        count *= length
    if datatype is datatypes.BYTES:
        packed = np.frombuffer(data, np.uint8, size, at) if size else np.empty(0, np.uint8)
        check_packed(packed, count)
        return packed_strings(name, shape, packed)
    if size != count * datatype.size:
        raise ValueError(f"output '{name}' has {size} bytes for the shape {list(shape)}")
    array = np.frombuffer(data, datatype.dtype, count, at) if size else np.empty(0, datatype.dtype)
    return Tensor(name, datatype, shape, array.reshape(shape))
