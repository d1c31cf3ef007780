"""Responses put together by hand are what protobuf would have written."""

import typing

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from naiad.core.datatypes import BF16, BYTES, FP32, INT64
from naiad.core.messages import service_pb2
from naiad.core.request import Parameters
from naiad.core.response import NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.grpc.codec import response_proto
from naiad.protocol.grpc.codec.response_proto import encode, varint
from tests.server.protocol.grpc.scripted_engine import tensor


def read(response: InferResponse) -> typing.Any:
    return service_pb2.ModelInferResponse.FromString(encode(response))


def strings(*values: bytes) -> Tensor:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return tensor("S", array, BYTES)


def test_values_go_into_raw_output_contents_in_the_order_of_the_outputs() -> None:
    outputs = [
        tensor("X", np.array([[1, 2]], np.int64), INT64),
        tensor("Y", np.zeros((2, 0), np.float32), FP32),
        strings(b"ab", b""),
    ]
    found = read(InferResponse("m", 3, "id", outputs, NO_PARAMETERS))
    assert (found.model_name, found.model_version, found.id) == ("m", "3", "id")
    assert [(io.name, io.datatype, list(io.shape)) for io in found.outputs] == [
        ("X", "INT64", [1, 2]),
        ("Y", "FP32", [2, 0]),
        ("S", "BYTES", [2]),
    ]
    assert list(found.raw_output_contents) == [
        np.array([1, 2], np.int64).tobytes(),
        b"",
        b"\x02\0\0\0ab\0\0\0\0",
    ]
    assert not any(io.HasField("contents") for io in found.outputs)


def test_an_array_that_is_not_contiguous_is_sent_row_major() -> None:
    for size in (3, 300):
        array = np.arange(size * size, dtype=np.float32).reshape(size, size).T
        found = read(InferResponse("m", 1, "", [tensor("X", array, FP32)], NO_PARAMETERS))
        assert found.raw_output_contents[0] == array.tobytes()


@pytest.mark.parametrize("encoded", [response_proto.encode_pieces, response_proto.encode_streamed])
def test_a_response_that_no_message_can_hold_is_an_error(
    encoded: typing.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = [tensor(name, np.zeros(100_000, np.float32), FP32) for name in "XY"]
    response = InferResponse("m", 1, "", outputs, NO_PARAMETERS)
    size = len(encoded(response))
    monkeypatch.setattr(response_proto, "_MOST_BYTES", size)
    assert len(encoded(response)) == size
    monkeypatch.setattr(response_proto, "_MOST_BYTES", size - 1)
    with pytest.raises(InferenceError, match=f"has {size} bytes, and a message of gRPC {size - 1} at most: ask for fewer"):  # fmt: skip
        encoded(response)


def test_large_bfloat16_goes_out_as_its_bytes() -> None:
    array = np.arange(50_000).astype(BF16.dtype)
    found = read(InferResponse("m", 1, "", [tensor("X", array, BF16)], NO_PARAMETERS))
    assert found.raw_output_contents[0] == array.tobytes()


def test_parameters_keep_their_types() -> None:
    given: Parameters = {"b": True, "i": -5, "f": 0.5, "s": "é"}
    found = read(InferResponse("m", 1, "id", [], given)).parameters
    assert found["b"].bool_param is True
    assert found["i"].int64_param == -5
    assert found["f"].double_param == 0.5
    assert found["s"].string_param == "é"


@pytest.mark.parametrize("value", [2**63, "\ud800"])
def test_a_parameter_that_no_message_can_hold_is_an_error_that_names_it(value: int | str) -> None:
    with pytest.raises(InferenceError, match="response parameter 'k' cannot be sent") as caught:
        encode(InferResponse("m", 1, "", [], {"k": value}))
    assert caught.value.code is ErrorCode.INTERNAL


@hypothesis.given(
    name=st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    version=st.integers(1, 2**40),
    request_id=st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    sizes=st.lists(st.integers(0, 20_000), max_size=4),
)
def test_the_bytes_are_those_of_protobuf(
    name: str, version: int, request_id: str, sizes: list[int]
) -> None:
    outputs = [
        tensor(f"{name}{number}", np.arange(size, dtype=np.float32), FP32)
        for number, size in enumerate(sizes)
    ]
    official = service_pb2.ModelInferResponse(
        model_name=name, model_version=str(version), id=request_id
    )
    for output in outputs:
        official.outputs.add(name=output.name, datatype="FP32", shape=output.shape)
        official.raw_output_contents.append(output.array.tobytes())
    response = InferResponse(name, version, request_id, outputs, NO_PARAMETERS)
    assert encode(response) == official.SerializeToString()


def test_lengths_are_written_seven_bits_a_byte() -> None:
    assert varint(0) == b"\0"
    assert varint(127) == b"\x7f"
    assert varint(128) == b"\x80\x01"
    assert varint(16_777_216) == b"\x80\x80\x80\x08"
