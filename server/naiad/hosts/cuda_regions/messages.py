"""The messages between the server and the process that opens clients' memory on GPUs. They travel on a `Link`, as notifications.

| message | header | payload |
|---|---|---|
| OPEN | `Part` | |
| READ | `Part` | |
| WRITE | `Part` | the bytes |
| COPY | `Part`, then the descriptor of a worker's tensor | |
| CLOSE | `Part` | |
| OWNER_ENDED | 8 bytes: the number of a worker process | |
| DONE | of OPEN: 8 bytes, the number of the device, then its UUID | of READ: the bytes |
| FAILED | the error, as `codec.write_failure` | |
| ENDS | the same; the process ends, because it cannot use its device any more | |

One message is sent at a time, and each is answered.
"""

import struct
import typing

OPEN, READ, WRITE, COPY, CLOSE, OWNER_ENDED = 64, 65, 66, 67, 68, 75
DONE, FAILED, ENDS = 80, 81, 82

NUMBER = struct.Struct("<Q")

_PART = struct.Struct("<64sQQQ")


class Part(typing.NamedTuple):
    """A part of an allocation.

    Attributes:
        handle: of the allocation, for `cudaIpcOpenMemHandle`.
        device: the number of the device, as the client wrote it; the allocation is looked for on all of them.
        offset: in bytes.
        size: bytes.
    """

    handle: bytes
    device: int
    offset: int
    size: int

    def packed(self) -> bytes:
        """Its bytes."""
        return _PART.pack(*self)


def part(header: bytes | bytearray) -> tuple[Part, bytes]:
    """The reverse of `packed`, and what follows it.

    Raises:
        struct.error: that is not a part.
    """
    return Part(*_PART.unpack_from(header)), bytes(header[_PART.size :])
