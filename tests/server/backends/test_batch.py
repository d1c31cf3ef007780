from typing import Any, NamedTuple

import numpy as np
import pytest

from naiad.backends import batch as batches
from naiad.backends.batch import OutputRule
from naiad.core import datatypes
from naiad.core.device_tensor import OnDevice
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.tensors.device_array import DeviceArray
from naiad.tensors.memory import Memory
from tests.server.backends.configs import inference, spec, tensor

X = spec("X", datatypes.FP32, (2,))


def test_one_requests_arrays_are_handed_on_as_they_are() -> None:
    only = tensor("A", [[1, 2]], datatypes.FP32)
    assert batches.merge([[only]])["A"] is only.array


def test_an_array_that_native_code_could_not_read_is_copied() -> None:
    odd = np.frombuffer(b"?" + bytes(8), np.float32, offset=1)
    assert not odd.flags.aligned
    array = batches.merge([[Tensor("A", datatypes.FP32, (2,), odd)]])["A"]
    assert array.flags.aligned
    assert array.tolist() == odd.tolist()


def test_requests_are_joined_in_order_whatever_the_order_of_their_inputs() -> None:
    a, b = tensor("A", [[1]]), tensor("B", [[2]])
    more_a, more_b = tensor("A", [[3], [4]]), tensor("B", [[5], [6]])
    merged = batches.merge([[a, b], [more_b, more_a]])
    assert merged["A"].tolist() == [[1], [3], [4]]
    assert merged["B"].tolist() == [[2], [5], [6]]


def in_segment(*places: tuple[int, int], gap: int = 0, columns: int = 8_192) -> list[list[Tensor]]:
    """Requests whose tensors lie in one memory, each at an offset and with so many rows."""
    memory = np.zeros(1 << 20, np.uint8)
    found = []
    for number, (at, rows) in enumerate(places):
        array: np.ndarray[Any, Any] = np.ndarray((rows, columns), np.float32, memory, at + gap)
        array[...] = number
        found.append([Tensor("A", datatypes.FP32, array.shape, array)])
    return found


ROW = 8_192 * 4


def test_tensors_that_lie_one_behind_the_other_are_one_array_without_a_copy() -> None:
    requests = in_segment((0, 1), (ROW, 2), (3 * ROW, 1), gap=64)
    merged = batches.merge(requests)["A"]
    assert np.shares_memory(merged, requests[0][0].array)
    assert merged.shape == (4, 8_192)
    assert merged[:, 0].tolist() == [0, 1, 1, 2]
    assert merged[:, -1].tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize(
    "places",
    [
        ((0, 1), (ROW + 64, 1)),
        ((ROW, 1), (0, 1)),
        ((0, 1), (2 * ROW, 1), (ROW, 1)),
        ((0, 2), (ROW, 1)),
    ],
    ids=["with a gap", "in another order", "with one between them", "overlapping"],
)
def test_tensors_that_lie_otherwise_are_copied(places: tuple[tuple[int, int], ...]) -> None:
    requests = in_segment(*places)
    expected = np.concatenate([request[0].array for request in requests])
    merged = batches.merge(requests)["A"]
    assert not any(np.shares_memory(merged, request[0].array) for request in requests)
    assert merged.tolist() == expected.tolist()


def test_neighbours_in_different_memories_and_small_ones_are_copied() -> None:
    one, other = in_segment((0, 1)), in_segment((ROW, 1))
    merged = batches.merge([*one, *other])["A"]
    assert not np.shares_memory(merged, one[0][0].array)
    small = in_segment((0, 1), (64, 1), columns=16)
    assert not np.shares_memory(batches.merge(small)["A"], small[0][0].array)


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("count", [1, 3])
def test_rows_go_into_the_memory_that_is_given(count: int, padding: int) -> None:
    requests = in_segment(*[(number * ROW, 1) for number in range(count)])
    out = np.full((count + padding, 8_192), -1, np.float32)
    merged = batches.merge(requests, padding, out={"A": out})["A"]
    assert merged is out
    assert out[:, 0].tolist() == [*range(count), *[count - 1] * padding]


