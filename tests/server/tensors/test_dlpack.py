"""Inputs go to a framework by DLPack, as a thread of the server has them and as a worker process has them: without a copy, and unwritable ones too."""

import ctypes
import gc
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.core.tensor import Tensor
from naiad.hosts.worker.received_tensors import ReceivedTensor
from naiad.tensors import dlpack
from naiad.tensors.memory import CPU, CUDA, CUDA_HOST, HOST, Memory, memory_of

Make = Any


def in_thread(datatype: DataType, array: Any) -> Any:
    return Tensor("X", datatype, array.shape, array)


def in_worker(datatype: DataType, array: Any) -> Any:
    return ReceivedTensor("X", datatype.name, array)


both_hosts = pytest.mark.parametrize("make", [in_thread, in_worker])

NUMBERS = [
    (datatypes.BOOL, np.array([True, False])),
    (datatypes.UINT8, np.arange(3, dtype=np.uint8)),
    (datatypes.INT64, np.arange(6).reshape(2, 3)),
    (datatypes.FP16, np.ones((1, 4), np.float16)),
    (datatypes.FP32, np.linspace(0, 1, 5, dtype=np.float32)),
    (datatypes.FP64, np.zeros((0, 3))),
]


@both_hosts
@pytest.mark.parametrize(("datatype", "array"), NUMBERS, ids=lambda each: getattr(each, "name", ""))
def test_a_framework_takes_an_input_where_it_lies(
    make: Make, datatype: DataType, array: Any
) -> None:
    array = array.copy()
    array.flags.writeable = False
    tensor = make(datatype, array)
    assert tensor.memory == memory_of(tensor) == HOST
    taken, name = dlpack.take(tensor)
    assert name == datatype.name
    assert taken.tolist() == array.tolist()
    assert taken.size == 0 or taken.ctypes.data == array.ctypes.data
    assert np.from_dlpack(tensor).tolist() == array.tolist()


@both_hosts
def test_bf16_keeps_its_type(make: Make) -> None:
    bits = np.array([0x3F80, 0xC000], np.uint16)
    for array in (bits.view("V2"), bits.view(ml_dtypes.bfloat16)):
        taken, name = dlpack.take(make(datatypes.BF16, array))
        assert (name, taken.tolist()) == ("BF16", bits.tolist())


@both_hosts
def test_strings_are_refused_as_the_protocol_has_it(make: Make) -> None:
    tensor = make(datatypes.BYTES, np.array([b"a"], object))
    with pytest.raises(BufferError, match="does not have support for string tensors"):
        np.from_dlpack(tensor)


@both_hosts
def test_the_memory_lives_as_long_as_the_framework_uses_it(make: Make) -> None:
    array = np.arange(4.0)
    held = weakref.ref(array)
    taken, _ = dlpack.take(make(datatypes.FP64, array))
    del array
    gc.collect()
    assert held() is not None
    assert taken.tolist() == [0, 1, 2, 3]
    del taken
    gc.collect()
    assert held() is None


class _Elsewhere:
    def __init__(self, kind: int, device: int) -> None:
        self._memory = kind, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._memory


@pytest.mark.parametrize(
    ("kind", "device", "memory"),
    [
        (CPU, 0, HOST),
        (CUDA_HOST, 1, HOST),
        (CUDA, 1, Memory("cuda", 1)),
        (10, 0, Memory("other", 0)),
    ],
)
def test_memory_has_a_kind_and_a_device(kind: int, device: int, memory: Memory) -> None:
    assert memory_of(_Elsewhere(kind, device)) == memory


def test_an_object_that_is_not_a_tensor_has_no_memory() -> None:
    with pytest.raises(AttributeError):
        memory_of(ctypes.c_int(1))
