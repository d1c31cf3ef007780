"""Batches on a made-up TensorRT and a made-up CUDA, whose streams run nothing before the host waits for them."""

import pathlib
from typing import Any

import numpy as np
import pytest

from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.errors import InferenceError
from tests.server.backends.configs import inference, run, tensor, values
from tests.server.backends.tensorrt.models import Model
from tests.support.made_up_gpu import plans

TWO = """max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: 4 } output { name: "Y" data_type: TYPE_FP32 dims: 4 }
"""
SHAPES = """max_batch_size: 8
input { name: "D" data_type: TYPE_FP32 dims: 2 } input { name: "S" data_type: TYPE_INT32 dims: 2 is_shape_tensor: true }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1, -1 ] } output { name: "T" data_type: TYPE_INT64 dims: 2 is_shape_tensor: true }
"""


def rows(count: int, start: float = 0) -> Any:
    return np.arange(start, start + 4 * count, dtype=np.float32).reshape(count, 4)


def test_a_batch_is_gathered_run_and_split(tmp_path: pathlib.Path, cuda: Any) -> None:
    with Model(tmp_path, plans.doubling(), TWO) as model:
        (instance,) = model.instances
        for start in (0, 100):
            one, two = rows(1, start), rows(3, start + 50)
            answers = run(instance, inference(tensor("X", one)), inference(tensor("X", two)))
            assert [values(each)["Y"] for each in answers] == [
                (one * 2).tolist(),
                (two * 2).tolist(),
            ]
        copies = [size for what, size in cuda.log if what == "copy"]
    assert copies == [64, 64] * 2, "one copy of 4 rows in and one out for each batch"
    assert (cuda.allocated, cuda.open) == (0, 0)


def test_shape_tensors_reach_the_model_behind_the_rows_of_the_batch(
    tmp_path: pathlib.Path, cuda: Any
) -> None:
    def asks(count: int) -> Any:
        ones = np.ones((count, 2), np.float32)
        return inference(tensor("D", ones), tensor("S", [4, 6], datatypes.INT32), rows=count)

    with Model(tmp_path, plans.shape_tensors(), SHAPES) as model:
        answers = run(model.instances[0], asks(1), asks(2), asks(1))
        shapes = [
            (answer.outputs[0].array.shape, values(answer)["T"], values(answer)["Y"][0][0][0])
            for answer in answers
        ]
        with pytest.raises(
            InferenceError,
            match="The shape value at index 2 is expected to be in range from 1 to 32, Got: 33",
        ):
            run(
                model.instances[0],
                inference(
                    tensor("D", np.ones((1, 2), np.float32)),
                    tensor("S", [4, 33], datatypes.INT32),
                    rows=1,
                ),
            )
    assert shapes == [
        ((1, 4, 6), [[4, 6]], 4),
        ((2, 4, 6), [[4, 6]] * 2, 4),
        ((1, 4, 6), [[4, 6]], 4),
    ]


def test_an_output_may_have_a_shape_that_follows_from_values(
    tmp_path: pathlib.Path, cuda: Any
) -> None:
    config = """input { name: "X" data_type: TYPE_FP32 dims: -1 } output { name: "I" data_type: TYPE_INT64 dims: -1 }"""
    with Model(tmp_path, plans.nonzero(), config) as model:
        for given, expected in (([0, 3, 0, 1], [1, 3]), ([1] * 16, list(range(16))), ([0, 0], [])):
            (answer,) = run(
                model.instances[0], inference(tensor("X", np.array(given, np.float32)), rows=1)
            )
            assert values(answer)["I"] == expected
    assert cuda.allocated == 0


@pytest.mark.parametrize(
    ("name", "datatype"),
    [
        ("FLOAT", datatypes.FP32),
        ("HALF", datatypes.FP16),
        ("BF16", datatypes.BF16),
        ("INT8", datatypes.INT8),
        ("UINT8", datatypes.UINT8),
        ("INT32", datatypes.INT32),
        ("INT64", datatypes.INT64),
        ("BOOL", datatypes.BOOL),
    ],
)
def test_datatypes(tmp_path: pathlib.Path, cuda: Any, name: str, datatype: DataType) -> None:
    config = TWO.replace("TYPE_FP32", datatype.config_name)
    given = [[1, 0, 3, 2]]
    with Model(tmp_path, plans.doubling(dtype=name), config) as model:
        (answer,) = run(model.instances[0], inference(tensor("X", given, datatype)))
    expected = [[False, True, False, False]] if name == "BOOL" else [[2, 0, 6, 4]]
    assert answer.outputs[0].array.astype(object).tolist() == expected
