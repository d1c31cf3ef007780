"""Bytes of ModelInferRequest messages: read or refused as protobuf itself would, with an empty memory of heads and with a full one.

An input is the serialised message. It is read three times by one reader (the second and third time from its memory of heads) and
held against what protobuf makes of the same bytes.
"""

import typing

from google.protobuf.message import DecodeError

from naiad.core.messages import service_pb2
from naiad.core.request import InferRequest
from naiad.errors import InferenceError
from naiad.protocol.grpc.codec.request_proto import RequestReader
from naiad.protocol.grpc.codec.request_split import split
from tests.fuzz.http_infer import summary, whole

WORDS = (
    "\\x0a", "\\x12", "\\x1a", "\\x22", "\\x2a", "\\x32", "\\x3a", "\\x0a\\x01m", "FP32", "BYTES", "INT8", "sequence_id", "priority", "timeout",
    "triton_enable_empty_final_response", "shared_memory_region", "classification", "\\x18\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x01",
)  # fmt: skip


def seeds() -> list[bytes]:
    """Messages that are right."""
    raw = service_pb2.ModelInferRequest(model_name="m", model_version="1", id="7")
    raw.inputs.add(name="A", datatype="FP32", shape=[1, 2])
    raw.inputs.add(name="B", datatype="BYTES", shape=[1])
    raw.outputs.add(name="C")
    raw.raw_input_contents.extend([bytes(8), b"\1\0\0\0x"])
    raw.parameters["priority"].uint64_param = 1
    raw.parameters["sequence_id"].string_param = "s"
    typed = service_pb2.ModelInferRequest(model_name="m")
    typed.inputs.add(name="A", datatype="INT8", shape=[2]).contents.int_contents.extend([1, -1])
    typed.parameters["triton_enable_empty_final_response"].bool_param = True
    typed.outputs.add(name="C").parameters["classification"].int64_param = 1
    return [each.SerializeToString(deterministic=True) for each in (raw, typed)]


def check(data: bytes) -> None:
    """Raise if the server would fail on this input, or read it otherwise than protobuf."""
    reader = RequestReader()
    first = _read(reader, data)
    for _ in range(2):
        again = _read(reader, data)
        assert _shown(again) == _shown(first), "the memory of heads changes the answer"
    _as_protobuf(data, first)


def _read(reader: RequestReader, data: bytes) -> "InferRequest | InferenceError":
    try:
        incoming = reader.read(data)
        request = incoming.request()
        assert isinstance(incoming.empty_final, bool)
    except InferenceError as error:
        assert error.message  # noqa: PT017 - either outcome is right
        assert isinstance(reader.id_of(data), str)
        return error
    whole(request)
    return request


def _shown(outcome: "InferRequest | InferenceError") -> object:
    return (
        (outcome.code, outcome.message) if isinstance(outcome, InferenceError) else summary(outcome)
    )


def _as_protobuf(data: bytes, outcome: "InferRequest | InferenceError") -> None:
    try:
        message: typing.Any = service_pb2.ModelInferRequest.FromString(data)
    except DecodeError:
        assert isinstance(outcome, InferenceError), "protobuf refuses what we read"
        return
    parts = split(data)
    if parts is not None:
        again = service_pb2.ModelInferRequest.FromString(parts.head)
        again.id = parts.id
        again.raw_input_contents.extend([data[at : at + size] for at, size in parts.raws])
        assert again.SerializeToString(deterministic=True) == message.SerializeToString(
            deterministic=True
        )
    if isinstance(outcome, InferenceError):
        return
    assert (outcome.model_name, outcome.id) == (message.model_name, message.id)
    assert [each.name for each in outcome.inputs] == [each.name for each in message.inputs]
    assert [each.shape for each in outcome.inputs] == [tuple(each.shape) for each in message.inputs]
    assert outcome.output_names == [output.name for output in message.outputs]
    for tensor, raw in zip(outcome.inputs, message.raw_input_contents, strict=False):
        if tensor.fault is None and tensor.array.dtype != object:
            assert tensor.array.tobytes() == raw