def test_memory_of_another_shape_is_refused() -> None:
    requests = in_segment((0, 1), (ROW, 1))
    with pytest.raises(ValueError, match="shape"):
        batches.merge(requests, out={"A": np.zeros((3, 8_192), np.float32)})


def test_outputs_are_computed_for_the_requests_that_want_them() -> None:
    names = ["X", "Y", "Z"]
    row = tensor("A", [[1]])
    some = [inference(row, outputs=["Z"]), inference(row, outputs=["X"])]
    assert batches.wanted_names(some, names) == ["X", "Z"]
    assert batches.wanted_names([*some, inference(row)], names) is names


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 1), (1, 0, 2), (3,)])
def test_every_request_gets_as_many_rows_as_it_brought(sizes: tuple[int, ...]) -> None:
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    batch = [inference(tensor("A", np.zeros((size, 1)))) for size in sizes]
    parts = batches.split(batch, [(OutputRule(X, batched=True), rows)])
    assert [part[0][2].shape for part in parts] == [(size, 2) for size in sizes]
    assert np.concatenate([part[0][2] for part in parts]).tolist() == rows.tolist()


def test_a_batch_whose_datatype_is_not_the_configs_is_refused() -> None:
    rule = OutputRule(X, batched=True)
    with pytest.raises(InferenceError) as caught:
        rule.check(np.zeros((1, 2), np.int32), rows=1, model="m")
    assert "unexpected datatype int32 of output 'X' for model 'm'" in caught.value.message
    assert (caught.value.code, caught.value.reason) == (ErrorCode.INTERNAL, FailureReason.BACKEND)


def test_a_scalar_cannot_be_split() -> None:
    with pytest.raises(InferenceError, match="got a scalar"):
        OutputRule(X, batched=True).check(np.zeros((), np.float32), rows=1, model="m")


def test_a_shape_that_is_not_the_reshape_is_validated_elsewhere() -> None:
    reshaped = spec("X", datatypes.FP32, (2, 2), reshape=(4,))
    assert batches.client_shape(reshaped, (1, 4), batched=True) == (1, 2, 2)
    assert batches.client_shape(reshaped, (1, 5), batched=True) == (1, 5)
    assert batches.client_shape(reshaped, (4,), batched=False) == (2, 2)


class Taken(NamedTuple):
    """A request as a worker process has it."""

    on_device: Any
    batch_size: int = 1

    @property
    def request(self) -> Any:
        return self


@pytest.mark.parametrize(
    ("wanted", "stays"),
    [
        ([[2, None]], {"A", "B"}),
        ([[-1, None], [2, ["B", "C"]]], {"B"}),
        ([[2, None], [0, None]], set()),
        ([[2, None], None], set()),
        ([OnDevice(2)], set()),
    ],
)
def test_an_output_stays_on_the_gpu_if_all_of_a_batch_take_it_there(
    wanted: list[Any], stays: set[str]
) -> None:
    batch: list[Any] = [Taken(each) for each in wanted]
    assert batches.staying(batch, ["A", "B"], 2) == stays


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1, 3), (4,)])
def test_rows_on_a_gpu_are_not_copied(sizes: tuple[int, ...]) -> None:
    memory, total = Memory("cuda", 0), sum(sizes)
    array = DeviceArray(1000, (total, 3), "FP32", itemsize=4, memory=memory, owner=None)
    batch: list[Any] = [Taken(None, size) for size in sizes]
    parts = batches.rows_of(batch, array)
    assert [part.shape for part in parts] == [(size, 3) for size in sizes]
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    assert [part.address for part in parts] == [1000 + 12 * start for start in starts]
    assert [part.nbytes for part in parts] == [12 * size for size in sizes]
