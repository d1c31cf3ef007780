"""What the CUDA provider stands on: its libraries, and the memory of a device by CUDA's runtime; a made-up one here."""

import pathlib
import sys
from typing import Any

import msgspec
import onnxruntime
import pytest

from naiad.backends.onnxruntime import cuda
from naiad.backends.onnxruntime.batch_sizes import Memory
from naiad.backends.onnxruntime.plan import CUDA, TENSORRT, cache_folders, plan_session
from naiad.config.model_config import Accelerator, InstanceKind, Optimization
from naiad.errors import InferenceError
from tests.server.backends.configs import model_config

CONFIG = model_config(inputs=[], outputs=[])


class Runtime:
    """A CUDA runtime with two devices, of which the thread uses number 1."""

    def __init__(self, **failing: int) -> None:
        self.device = 1
        self.failing = failing

    def cudaGetDevice(self, device: Any) -> int:  # noqa: N802 - CUDA's name
        device._obj.value = self.device
        return self.failing.get("get", 0)

    def cudaSetDevice(self, device: Any) -> int:  # noqa: N802 - CUDA's name
        number = getattr(device, "value", device)
        if number > 1:
            return 101
        self.device = number
        return 0

    def cudaMemGetInfo(self, free: Any, total: Any) -> int:  # noqa: N802 - CUDA's name
        free._obj.value, total._obj.value = [(70, 80), (5, 10)][self.device]
        return self.failing.get("info", 0)


def test_the_memory_of_a_device_is_read_and_the_threads_device_stays() -> None:
    runtime = Runtime()
    assert cuda.memory_by(runtime, 0) == Memory(free=70, total=80)
    assert cuda.memory_by(runtime, 1) == Memory(free=5, total=10)
    assert runtime.device == 1


@pytest.mark.parametrize(
    ("runtime", "device"), [(Runtime(), 2), (Runtime(get=35), 0), (Runtime(info=2), 0)]
)
def test_memory_is_unknown_where_cuda_fails(runtime: Runtime, device: int) -> None:
    assert cuda.memory_by(runtime, device) is None
    assert runtime.device == 1


def test_memory_is_unknown_in_a_build_without_cuda() -> None:
    assert cuda.device_memory(0) is None


@pytest.fixture(name="preloads")
def counted_preloads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []

    def preload_dlls() -> None:
        calls.append(1)
        sys.stdout.write("Failed to load libcublas.so.13\n")

    monkeypatch.setattr(onnxruntime, "preload_dlls", preload_dlls)
    monkeypatch.setattr(cuda, "_preloaded", False)
    return calls


def test_libraries_are_loaded_once_for_gpus_and_nothing_is_printed(
    preloads: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_session(CONFIG, {}, kind=InstanceKind.GPU, device_id=0)
    cuda.preload(plan)
    cuda.preload(plan)
    assert len(preloads) == 1
    assert capsys.readouterr().out == ""


def test_no_library_is_loaded_for_the_cpu(preloads: list[int]) -> None:
    cuda.preload(plan_session(CONFIG, {}, kind=InstanceKind.CPU, device_id=0))
    assert preloads == []


def test_the_library_that_is_missing_is_named_in_the_loaders_words(tmp_path: pathlib.Path) -> None:
    for provider in (CUDA, TENSORRT):
        fault = cuda.library_fault(provider, tmp_path)
        assert "libonnxruntime_providers_shared.so: cannot open shared object file" in fault
    assert cuda.library_fault("CPUExecutionProvider", tmp_path) == ""


@pytest.mark.parametrize(
    ("library", "what"),
    [
        ("libcuda.so.1", "that is NVIDIA's driver"),
        ("libnvinfer.so.10", "that is TensorRT 10, on which onnxruntime "),
        ("libnvinfer.so.10", "and none is installed: pip install 'tensorrt>=10,<11', or remove"),
        ("libcublasLt.so.13", "[server-gpu]' brings them; or use an image"),
        ("libcudnn.so.9", "[server-gpu]' brings them"),
    ],
)
def test_the_advice_depends_on_the_library(library: str, what: str) -> None:
    fault = f"{library}: cannot open shared object file: No such file or directory"
    assert what in cuda.advice(fault)


def test_the_folders_of_tensorrts_caches_are_made_or_the_one_that_cannot_be_is_named(
    tmp_path: pathlib.Path,
) -> None:
    folder = tmp_path / "engines" / "m"
    parameters = {
        "trt_engine_cache_enable": "true",
        "trt_engine_cache_path": str(folder),
        "trt_timing_cache_path": "/timings",
    }
    accelerator = Accelerator(name="tensorrt", parameters=parameters)
    config = msgspec.structs.replace(
        CONFIG, optimization=Optimization(gpu_accelerators=(accelerator,))
    )
    folders = cache_folders(plan_session(config, {}, kind=InstanceKind.GPU, device_id=0))
    assert folders == {str(folder): "trt_engine_cache_path"}, "the cache of timings is off"
    cuda.make_cache_folders(folders, model="m")
    assert folder.is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(InferenceError) as refused:
        cuda.make_cache_folders({str(tmp_path / "file" / "x"): "trt_engine_cache_path"}, model="m")
    assert refused.value.message.startswith(
        f"unable to load model 'm': trt_engine_cache_path '{tmp_path}/file/x' cannot be written to: Not a directory"
    )
