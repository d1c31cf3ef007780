"""Entries: copies of what a response holds, and their bytes for another process."""

import numpy as np
import pytest

from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.response_cache.entry import entry_of, from_bytes, size_of, to_bytes
from tests.server.backends.configs import tensor


def response(*outputs: Tensor, **parameters: object) -> InferResponse:
    return InferResponse("m", 3, "mine", list(outputs), parameters)  # type: ignore[arg-type]  # values of parameters


def test_an_entry_has_memory_of_its_own_that_cannot_be_written_to() -> None:
    batch = np.arange(8, dtype=np.float32).reshape(4, 2)
    entry = entry_of(response(Tensor("Y", datatypes.FP32, (1, 2), batch[1:2])))
    batch[:] = 0
    (output,) = entry.outputs
    assert output.array.tolist() == [[2.0, 3.0]]
    assert output.array.base is None
    with pytest.raises(ValueError, match="read-only"):
        output.array[0, 0] = 1


def test_a_hit_has_the_id_of_its_own_request() -> None:
    entry = entry_of(response(tensor("Y", [1.0]), p=1))
    made = entry.response_to(InferRequest("m", 1, "other", [], [], {}), 3)
    assert (made.id, made.model_version, made.parameters, made.final) == ("other", 3, {"p": 1}, True)  # fmt: skip


def test_sizes_count_the_values() -> None:
    large, small = response(tensor("Y", np.zeros(1000, np.float64))), response(tensor("Y", [0.0]))
    assert size_of(large) - size_of(small) == 7992
    assert entry_of(large).size == size_of(large)


@pytest.mark.parametrize("datatype", datatypes.ALL, ids=lambda each: each.name)
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), ()])
def test_bytes_and_back(datatype: DataType, shape: tuple[int, ...]) -> None:
    if datatype is datatypes.BYTES:
        array = np.full(shape, b"x\0\xff", dtype=object)
    else:
        array = np.ones(shape, datatype.dtype)
    entry = entry_of(response(Tensor("Y", datatype, shape, array), tensor("Z", [[7]]), p=True))
    back = from_bytes(to_bytes(entry))
    first, second = back.outputs
    assert (first.name, first.datatype, first.shape) == ("Y", datatype, shape)
    assert first.array.tolist() == array.tolist()
    assert second.array.tolist() == [[7]]
    assert back.parameters == {"p": True}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ncr1",
        b"ncr0" + bytes(20),
        b"ncr1\2\0\0\0[]",
        b"ncr1\xff\0\0\0[]",
        b"ncr1\5\0\0\0{}{}{",
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_bytes(data)


def test_cut_off_and_longer_bytes_are_refused() -> None:
    data = to_bytes(entry_of(response(tensor("Y", [1.0, 2.0]))))
    for wrong in (data[:-1], data + b"x"):
        with pytest.raises(ValueError, match=r"."):
            from_bytes(wrong)
