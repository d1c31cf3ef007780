"""CUDA's runtime library as the server calls it, against a library whose devices are memfds: values, other processes, errors."""

import collections.abc
import subprocess
import sys

import numpy as np
import pytest

from naiad.backends import device_errors
from naiad.tensors import cudart, dlpack
from naiad.tensors.device_array import DeviceArray
from tests.support import cuda

READ = """
import sys
import numpy as np
from naiad.tensors import cudart
cuda, handle = cudart.load(), bytes.fromhex(sys.argv[1])
base = cuda.ipc_open(handle, 0)
found = np.empty(4, np.int32)
cuda.to_host(found.ctypes.data, base + 16, found.nbytes, 0)
print(found.tolist(), cuda.uuid(0).hex())
cuda.ipc_close(base, 0)
"""


@pytest.fixture
def state() -> collections.abc.Iterator[cuda.State]:
    with cuda.in_this_process() as found:
        yield found
        found.fail("", 0)
        assert found.live(cuda.REGISTERED) == []


def test_another_process_reads_what_lies_inside_an_allocation(state: cuda.State) -> None:
    runtime = cudart.load()
    base = runtime.allocate(64, 0)
    array = np.arange(4, dtype=np.int32)
    runtime.to_device(base + 16, array.ctypes.data, array.nbytes, 0)
    assert runtime.allocation_of(base + 16, 0) == (base, 64)
    handle = runtime.ipc_handle(base, 0)
    assert len(handle) == cudart.HANDLE_BYTES
    run = subprocess.run(
        [sys.executable, "-c", READ, handle.hex()],
        env={"PYTHONPATH": ":".join(sys.path), **state.environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split("] ") == ["[0, 1, 2, 3", runtime.uuid(0).hex() + "\n"]
    runtime.free(base, 0)
    assert state.live(cuda.OPENED) == []


def test_an_error_has_its_number_and_its_name_and_does_not_stay(state: cuda.State) -> None:
    state.fail("cudaMalloc", 2)
    with pytest.raises(
        cudart.CudaError, match=r"cudaMalloc: CUDA error 2 \(cudaErrorMemoryAllocation\): out of"
    ) as raised:
        cudart.load().allocate(8, 0)
    assert raised.value.status == 2
    assert device_errors.out_of_memory(raised.value)
    state.fail("cudaDeviceSynchronize", 700)
    with pytest.raises(cudart.CudaError) as raised:
        cudart.load().synchronize(0)
    lost = device_errors.unrecoverable(raised.value)
    assert lost is not None
    assert lost.certain
    assert lost.code == 700


def test_the_current_device_stays_as_it_was(state: cuda.State) -> None:
    runtime = cudart.load()
    on_second = runtime.allocate(8, 1)
    assert runtime.current() == 0
    assert runtime.uuid(0) != runtime.uuid(1)
    runtime.free(on_second, 1)
    with pytest.raises(cudart.CudaError, match="cudaSetDevice: CUDA error 101"):
        runtime.allocate(8, 7)
    assert runtime.current() == 0


def test_memory_of_the_host_is_pinned_once(state: cuda.State) -> None:
    runtime, array = cudart.load(), np.zeros(4096, np.uint8)
    runtime.register(array.ctypes.data, array.nbytes)
    assert state.live(cuda.REGISTERED) == [4096]
    with pytest.raises(cudart.CudaError) as raised:
        runtime.register(array.ctypes.data, array.nbytes)
    assert raised.value.status == cudart.ALREADY_REGISTERED
    runtime.unregister(array.ctypes.data)


def test_a_tensor_on_a_device_keeps_its_memory_and_its_shape(state: cuda.State) -> None:
    address = cudart.load().allocate(24, 1)
    freed: list[int] = []

    class Owner:
        def __del__(self) -> None:
            cudart.load().free(address, 1)
            freed.append(address)

    capsule = dlpack.export_device(address, (2, 3), "FP32", device=1, owner=Owner())
    with pytest.raises(BufferError, match="on GPU device"):
        dlpack.take(capsule)
    taken = dlpack.take_any(capsule)
    assert isinstance(taken, DeviceArray)
    assert (taken.address, taken.shape, taken.datatype) == (address, (2, 3), "FP32")
    assert (taken.nbytes, tuple(taken.memory)) == (24, ("cuda", 1))
    again = dlpack.take_any(taken)
    del capsule, taken
    assert freed == []
    del again
    assert freed == [address]


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cudart.LIBRARY, "/none/libcudart.so")
    load = cudart.load.__wrapped__
    with pytest.raises(cudart.NoCudaError, match=r"/none/libcudart.so.*NAIAD_CUDART"):
        load()
