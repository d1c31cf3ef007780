"""What a message says of a tensor on a CUDA device in place of its values: how another process opens its memory. Limits: standard library, Python 3.8."""

import struct
from typing import NamedTuple

_FORM = struct.Struct("<64s16sQQQQ")

BYTES = _FORM.size
"""The size of a descriptor, which stands in a message as a tensor's bytes do."""


class Descriptor(NamedTuple):
    """A contiguous tensor in an allocation of a process.

    Attributes:
        handle: of the allocation, for `cudaIpcOpenMemHandle`.
        uuid: of the device.
        offset: of the tensor, in bytes from the allocation's base.
        size: bytes of the tensor.
        owner: the server's number of the worker process whose allocation it is; 0 in a message of that process.
        number: what the receiver says when it does not use the tensor any more.
    """

    handle: bytes
    uuid: bytes
    offset: int
    size: int
    owner: int
    number: int

    def packed(self) -> bytes:
        """Its bytes."""
        return _FORM.pack(*self)


def unpacked(data: "bytes | bytearray | memoryview") -> Descriptor:
    """The reverse of `packed`.

    Raises:
        struct.error: another size.
    """
    return Descriptor(*_FORM.unpack(data))
