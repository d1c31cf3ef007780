"""Every reading and writing of messages by hand gives what protobuf's own classes give, on messages as other encoders may write them.

A request is written field by field: in any order, with fields that protobuf does not know, with singular fields that come twice (the last
one counts), with messages in several parts (they are merged), with numbers packed, not packed, or both, and with lengths in more bytes
than they need.
"""

import struct
import typing

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from naiad.core.datatypes import BOOL, BYTES, FP32, INT64, UINT8, DataType
from naiad.core.messages import service_pb2
from naiad.core.request import LATEST, InferRequest, Parameters
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.protocol.grpc import call
from naiad.protocol.grpc.call import in_one_piece
from naiad.protocol.grpc.codec import response_proto
from naiad.protocol.grpc.codec.request_proto import RequestReader
from naiad.protocol.grpc.codec.request_split import split
from naiad.protocol.grpc.codec.response_proto import (
    encode,
    encode_pieces,
    encode_streamed,
    encode_streamed_error,
)

Request = service_pb2.ModelInferRequest

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


def varint(number: int, extra: int = 0) -> bytes:
    """A number of 64 bits, in `extra` more bytes than it needs."""
    number &= 2**64 - 1
    found = bytearray()
    while number >= 0x80 or extra:
        found.append(number & 0x7F | 0x80)
        number, more = number >> 7, number >= 0x80
        extra -= 0 if more else 1
        extra = max(extra, 0)
    found.append(number)
    return bytes(found)


class Writer:
    """Writes fields, and draws how."""

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.draw

    def chance(self) -> bool:
        """Whether to do what is rare."""
        return self._draw(st.integers(0, 3)) == 0

    def field(self, number: int, payload: bytes) -> bytes:
        """A field with a length."""
        extra = 1 if len(payload) < 128 and self.chance() else 0
        return varint(number << 3 | LENGTH) + varint(len(payload), extra) + payload

    def singular(self, number: int, value: str) -> list[bytes]:
        """A string, perhaps behind values that do not count; an empty one may be left out."""
        found = [self.field(number, stale.encode()) for stale in self._stale()]
        if value or found or self.chance():
            found.append(self.field(number, value.encode()))
        return found

    def _stale(self) -> list[str]:
        return self._draw(st.lists(TEXT, max_size=2)) if self.chance() else []

    def numbers(self, number: int, values: list[bytes], wire: int) -> list[bytes]:
        """A repeated field of numbers, in pieces that are packed or single."""
        found: list[bytes] = []
        while values:
            size = self._draw(st.integers(1, len(values)))
            piece, values = values[:size], values[size:]
            if self.chance():
                found += [varint(number << 3 | wire) + each for each in piece]
            else:
                found.append(self.field(number, b"".join(piece)))
        if self.chance():
            found.append(self.field(number, b""))
        return found

    def unknown(self) -> list[bytes]:
        """Fields of a newer version of the message, or with another type than this one's."""
        if not self.chance():
            return []
        return self._draw(
            st.lists(
                st.sampled_from(
                    [
                        varint(111 << 3 | LENGTH) + b"\x03new",
                        varint(112 << 3 | VARINT) + b"\x96\x01",
                        varint(113 << 3 | FIXED32) + b"1234",
                        varint(114 << 3 | FIXED64) + b"12345678",
                        varint(1 << 3 | FIXED64) + b"12345678",
                    ]
                ),
                max_size=2,
            )
        )

    def message(self, *fields: list[bytes]) -> bytes:
        """Fields in any order, but those of one number in theirs."""
        queues = [list(each) for each in (*fields, self.unknown())]
        order = [at for at, queue in enumerate(queues) for _ in queue]
        if order and not self.chance():
            order = self._draw(st.permutations(order))
        return b"".join(queues[at].pop(0) for at in order)


KINDS: dict[str, tuple[int, str, typing.Any]] = {
    "BOOL": (1, "B", st.booleans()),
    "INT8": (2, "b", st.integers(-128, 127)),
    "INT32": (2, "<i", st.integers(-(2**31), 2**31 - 1)),
    "INT64": (3, "<q", st.integers(-(2**63), 2**63 - 1)),
    "UINT8": (4, "B", st.integers(0, 255)),
    "UINT64": (5, "<Q", st.integers(0, 2**64 - 1)),
    "FP32": (6, "<f", st.floats(width=32, allow_nan=False)),
    "FP64": (7, "<d", st.floats(allow_nan=False)),
    "BYTES": (8, "", st.binary(max_size=5)),
}
"""The field of InferTensorContents, the format of a raw value, and the values of each datatype."""

