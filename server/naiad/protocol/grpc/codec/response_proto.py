"""InferResponse to ModelInferResponse bytes (rows 10.14, 10.23). Pure.

The message is joined from parts: what is the same in every response of a model (its name, each output's name, datatype
and shape) is serialised by protobuf once and remembered, and the values go from the arrays into the message in one copy.
"""

import functools
import typing

from naiad.core.datatypes import DataType
from naiad.core.messages import service_pb2
from naiad.core.request import Parameters
from naiad.core.response import InferResponse
from naiad.errors import internal
from naiad.protocol import raw_tensors
from naiad.protocol.grpc.call import LongMessage


def encode(response: InferResponse) -> bytes:
    """ModelInferResponse bytes of a response without an error; values only in raw_output_contents (row 10.14).

    Raises:
        InferenceError: INTERNAL for a parameter of the model that an InferParameter cannot hold (row 10.23).
    """
    return b"".join(_parts(response))


def encode_pieces(response: InferResponse) -> bytes | LongMessage:
    """As `encode`; long values stay where they are.

    Raises:
        InferenceError: as `encode`, and INTERNAL for a response of more bytes than a message may have.
    """
    return _message(_parts(response))


def encode_streamed(response: InferResponse) -> bytes | LongMessage:
    """ModelStreamInferResponse bytes of a response without an error (row 10.29).

    Raises:
        InferenceError: as `encode_pieces`.
    """
    parts = _parts(response)
    parts.append(_FINAL if response.final else _NOT_FINAL)
    parts.insert(0, b"\x12" + varint(sum(map(len, parts))))
    return _message(parts)


def encode_streamed_error(
    message: str, request_id: str, response: InferResponse | None = None
) -> bytes:
    """ModelStreamInferResponse bytes of an error (row 10.27).

    If the model failed, `response` is its response: the error then has the model's name and version, and whether it is the last response.
    """
    inner = service_pb2.ModelInferResponse(id=request_id)
    if response is not None:
        inner.model_name = response.model_name
        inner.model_version = str(response.model_version)
        inner.parameters[FINAL_RESPONSE].bool_param = response.final
    # A message may quote what a client sent, and that may hold lone surrogates, which protobuf refuses.
    text = message.encode("utf-8", "replace").decode()
    return serialized(
        service_pb2.ModelStreamInferResponse(error_message=text, infer_response=inner)
    )


def _message(parts: list[bytes | memoryview]) -> bytes | LongMessage:
    if max(map(len, parts)) <= _JOINED_BYTES:
        return b"".join(parts)
    message = LongMessage(parts)
    if len(message) > _MOST_BYTES:
        raise internal(
            f"the response has {len(message)} bytes, and a message of gRPC {_MOST_BYTES} at most: ask for fewer outputs, send smaller requests, or get "
            "it over HTTP or in shared memory"
        )
    return message


def _parts(response: InferResponse) -> list[bytes | memoryview]:
    """The message's pieces; their lengths are their bytes."""
    outputs = response.outputs
    parts: list[bytes | memoryview] = [_model_part(response.model_name, response.model_version)]
    if response.id:
        request_id = response.id.encode()
        parts.append(b"\x1a" + varint(len(request_id)) + request_id)
    if response.parameters:
        parts.append(_parameters_part(response.parameters))
    for tensor in outputs:
        parts.append(_output_part(tensor.name, tensor.datatype, tensor.shape))  # noqa: PERF401 - a comprehension is a call
    for tensor in outputs:
        values = raw_tensors.write(tensor)
        size = len(values)
        parts += (_SHORT_RAW[size] if size < 0x80 else b"\x32" + varint(size), values)  # noqa: PLR2004 - as in `varint`
    return parts


def serialized(message: typing.Any) -> bytes:
    """The bytes of a protobuf message."""
    return typing.cast("bytes", message.SerializeToString())


def varint(number: int) -> bytes:
    """A length as protobuf writes it."""
    if number < 0x80:  # noqa: PLR2004 - seven bits per byte: the encoding itself
        return _ONE_BYTE[number]
    encoded = bytearray()
    while number >= 0x80:  # noqa: PLR2004 - as above
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_MOST_BYTES = (1 << 32) - 1
"""What the length in front of a message can say."""

_JOINED_BYTES = 65_536
"""Of a part: up to here all are joined."""

_ONE_BYTE = [bytes((number,)) for number in range(0x80)]
_SHORT_RAW = [b"\x32" + length for length in _ONE_BYTE]
"""What stands before raw contents of so many bytes."""


FINAL_RESPONSE = "triton_final_response"
"""The parameter that says of each streamed response whether it is the last one to its request (row 10.29)."""


@functools.lru_cache(maxsize=1024)
def _model_part(name: str, version: int) -> bytes:
    return serialized(service_pb2.ModelInferResponse(model_name=name, model_version=str(version)))


@functools.lru_cache(maxsize=1024)
def _output_part(name: str, datatype: DataType, shape: tuple[int, ...]) -> bytes:
    output = service_pb2.ModelInferResponse.InferOutputTensor(
        name=name, datatype=datatype.name, shape=shape
    )
    return serialized(service_pb2.ModelInferResponse(outputs=[output]))


def _parameters_part(parameters: Parameters) -> bytes:
    message = service_pb2.ModelInferResponse()
    for name, value in parameters.items():
        try:
            field = message.parameters[name]
            match value:
                case bool():
                    field.bool_param = value
                case int():
                    field.int64_param = value
                case float():
                    field.double_param = value
                case str():
                    field.string_param = value
        except ValueError:  # out of 64 bits, or a string with half of a surrogate pair
            raise internal(
                f"the model's response parameter '{name}' cannot be sent: its value has to fit 64 bits or be valid Unicode"
            ) from None
    return serialized(message)


_FINAL, _NOT_FINAL = (_parameters_part({FINAL_RESPONSE: final}) for final in (True, False))
