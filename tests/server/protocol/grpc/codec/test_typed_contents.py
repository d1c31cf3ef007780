"""Values that come as protobuf numbers."""

import typing

import numpy as np
import pytest

from naiad.core.datatypes import BY_NAME
from naiad.core.messages import service_pb2
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.grpc.codec import typed_contents
from naiad.protocol.raw_tensors import InputSpec


def read(datatype: str, shape: tuple[int, ...], **lists: typing.Any) -> Tensor:
    spec = InputSpec("A", BY_NAME[datatype], shape, int(np.prod(shape)))
    return typed_contents.read(service_pb2.InferTensorContents(**lists), spec, "m")


@pytest.mark.parametrize(
    ("datatype", "field", "values"),
    [
        ("BOOL", "bool_contents", [True, False]),
        ("INT8", "int_contents", [-128, 127]),
        ("INT16", "int_contents", [-32768, 32767]),
        ("INT32", "int_contents", [-(2**31), 2**31 - 1]),
        ("INT64", "int64_contents", [-(2**63), 2**63 - 1]),
        ("UINT8", "uint_contents", [0, 255]),
        ("UINT16", "uint_contents", [0, 65535]),
        ("UINT32", "uint_contents", [0, 2**32 - 1]),
        ("UINT64", "uint64_contents", [0, 2**64 - 1]),
        ("FP32", "fp32_contents", [0.5, float("inf")]),
        ("FP64", "fp64_contents", [0.1, -1e300]),
        ("BYTES", "bytes_contents", [b"a\0", b""]),
    ],
)
def test_each_datatype_has_its_list(datatype: str, field: str, values: list[typing.Any]) -> None:
    found = read(datatype, (2, 1), **{field: values})
    assert found.fault is None
    assert found.array.dtype == BY_NAME[datatype].dtype
    assert found.array.tolist() == [[values[0]], [values[1]]]


def test_small_integers_keep_their_low_bytes() -> None:
    assert read("INT8", (2,), int_contents=[300, -129]).array.tolist() == [44, 127]
    assert read("UINT16", (1,), uint_contents=[65536 + 5]).array.tolist() == [5]


@pytest.mark.parametrize(
    ("datatype", "field", "values", "message"),
    [
        ("INT32", "fp32_contents", [1.0], "of type 'FP32', expected datatype 'INT32'"),
        ("FP32", "fp64_contents", [1.0], "of type 'FP64', expected datatype 'FP32'"),
        ("INT64", "int_contents", [1], "of type 'INT32', expected datatype 'INT64'"),
        ("BYTES", "int_contents", [1], "BYTES values belong in bytes_contents"),
        ("FP16", "fp32_contents", [1.0], "FP16 values can only be sent in raw_input_contents"),
        ("BF16", "fp32_contents", [1.0], "BF16 values can only be sent in raw_input_contents"),
    ],
)
def test_a_list_of_another_datatype_is_refused(
    datatype: str, field: str, values: list[typing.Any], message: str
) -> None:
    with pytest.raises(InferenceError, match="unexpected explicit tensor data") as caught:
        read(datatype, (1,), **{field: values})
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert message in caught.value.message


def test_two_lists_are_refused() -> None:
    with pytest.raises(InferenceError, match="binary data was already supplied"):
        read("FP32", (1,), fp32_contents=[1], fp64_contents=[1])


def test_a_wrong_number_of_values_is_a_fault() -> None:
    assert "Expected 8, got 4" in str(read("FP32", (2,), fp32_contents=[1]).fault)
    assert "Expected 4, got 0" in str(read("FP32", (1,)).fault)
    assert "expected 2 string elements" in str(read("BYTES", (2,), bytes_contents=[b""]).fault)


def test_no_values_fill_an_empty_tensor() -> None:
    for datatype in ("FP32", "FP16", "BYTES"):
        found = read(datatype, (0, 3))
        assert found.fault is None
        assert found.array.shape == (0, 3)