SHAPES = st.sampled_from([(), (1,), (2,), (0,), (1, 3), (2, 0, 2), (2, 2), (130,)])


def contents(writer: Writer, datatype: str, values: list[typing.Any]) -> list[bytes]:
    """The field contents of an input, perhaps in two parts."""
    number, form, _ = KINDS[datatype]
    half = len(values) // 2 if writer.chance() else len(values)
    found = []
    for part in (values[:half], values[half:]) if half < len(values) else (values,):
        if datatype == "BYTES":
            inner = [writer.field(number, value) for value in part]
        elif datatype in ("FP32", "FP64"):
            wire = FIXED32 if datatype == "FP32" else FIXED64
            inner = writer.numbers(number, [struct.pack(form, value) for value in part], wire)
        else:
            inner = writer.numbers(number, [varint(int(value)) for value in part], VARINT)
        found.append(writer.field(5, writer.message(inner)))
    return found


def raw(datatype: str, values: list[typing.Any]) -> bytes:
    if datatype == "BYTES":
        return b"".join(struct.pack("<I", len(value)) + value for value in values)
    return b"".join(struct.pack(KINDS[datatype][1], value) for value in values)


def parameter(writer: Writer, name: str, value: int | str) -> bytes:
    """An entry of a map; its choice may have been another one first."""
    match value:
        case bool():
            chosen = b"\x08" + varint(value)
        case int():
            chosen = b"\x10" + varint(value)
        case str():
            chosen = writer.field(3, value.encode())
    stale = b"\x10\x05" if writer.chance() else b""
    entry = [[writer.field(1, name.encode())], [writer.field(2, stale + chosen)]]
    return writer.field(4, writer.message(*entry))


class Written(typing.NamedTuple):
    """A request: as it is written, and its values by input."""

    body: bytes
    values: list[list[typing.Any]]


def written(data: st.DataObject) -> Written:
    """A request that is valid, written in some way."""
    writer = Writer(data)
    typed = data.draw(st.booleans())
    inputs, raws, all_values = [], [], []
    for _ in range(data.draw(st.integers(0, 3))):
        datatype, shape = data.draw(st.sampled_from(sorted(KINDS))), data.draw(SHAPES)
        count = int(np.prod(shape))
        values = data.draw(
            st.lists(KINDS[datatype][2], min_size=min(count, 8), max_size=min(count, 8))
        )
        values = (values * count)[:count]
        all_values.append(values)
        parts = [
            writer.singular(1, data.draw(TEXT)),
            writer.singular(2, datatype),
            writer.numbers(3, [varint(size) for size in shape], VARINT),
        ]
        if typed:
            parts.append(contents(writer, datatype, values))
        else:
            raws.append(writer.field(7, raw(datatype, values)))
        inputs.append(writer.field(5, writer.message(*parts)))
    values_of = st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT
    parameters = [
        parameter(writer, name, data.draw(values_of))
        for name in data.draw(st.lists(st.sampled_from(["a", "b", "é"]), max_size=4))
    ]
    parameters += [
        parameter(writer, "triton_enable_empty_final_response", flag)
        for flag in data.draw(st.lists(st.booleans(), max_size=2))
    ]
    body = writer.message(
        writer.singular(1, data.draw(TEXT)),
        writer.singular(2, data.draw(st.sampled_from(["", "1", "007"]))),
        writer.singular(3, data.draw(TEXT)),
        parameters,
        inputs,
        [writer.field(6, writer.message(writer.singular(1, data.draw(TEXT)))) for _ in range(data.draw(st.integers(0, 2)))],
        raws,
    )  # fmt: skip
    return Written(body, all_values)


def check_request(
    found: InferRequest, official: typing.Any, values: list[list[typing.Any]]
) -> None:
    """A decoded request has what protobuf has read, and the values that were written."""
    version = int(official.model_version) if official.model_version else LATEST
    assert (found.model_name, found.model_version, found.id) == (
        official.model_name,
        version,
        official.id,
    )
    assert found.output_names == [each.name for each in official.outputs]
    assert found.parameters == {
        name: getattr(value, value.WhichOneof("parameter_choice"))
        for name, value in official.parameters.items()
        if name != "triton_enable_empty_final_response"
    }
    assert [(each.name, each.datatype.name, list(each.shape)) for each in found.inputs] == [
        (each.name, each.datatype, list(each.shape)) for each in official.inputs
    ]
    assert [each.fault for each in found.inputs] == [None] * len(values)
    assert [each.array.ravel().tolist() for each in found.inputs] == values


