"""Inputs that are on the device are copied there from where they are, and outputs that the next model takes there stay, in memory of their own."""

import ctypes
import pathlib
from typing import Any

import numpy as np
import pytest

from naiad.backends.tensorrt.execution.copy_plan import FromDevice, FromHost, copies_of
from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.errors import InferenceError
from naiad.tensors import dlpack
from naiad.tensors.device_array import DeviceArray
from naiad.tensors.memory import CUDA, Memory
from tests.server.backends.configs import tensor
from tests.server.backends.tensorrt.models import Model
from tests.support.made_up_gpu import plans

TWO = """max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: 4 } output { name: "Y" data_type: TYPE_FP32 dims: 4 }
"""
ANY, ALL = -1, None


@pytest.mark.parametrize(
    ("rows", "there", "copies"),
    [
        ((2, 1, 3), (False, False, False), [FromHost(0, 3, 0, 6)]),
        ((2, 1, 3), (True, True, True), [FromDevice(0, 0), FromDevice(1, 2), FromDevice(2, 3)]),
        (
            (2, 1, 3, 1),
            (False, True, False, False),
            [FromHost(0, 1, 0, 2), FromDevice(1, 2), FromHost(2, 4, 3, 4)],
        ),
    ],
)
def test_rows_of_the_host_are_copied_in_as_few_pieces_as_possible(
    rows: tuple[int, ...], there: tuple[bool, ...], copies: list[Any]
) -> None:
    assert copies_of(rows, there) == copies


class OnDevice:
    """An input on the made-up device; its values cannot be read as an array."""

    memory = Memory("cuda", 0)

    def __init__(self, cuda: Any, name: str, values: Any, datatype: DataType) -> None:
        array = np.array(values, datatype.dtype)
        self.name = name
        self.shape = array.shape
        self._datatype = datatype
        self._cuda = cuda
        self.address = cuda.allocate(max(1, array.nbytes))
        ctypes.memmove(self.address, array.tobytes(), array.nbytes)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0

    def __dlpack__(self, *, stream: Any = None, **_newer: Any) -> Any:
        return dlpack.export_device(
            self.address, self.shape, self._datatype.name, device=0, owner=self
        )

    def free(self) -> None:
        self._cuda.free(self.address)


class Call:
    """A request as a worker process has it."""

    cancelled = False

    def __init__(self, *inputs: Any, on_device: Any = None, rows: int | None = None) -> None:
        self.request = self
        self.inputs = inputs
        self.on_device = on_device
        self.requested_outputs: list[str] = []
        self.output_names: list[str] = []
        self.batch_size = inputs[0].shape[0] if rows is None else rows


def outputs(instance: Any, *calls: Call) -> list[dict[str, Any]]:
    execution = instance.instance.execute(calls)
    return [
        {name: values for name, _, values in response.outputs} for response in execution.responses
    ]


def read(values: Any) -> Any:
    """The values of an output on the made-up device, which is memory of this process."""
    assert isinstance(values, DeviceArray)
    raw = ctypes.string_at(values.address, values.nbytes)
    return np.frombuffer(raw, datatypes.BY_NAME[values.datatype].dtype).reshape(values.shape)


def rows(count: int, start: float = 0) -> Any:
    return np.arange(start, start + 4 * count, dtype=np.float32).reshape(count, 4)


def test_inputs_on_the_device_share_a_batch_with_those_of_the_host(
    tmp_path: pathlib.Path, cuda: Any
) -> None:
    with Model(tmp_path, plans.doubling(), TWO) as model:
        given = [rows(1), rows(2, 50), rows(1, 90), rows(3, 200)]
        placed = OnDevice(cuda, "X", given[1], datatypes.FP32)
        last = OnDevice(cuda, "X", given[3], datatypes.FP32)
        inputs = [tensor("X", given[0]), placed, tensor("X", given[2]), last]
        del cuda.log[:]
        found = outputs(model.instances[0], *map(Call, inputs))
        for each, values in zip(found, given, strict=True):
            assert each["Y"].tolist() == (values * 2).tolist()
        copies = [size for what, size in cuda.log if what == "copy"]
        assert copies == [16, 32, 16, 48, 7 * 16], "each part of the input, and the output at once"
        placed.free()
        last.free()
    assert (cuda.allocated, cuda.open) == (0, 0)


