"""When a gRPC client may retry: a google.rpc.RetryInfo in the trailing metadata of UNAVAILABLE.

`grpc-status-details-bin` carries a google.rpc.Status, with the call's own code and message and any details. These messages are small and
fixed, and are written here by hand: the package that defines them (googleapis-common-protos) is needed for nothing else.
"""

from naiad.protocol.grpc.call import RpcStatus
from naiad.protocol.status import RETRY_AFTER_S

KEY = "grpc-status-details-bin"

UNAVAILABLE = 14
_MAX_MESSAGE_BYTES = 1024
"""UTF-8 bytes. The message is in the headers twice then, and clients take 8 KiB of headers by default."""

_TYPE_URL = b"type.googleapis.com/google.rpc.RetryInfo"


def details(refused: RpcStatus) -> tuple[tuple[str, bytes], ...]:
    """The trailing metadata of a call that ends with this status; empty for every status except UNAVAILABLE."""
    if refused.status != UNAVAILABLE:
        return ()
    message = refused.message.encode()
    if len(message) > _MAX_MESSAGE_BYTES:
        return ()
    status = b"\x08%c" % refused.status + _field(2, message) + _RETRY_DETAIL
    return ((KEY, status),)


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field of a protobuf message; `content` is shorter than 16 KiB."""
    size = len(content)
    length = bytes((size,)) if size < 0x80 else bytes((size & 0x7F | 0x80, size >> 7))  # noqa: PLR2004 - seven bits in a byte
    return bytes((number << 3 | 2,)) + length + content


_DELAY = _field(1, b"\x08%c" % RETRY_AFTER_S)
"""RetryInfo.retry_delay, a Duration in whole seconds."""

_RETRY_DETAIL = _field(3, _field(1, _TYPE_URL) + _field(2, _DELAY))
"""Status.details, one Any."""
