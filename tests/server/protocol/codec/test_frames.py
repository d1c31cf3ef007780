import typing

import numpy as np
import pytest

from naiad.core import datatypes
from naiad.core.datatypes import BYTES, FP32
from naiad.core.request import InferRequest, RequestedOutput
from naiad.core.tensor import PackedStrings, Tensor, pack, packed_strings
from naiad.protocol.codec import frames
from tests.server.hosts.process.workers import open_descriptors


def there_and_back(value: typing.Any) -> typing.Any:
    return frames.read(frames.write(value))


def test_a_request_comes_back_as_it_was() -> None:
    x = Tensor("x", FP32, (2, 2), np.arange(4, dtype=np.float32).reshape(2, 2))
    request = InferRequest(
        "m", 3, "id", [x], [RequestedOutput("y", 3)], {"a": 1, "b": "text"}, 2, 5, "s", 1
    )
    back = there_and_back(request)
    for field in InferRequest.__struct_fields__:
        if field != "inputs":
            assert getattr(back, field) == getattr(request, field)
    (tensor,) = back.inputs
    assert (tensor.name, tensor.datatype, tensor.shape) == ("x", FP32, (2, 2))
    assert tensor.array.tolist() == x.array.tolist()
    assert tensor.array.flags.writeable


@pytest.mark.parametrize(
    "datatype", [datatype for datatype in datatypes.ALL if datatype is not BYTES]
)
@pytest.mark.parametrize("shape", [(), (0, 3), (3,), (2, 2)])
def test_every_datatype_and_shape(datatype: datatypes.DataType, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, datatype.dtype)
    back = there_and_back(Tensor("x", datatype, shape, array))
    assert back.datatype is datatype
    assert back.array.dtype == datatype.dtype
    assert back.array.shape == shape
    assert back.array.tolist() == array.tolist()


def test_a_view_that_is_not_contiguous_comes_back_row_by_row() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3).T
    assert (
        there_and_back(Tensor("x", datatypes.INT32, (3, 2), array)).array.tolist() == array.tolist()
    )


@pytest.mark.parametrize("count", [0, 2, 20_000])
def test_strings_come_back_packed_when_they_are_many(count: int) -> None:
    array = np.full(count, b"ab", object)
    back = there_and_back(Tensor("x", BYTES, (count, 1), array.reshape(count, 1)))
    assert (type(back) is PackedStrings) == (count > 2)
    assert back.array.shape == (count, 1)
    assert set(back.array.flat) <= {b"ab"}


def test_packed_strings_stay_packed() -> None:
    packed = pack(np.array([b"", b"a"], object))
    back = there_and_back(packed_strings("x", (2,), packed))
    assert back.packed.tobytes() == packed.tobytes()
    assert back.array.tolist() == [b"", b"a"]


def test_a_faulty_tensor_keeps_its_fault() -> None:
    back = there_and_back(Tensor("x", FP32, (2,), np.empty(0, np.uint8), "too short"))
    assert (back.fault, back.shape) == ("too short", (2,))


def test_large_bytes_are_a_view_on_the_other_side() -> None:
    first, second = there_and_back([frames.large(b"abc"), frames.large(memoryview(b"")[:0])])
    assert (bytes(first), bytes(second)) == (b"abc", b"")


def test_the_large_values_of_a_mapping_are_views_on_the_other_side() -> None:
    values: dict[str, str | bytes] = {
        "config": "\u00e9" * 70_000,
        "file:a": b"x" * 70_000,
        "file:b": b"y",
        "text": "t",
    }
    back = there_and_back(frames.large_values(values))
    assert {name: type(value) for name, value in back.items()} == {
        "config": memoryview,
        "file:a": memoryview,
        "file:b": bytes,
        "text": str,
    }
    assert bytes(back["config"]).decode() == values["config"]
    assert bytes(back["file:a"]) == values["file:a"]


def test_no_descriptor_is_left_when_a_value_cannot_be_written() -> None:
    before = open_descriptors()
    with pytest.raises(Exception, match="pickle"):
        frames.write(lambda: None)
    assert open_descriptors() == before