def test_outputs_stay_on_the_device_and_the_next_batch_leaves_them_alone(
    tmp_path: pathlib.Path, cuda: Any
) -> None:
    with Model(tmp_path, plans.doubling(), TWO) as model:
        (instance,) = model.instances
        one, two = outputs(
            instance,
            Call(tensor("X", rows(1)), on_device=(0, ALL)),
            Call(tensor("X", rows(3, 50)), on_device=(ANY, ["Y"])),
        )
        (later,) = outputs(instance, Call(tensor("X", rows(4, 900)), on_device=(0, ALL)))
        assert read(one["Y"]).tolist() == (rows(1) * 2).tolist()
        assert read(two["Y"]).tolist() == (rows(3, 50) * 2).tolist()
        assert read(later["Y"]).tolist() == (rows(4, 900) * 2).tolist()
        assert two["Y"].memory == Memory("cuda", 0)
        held = cuda.allocated
        address = later["Y"].address
        del later
        (again,) = outputs(instance, Call(tensor("X", rows(2)), on_device=(0, ALL)))
        assert again["Y"].address == address, "memory that nothing uses is used again"
        assert cuda.allocated == held
        del one, two, again
    assert (cuda.allocated, cuda.open) == (0, 0)


@pytest.mark.parametrize("on_device", [None, (1, ALL), (0, ["Z"])])
def test_outputs_go_to_the_host_if_a_request_of_the_batch_wants_them_there(
    tmp_path: pathlib.Path, cuda: Any, on_device: Any
) -> None:
    with Model(tmp_path, plans.doubling(), TWO) as model:
        found = outputs(
            model.instances[0],
            Call(tensor("X", rows(1)), on_device=(0, ALL)),
            Call(tensor("X", rows(1)), on_device=on_device),
        )
        assert [each["Y"].tolist() for each in found] == [(rows(1) * 2).tolist()] * 2


def test_rows_that_a_graph_adds_are_not_in_an_output_that_stays(
    tmp_path: pathlib.Path, cuda: Any
) -> None:
    graphs = """optimization { cuda { graphs: true graph_spec { batch_size: 4 input { key: "X" value { dim: 4 } }
graph_lower_bound { batch_size: 3 input { key: "X" value { dim: 4 } } } } } }"""
    with Model(tmp_path, plans.doubling(), TWO + graphs) as model:
        placed = OnDevice(cuda, "X", rows(3), datatypes.FP32)
        (found,) = outputs(model.instances[0], Call(placed, on_device=(0, ALL)))
        assert "launch" in {what for what, _ in cuda.log}
        assert found["Y"].shape == (3, 4)
        assert read(found["Y"]).tolist() == (rows(3) * 2).tolist()
        placed.free()
        del found
    assert cuda.allocated == 0


def test_an_output_whose_shape_follows_from_values_stays_as_well(
    tmp_path: pathlib.Path, cuda: Any
) -> None:
    config = """input { name: "X" data_type: TYPE_FP32 dims: -1 } output { name: "I" data_type: TYPE_INT64 dims: -1 }"""
    with Model(tmp_path, plans.nonzero(), config) as model:
        for given, expected in (([0, 3, 0, 1], [1, 3]), ([0, 0], [])):
            placed = OnDevice(cuda, "X", given, datatypes.FP32)
            (found,) = outputs(model.instances[0], Call(placed, on_device=(0, ALL), rows=1))
            assert found["I"].shape == (len(expected),)
            assert read(found["I"]).tolist() == expected
            placed.free()
            del found
    assert cuda.allocated == 0


def test_a_lack_of_memory_for_an_output_fails_that_batch_alone(
    tmp_path: pathlib.Path, cuda: Any
) -> None:
    with Model(tmp_path, plans.doubling(), TWO) as model:
        (instance,) = model.instances
        cuda.limit = 1 << 20
        with pytest.raises(InferenceError, match="cudaMalloc: CUDA error 2"):
            outputs(instance, Call(tensor("X", rows(2)), on_device=(0, ALL)))
        (found,) = outputs(instance, Call(tensor("X", rows(2, 8))))
        assert found["Y"].tolist() == (rows(2, 8) * 2).tolist()
    assert cuda.allocated == 0
