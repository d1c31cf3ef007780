"""Infer requests that are decoded in a codec process: typed values, odd heads, and many strings. Pure.

Raw tensors of numbers need no decoding and stay on the event loop, however large they are.
"""

from naiad.core.datatypes import BYTES
from naiad.core.record import Record
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import UNPACKED, PackedStrings
from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.codec import frames
from naiad.protocol.codec.packed_strings import check
from naiad.protocol.codec.pool import CODEC_BYTES, Codec
from naiad.protocol.codec.request_limits import check_parts, check_text, short
from naiad.protocol.grpc.codec.request_proto import RequestReader
from naiad.protocol.grpc.codec.request_split import split

MAYBE_LARGE = 4 * UNPACKED
"""Bytes of the smallest message that may take long: so many empty strings."""


class LargeRequest(Record, frozen=True):
    """A message that a codec process has decoded.

    Attributes:
        id: of the request; "" if it has none, or if it could not be read.
        model_name: the requested model; "" when it could not be read.
        decoded: None when it was refused.
        error: the code and message of the refusal.
    """

    id: str
    model_name: str
    model_version: int
    empty_final: bool
    decoded: InferRequest | None
    error: tuple[ErrorCode, str] = (ErrorCode.UNKNOWN, "")

    def raise_if_unread(self) -> None:
        """Raise the error of a message of which not even the model could be read."""
        if self.decoded is None and not self.model_name:
            raise InferenceError(*self.error)

    def request(self) -> InferRequest:
        """The request; raises InferenceError if it was refused."""
        if self.decoded is None:
            raise InferenceError(*self.error)
        return self.decoded


def needs_process(body: bytes | memoryview) -> bool:
    """Whether a message is to be decoded in a process: more than raw tensors is large, or protobuf has to parse all of it."""
    if len(body) <= CODEC_BYTES:
        return False
    parts = split(body, longest_field=CODEC_BYTES)
    return parts is None or len(parts.head) > CODEC_BYTES


def decode(codec: Codec, body: bytes | memoryview) -> LargeRequest:
    """Read a message in a codec process; blocking."""
    decoded: LargeRequest = codec.call(_decode, frames.large(body))
    return decoded


def takes_long(response: InferResponse) -> bool:
    """Whether making raw bytes of the outputs would keep the event loop for long."""
    for tensor in response.outputs:  # no generator: every response comes here
        if (
            tensor.datatype is BYTES
            and type(tensor) is not PackedStrings
            and tensor.array.size > UNPACKED
        ):
            return True
    return False


def _decode(view: memoryview) -> LargeRequest:
    body = bytes(view)
    reader = RequestReader()
    try:
        incoming = reader.read(body)
        check_text(incoming.id, incoming.model_name)
    except InferenceError as error:
        request_id = reader.id_of(body)
        if len(request_id) > CODEC_BYTES:
            request_id = ""
        return LargeRequest(request_id, "", 0, False, None, (error.code, short(error)))
    name, version = incoming.model_name, incoming.model_version
    try:
        request = incoming.request()
        check_parts(request)
    except InferenceError as error:
        return LargeRequest(incoming.id, name, version, False, None, (error.code, short(error)))
    return LargeRequest(incoming.id, name, version, incoming.empty_final, check(None, request))
