import numpy as np
import pytest

from naiad.backends import batch as batches
from naiad.backends.batch import OutputRule
from naiad.core import datatypes
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError
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
