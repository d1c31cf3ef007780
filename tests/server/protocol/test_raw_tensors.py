import math
import struct
import typing

import numpy as np
import pytest
from hypothesis import given, strategies as st

from naiad.core import datatypes
from naiad.core.datatypes import BF16, BYTES, FP32, INT32, DataType
from naiad.core.tensor import UNPACKED, PackedStrings, Tensor
from naiad.protocol import raw_tensors
from naiad.protocol.raw_tensors import InputSpec


def read(body: bytes, datatype: DataType, shape: tuple[int, ...], *, start: int = 0) -> Tensor:
    spec = InputSpec("IN", datatype, shape, math.prod(shape))
    return raw_tensors.read(body, start, len(body) - start, spec, model="m")


def strings(*elements: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(element)) + element for element in elements)


@pytest.mark.parametrize("datatype", [d for d in datatypes.ALL if d is not BYTES])
def test_bytes_become_an_array_of_the_datatype_and_go_out_the_same(datatype: DataType) -> None:
    sent = np.arange(6).astype(datatype.dtype).reshape(2, 3)
    tensor = read(sent.tobytes(), datatype, (2, 3))
    assert tensor.fault is None
    assert tensor.array.dtype == datatype.dtype
    assert (tensor.array == sent).all()
    assert raw_tensors.write(tensor) == sent.tobytes()


def test_an_array_is_a_view_of_the_body_also_where_it_is_not_aligned() -> None:
    body = b"abc" + np.array([1, 2], np.int32).tobytes()
    array = read(body, INT32, (2,), start=3).array
    assert array.tolist() == [1, 2]
    assert not array.flags.owndata
    assert np.shares_memory(array, np.frombuffer(body, np.uint8))


@pytest.mark.parametrize("size", [0, 15, 17, 32])
def test_a_wrong_size_is_a_fault_that_is_reported_later(size: int) -> None:
    tensor = read(bytes(size), FP32, (1, 4))
    assert tensor.fault is not None
    assert (
        f"input byte size mismatch for input 'IN' for model 'm'. Expected 16, got {size}"
        in tensor.fault
    )
    assert tensor.shape == (1, 4)


def test_no_elements_take_no_bytes() -> None:
    assert read(b"", FP32, (0, 4)).array.shape == (0, 4)
    assert read(b"", BYTES, (0,)).array.shape == (0,)


def test_a_shape_that_no_array_can_have_is_a_fault() -> None:
    assert "at most 32 dimensions" in str(read(bytes(4), FP32, (1,) * 33).fault)


def test_strings_are_cut_out_one_by_one_and_go_out_the_same() -> None:
    body = strings(b"a", b"", b"\xff\0", b"long" * 100)
    tensor = read(body, BYTES, (2, 2))
    assert tensor.fault is None
    assert tensor.array.tolist() == [[b"a", b""], [b"\xff\0", b"long" * 100]]
    assert raw_tensors.write(tensor) == body


@pytest.mark.parametrize(
    ("body", "fragment"),
    [
        (strings(b"a"), "expected 2 string elements for inference input 'IN' for model 'm', got 1"),
        (
            strings(b"a", b"b", b"c"),
            "unexpected number of string elements 3 for inference input 'IN'",
        ),
        (strings(b"a") + b"\1\0", "incomplete string length indicator for inference input 'IN'"),
        (strings(b"a") + b"\5\0\0\0xy", "expecting string of length 5 but only 2 bytes available"),
        (b"\xff\xff\xff\xffx", "expecting string of length 4294967295 but only 1 bytes available"),
    ],
)
def test_strings_that_do_not_fill_the_shape_are_a_fault(body: bytes, fragment: str) -> None:
    tensor = read(body, BYTES, (2,))
    assert tensor.fault is not None
    assert fragment in tensor.fault


def test_reading_strings_stops_at_the_first_that_is_too_many() -> None:
    tensor = read(bytes(4_000_000), BYTES, (1,))
    assert "unexpected number of string elements 2" in str(tensor.fault)


def written(array: "np.ndarray[typing.Any, typing.Any]", datatype: DataType) -> bytes | memoryview:
    return raw_tensors.write(Tensor("OUT", datatype, array.shape, array))


@pytest.mark.parametrize("datatype", [FP32, BF16])
def test_a_large_output_goes_out_as_a_view(datatype: DataType) -> None:
    array = np.arange(100_000).astype(datatype.dtype).reshape(10, -1)
    part = written(array, datatype)
    assert isinstance(part, memoryview)
    assert part.tobytes() == array.tobytes()
    assert np.shares_memory(np.frombuffer(part, np.uint8), array.view(np.uint8))


@pytest.mark.parametrize("size", [4, 400])
def test_an_output_that_is_not_contiguous_goes_out_row_by_row(size: int) -> None:
    array = np.arange(size * size, dtype=np.int32).reshape(size, size).T
    assert bytes(written(array, INT32)) == array.tobytes(order="C")


@pytest.mark.parametrize("shape", [(0, 2**63 - 1), (2**62, 0, 2**62)])
@pytest.mark.parametrize("datatype", [FP32, BYTES])
def test_an_empty_tensor_whose_other_dimensions_no_array_can_have_is_a_fault(
    shape: tuple[int, ...], datatype: DataType
) -> None:
    fault = read(b"", datatype, shape).fault
    assert fault is not None
    assert "exceeds the maximum allowed size of a tensor" in fault
    assert "IN" in fault


@pytest.mark.parametrize("count", [10, UNPACKED + 1, 2**40])
def test_few_bytes_for_many_strings_are_a_fault_at_once(count: int) -> None:
    """A short body is not checked again, so it must not stay packed."""
    tensor = read(strings(b"a", b"b"), BYTES, (count,))
    assert tensor.fault is not None
    assert f"expected {count} string elements" in tensor.fault


@given(
    st.lists(st.binary(max_size=6), min_size=17, max_size=40),
    st.integers(-2, 2),
    st.integers(0, 3),
    st.integers(-4, 4),
)
def test_many_strings_stay_packed_and_are_counted_as_if_each_were_cut_out(
    elements: list[bytes], more: int, start: int, cut: int
) -> None:
    body = bytes(start) + strings(*elements)
    size = len(body) - start + min(cut, 0)
    count = len(elements) + more
    tensor = read(body[: start + size], BYTES, (count,), start=start)
    fits = more == 0 and cut >= 0
    if fits:
        assert type(tensor) is PackedStrings
        assert tensor.packed.base is not None
        assert tensor.array.tolist() == elements
        assert not raw_tensors.unchecked([tensor])
    elif size == len(body) - start:
        assert tensor.fault is not None
        assert str(count) in tensor.fault
    elif tensor.fault is None:  # what was cut off is whole elements
        assert tensor.array.tolist() == elements[:count]


@pytest.mark.parametrize("count", [17, 1000])
def test_strings_of_one_length_are_not_walked_through(count: int) -> None:
    body = strings(*[b"%020d" % number for number in range(count)])
    tensor = read(body, BYTES, (count,))
    assert type(tensor) is PackedStrings
    assert raw_tensors.write(tensor) == body
    hostile = body[:-24] + (0xFFFFFFFF).to_bytes(4, "little") + body[-20:]
    tensor = read(hostile, BYTES, (count,))
    assert "incomplete string data" in str(tensor.fault)
