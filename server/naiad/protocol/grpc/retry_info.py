"""When a gRPC client may retry: a google.rpc.RetryInfo in the trailing metadata of UNAVAILABLE.

`grpc-status-details-bin` carries a google.rpc.Status, with the call's own code and message and any details. These messages are small and
fixed, and are written here by hand: the package that defines them (googleapis-common-protos) is needed for nothing else.
"""

from naiad.protocol.grpc.call import RpcStatus
from naiad.protocol.grpc.codec.response_proto import varint
from naiad.protocol.status import RETRY_AFTER_S

KEY = "grpc-status-details-bin"

_UNAVAILABLE = 14
_MAX_MESSAGE_BYTES = 1024
"""UTF-8 bytes. The message is in the headers twice then, and clients take 8 KiB of headers by default."""

_TYPE_URL = b"type.googleapis.com/google.rpc.RetryInfo"


def details(refused: RpcStatus) -> tuple[tuple[str, bytes], ...]:
    """The trailing metadata of a call that ends with this status; empty for every status except UNAVAILABLE."""
    if refused.status != _UNAVAILABLE:
        return ()
    message = refused.message.encode()
    if len(message) > _MAX_MESSAGE_BYTES:
        return ()
    status = b"\x08%c" % refused.status + _field(2, message) + _RETRY_DETAIL
    return ((KEY, status),)


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field of a protobuf message."""
    return bytes((number << 3 | 2,)) + varint(len(content)) + content


_DELAY = _field(1, b"\x08%c" % RETRY_AFTER_S)
"""RetryInfo.retry_delay, a Duration in whole seconds."""

_RETRY_DETAIL = _field(3, _field(1, _TYPE_URL) + _field(2, _DELAY))
"""Status.details, one Any."""
