"""A call and its result on their way between the server and a codec process: a memory file each, tensors beside a pickled head.

Tensors and large bytes are written from where they lie, by system calls that let the interpreter go, and are views of the file on
the other side. Pickle is for the two sides of one program: nothing that a client sends is ever unpickled.
"""

import collections.abc
import io
import os
import pickle
import struct
import typing

import numpy as np

from naiad.core.datatypes import BY_NAME, BYTES
from naiad.core.tensor import PackedStrings, Tensor, octets, pack, packed_strings
from naiad.tensors.mapping import Mapping

_TAIL = struct.Struct("<QQ")
"""What ends a file: the bytes of the pickled head, and of the sizes of the parts."""

_ALIGNED = 64
_PACKED_BYTES = 1 << 16
"""Elements of BYTES with more bytes travel packed, and stay so."""

_LARGE_VALUE = 1 << 16
"""Bytes, or characters, of a value that travels beside the head."""

Function = collections.abc.Callable[..., typing.Any]
Elements = np.ndarray[typing.Any, np.dtype[typing.Any]]


def large(data: bytes | memoryview) -> pickle.PickleBuffer:
    """Bytes that are to travel beside the head; a view of uint8 is what comes out at the other side."""
    return pickle.PickleBuffer(data)


def on_bytes(function: Function, *pieces: memoryview) -> typing.Any:
    """Call a function of bytes with a body whose pieces were sent as `large`."""
    return function(b"".join(pieces))


def large_values(values: collections.abc.Mapping[str, str | bytes]) -> dict[str, typing.Any]:
    """A mapping whose large values travel beside the head: text as UTF-8, and each is a view of uint8 at the other side."""
    return {name: _beside(value) for name, value in values.items()}


def write(value: typing.Any) -> int:
    """A new memory file that holds a value; its descriptor is the caller's.

    Raises:
        OSError: no memory or no descriptor is left.
    """
    buffers: list[pickle.PickleBuffer] = []
    head = io.BytesIO()
    pickler = pickle.Pickler(head, 5, buffer_callback=buffers.append)
    pickler.dispatch_table = {Tensor: _reduced, PackedStrings: _reduced}
    pickler.dump(value)
    parts = [buffer.raw() for buffer in buffers]
    descriptor = os.memfd_create("naiad-codec", os.MFD_CLOEXEC)
    try:
        for part in parts:
            _write_all(descriptor, part)
            _write_all(descriptor, memoryview(bytes(-part.nbytes % _ALIGNED)))
        sizes = struct.pack(f"<{len(parts)}Q", *[part.nbytes for part in parts])
        rest = b"".join((sizes, head.getbuffer(), _TAIL.pack(head.tell(), len(sizes))))
        _write_all(descriptor, memoryview(rest))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read(descriptor: int) -> typing.Any:
    """The value that a memory file holds; closes the descriptor. The value's tensors keep the memory."""
    try:
        memory = memoryview(Mapping(descriptor, 0))
    finally:
        os.close(descriptor)
    head_size, sizes_size = _TAIL.unpack_from(memory, len(memory) - _TAIL.size)
    head_at = len(memory) - _TAIL.size - head_size
    sizes = struct.unpack(f"<{sizes_size // 8}Q", memory[head_at - sizes_size : head_at])
    parts: list[memoryview] = []
    at = 0
    for size in sizes:
        parts.append(memory[at : at + size])
        at += size + -size % _ALIGNED
    return pickle.loads(memory[head_at : head_at + head_size], buffers=parts)  # noqa: S301 - our own process wrote it


def _beside(value: str | bytes) -> str | bytes | pickle.PickleBuffer:
    if len(value) < _LARGE_VALUE:
        return value
    return large(value.encode() if isinstance(value, str) else value)


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _reduced(tensor: Tensor) -> tuple[typing.Any, ...]:
    """Puts the elements of a tensor beside the head, whatever their dtype."""
    name, shape = tensor.name, tensor.shape
    if tensor.fault is not None:
        return Tensor, (name, tensor.datatype, shape, np.empty(0, np.uint8), tensor.fault)
    if isinstance(tensor, PackedStrings):
        return _packed, (name, shape, pickle.PickleBuffer(tensor.packed.data))
    if tensor.datatype is not BYTES:
        flat = octets(tensor.array)
        return _numbers, (name, tensor.datatype.name, shape, pickle.PickleBuffer(flat.data))
    elements = pack(tensor.array)
    if elements.nbytes <= _PACKED_BYTES:
        return Tensor, (name, BYTES, shape, tensor.array, None)
    return _packed, (name, shape, pickle.PickleBuffer(elements.data))


def _packed(name: str, shape: tuple[int, ...], part: memoryview) -> Tensor:
    return packed_strings(name, shape, np.frombuffer(part, np.uint8))


def _numbers(name: str, datatype: str, shape: tuple[int, ...], part: memoryview) -> Tensor:
    its_type = BY_NAME[datatype]
    return Tensor(name, its_type, shape, np.ndarray(shape, its_type.dtype, part))