@hypothesis.given(data=st.data())
def test_requests_are_what_protobuf_reads(data: st.DataObject) -> None:
    body, values = written(data)
    official = Request.FromString(body)
    flag = official.parameters.get("triton_enable_empty_final_response")
    reader = RequestReader()
    for _ in range(2):  # the second one may find a known head
        incoming = reader.read(body)
        check_request(incoming.request(), official, values)
        assert incoming.empty_final == (flag is not None and flag.bool_param)
    # As protobuf itself writes it, the request is the same one.
    check_request(reader.read(official.SerializeToString()).request(), official, values)


@hypothesis.given(data=st.data())
def test_the_parts_of_a_message_are_those_that_protobuf_reads(data: st.DataObject) -> None:
    body, _ = written(data)
    official = Request.FromString(body)
    parts = split(body)
    if parts is None:  # a field that it does not know
        copy = Request()
        copy.CopyFrom(official)
        copy.DiscardUnknownFields()
        assert copy != official
        return
    rebuilt = Request.FromString(parts.head)
    assert not rebuilt.id
    assert not rebuilt.raw_input_contents
    rebuilt.id = parts.id
    rebuilt.raw_input_contents.extend(body[at : at + size] for at, size in parts.raws)
    assert rebuilt == official


@pytest.mark.parametrize("body", [b"", b"\x0a\x00\x1a\x00", b"\x3a\x00", b"\x32\x00"])
def test_empty_messages_are_what_protobuf_reads(body: bytes) -> None:
    check_request(RequestReader().read(body).request(), Request.FromString(body), [])


OUTPUTS: tuple[tuple[DataType, typing.Any], ...] = (
    (BOOL, st.booleans()),
    (UINT8, st.integers(0, 255)),
    (INT64, st.integers(-(2**63), 2**63 - 1)),
    (FP32, st.floats(width=32)),
    (BYTES, st.binary(max_size=300)),
)


def output(data: st.DataObject) -> Tensor:
    """A tensor with some values."""
    datatype, values_of = data.draw(st.sampled_from(OUTPUTS))
    shape = data.draw(SHAPES)
    count = int(np.prod(shape))
    values = data.draw(st.lists(values_of, min_size=min(count, 4), max_size=min(count, 4)))
    array = np.empty(count, datatype.dtype)
    array[:] = (values * count)[:count]
    return Tensor(data.draw(TEXT), datatype, shape, array.reshape(shape))


def raw_of(tensor: Tensor) -> bytes:
    if tensor.datatype is BYTES:
        return b"".join(struct.pack("<I", len(each)) + each for each in tensor.array.ravel())
    return bytes(tensor.array.tobytes())


@hypothesis.given(
    data=st.data(),
    names=st.tuples(TEXT, st.integers(1, 2**63 - 1), TEXT, TEXT),
    parameters=st.dictionaries(
        TEXT, st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXT, max_size=3
    ),
    final=st.booleans(),
)  # fmt: skip
def test_responses_are_what_protobuf_writes(
    data: st.DataObject, names: tuple[str, int, str, str], parameters: Parameters, *, final: bool
) -> None:
    model, version, request_id, message = names
    outputs = [output(data) for _ in range(data.draw(st.integers(0, 3)))]
    response = InferResponse(model, version, request_id, outputs, parameters, final=final)
    official = service_pb2.ModelInferResponse(
        model_name=model, model_version=str(version), id=request_id
    )
    kinds = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}
    for name, value in parameters.items():
        setattr(official.parameters[name], kinds[type(value)], value)
    for each in outputs:
        official.outputs.add(name=each.name, datatype=each.datatype.name, shape=each.shape)
        official.raw_output_contents.append(raw_of(each))
    assert service_pb2.ModelInferResponse.FromString(encode(response)) == official
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(call, "_PIECE_BYTES", data.draw(st.integers(1, 9)))
        patch.setattr(response_proto, "_JOINED_BYTES", data.draw(st.integers(1, 99)))
        assert in_one_piece(encode_pieces(response)) == encode(response)
    if len(parameters) < 2:
        assert encode(response) == official.SerializeToString()

    official.parameters["triton_final_response"].bool_param = final
    streamed = service_pb2.ModelStreamInferResponse(infer_response=official)
    assert (
        service_pb2.ModelStreamInferResponse.FromString(in_one_piece(encode_streamed(response)))
        == streamed
    )

    refused = service_pb2.ModelStreamInferResponse(error_message=message)
    refused.infer_response.id = request_id
    assert encode_streamed_error(message, request_id) == refused.SerializeToString()
