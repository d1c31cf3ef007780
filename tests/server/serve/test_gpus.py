"""Which GPUs there are, MIG slices included, by an NVML that a test makes up."""

# ruff: noqa: N802 - the names are NVML's

import ctypes
import sys
import types
from typing import Any

import pytest

from naiad.backends.instance import InstanceSpec
from naiad.backends.visible_devices import seen_by
from naiad.config.model_config import InstanceKind
from naiad.metrics.devices import GpuMonitor
from naiad.serve.gpus import find_gpus
from naiad.tensors.numbering import DEVICE

ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


class NvmlError(Exception):
    """As NVML raises it."""


class Nvml(types.ModuleType):
    """Whole GPUs and the slices of each: None where MIG is off, "old" for a card that does not know it."""

    NVMLError = NvmlError
    NVML_DEVICE_MIG_ENABLE = 1

    def __init__(self, *gpus: Any) -> None:
        super().__init__("pynvml")
        self.gpus = gpus
        self.millijoules = 1_000_000

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:
        if self.gpus[handle] == "old":
            raise NvmlError("not supported")
        return [int(self.gpus[handle] is not None), 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: int) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: int, index: int) -> str:
        found: str | None = dict(self.gpus[handle]).get(index)
        if found is None:
            raise NvmlError("not found")
        return found

    def nvmlDeviceGetUUID(self, handle: Any) -> str:
        return f"MIG-{handle}" if isinstance(handle, str) else f"GPU-{handle}"

    def nvmlDeviceGetName(self, handle: Any) -> bytes:
        return b"NVIDIA H200"

    def nvmlDeviceGetCudaComputeCapability(self, handle: Any) -> tuple[int, int]:
        if isinstance(handle, str):
            raise NvmlError("a slice does not know it")
        return 9, 0

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return types.SimpleNamespace(gpu=50)

    nvmlMemory_v2 = 2  # noqa: N815 - NVML's

    def nvmlDeviceGetMemoryInfo(self, handle: Any, version: int | None = None) -> Any:
        if version is None:
            return types.SimpleNamespace(total=10, used=4)
        if self.gpus[handle] == "old":
            raise NvmlError("function not found")
        return types.SimpleNamespace(total=10, reserved=3, used=1)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        raise NvmlError("not supported")

    def nvmlDeviceGetPowerManagementLimit(self, handle: int) -> int:
        return 700_000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        if self.gpus[handle] == "old":
            raise NvmlError("not supported")
        self.millijoules += 1_500
        return self.millijoules


@pytest.fixture(autouse=True)
def _driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_: None)


def found(
    monkeypatch: pytest.MonkeyPatch, nvml: Nvml, environ: dict[str, str]
) -> list[tuple[int, str]]:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    return [(gpu.index, gpu.uuid) for gpu in find_gpus(GpuMonitor(), 6.0, environ)]


def worker_of(device_id: int, environ: dict[str, str]) -> dict[str, str | None]:
    """What a worker process sees, but for the server's number of its device."""
    spec = InstanceSpec(name="m_0", kind=InstanceKind.GPU, device_id=device_id)
    variables = dict(seen_by(spec, model="m", parameters={}, environ=environ).variables)
    assert variables.pop(DEVICE) == str(device_id)
    return variables


def test_each_slice_is_a_device_and_a_worker_gets_its_own_by_uuid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environ: dict[str, str] = {}
    nvml = Nvml([(0, "a"), (2, "b")], None, [(1, "c")])
    devices = [(0, "MIG-a"), (1, "MIG-b"), (2, "GPU-1"), (3, "MIG-c")]
    assert found(monkeypatch, nvml, environ) == devices
    assert environ == {**ORDER, "CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b,GPU-1,MIG-c"}
    for device_id, uuid in devices:
        assert worker_of(device_id, environ) == {"CUDA_VISIBLE_DEVICES": uuid}


@pytest.mark.parametrize("gpus", [(None, None), ("old", None)])
def test_without_mig_nothing_changes(monkeypatch: pytest.MonkeyPatch, gpus: Any) -> None:
    environ: dict[str, str] = {}
    assert found(monkeypatch, Nvml(*gpus), environ) == [(0, "GPU-0"), (1, "GPU-1")]
    assert environ == ORDER
    assert worker_of(1, environ)["CUDA_VISIBLE_DEVICES"] == "1"


def test_a_gpu_in_mig_mode_without_slices_is_not_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    environ: dict[str, str] = {}
    assert found(monkeypatch, Nvml([], None), environ) == [(0, "GPU-1")]


@pytest.mark.parametrize(
    ("variable", "devices"),
    [
        ("MIG-b", [(0, "MIG-b")]),
        ("MIG-c, MIG-a", [(0, "MIG-c"), (1, "MIG-a")]),
        ("0", [(0, "MIG-a"), (1, "MIG-b")]),
        ("1,0", [(0, "MIG-c"), (1, "MIG-a"), (2, "MIG-b")]),
        ("2,GPU-2,0", [(0, "GPU-2"), (1, "GPU-2"), (2, "MIG-a"), (3, "MIG-b")]),
        ("1,GPU-9,0", [(0, "MIG-c")]),
    ],
)
def test_the_devices_that_the_server_sees_are_numbered_in_its_order_and_named_by_uuid(
    monkeypatch: pytest.MonkeyPatch, variable: str, devices: list[tuple[int, str]]
) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": variable}
    nvml = Nvml([(0, "a"), (1, "b")], [(0, "c")], None)
    assert found(monkeypatch, nvml, environ) == devices
    for device_id, uuid in devices:
        assert worker_of(device_id, environ) == {"CUDA_VISIBLE_DEVICES": uuid}


@pytest.mark.parametrize("variable", ["", "-1", "NoDevFiles"])
def test_a_variable_that_hides_every_gpu_leaves_none(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": variable}
    assert found(monkeypatch, Nvml(None, [(0, "a")]), environ) == []
    assert environ == {**ORDER, "CUDA_VISIBLE_DEVICES": variable}


def test_one_of_two_whole_gpus_is_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "1"}
    assert found(monkeypatch, Nvml(None, None), environ) == [(0, "GPU-1")]
    assert worker_of(0, environ) == {"CUDA_VISIBLE_DEVICES": "1"}


def test_a_server_that_shall_use_no_gpu_asks_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, Nvml(None), {"TRITON_SERVER_CPU_ONLY": "1"}) == []


def test_values_of_a_gpu_are_in_base_units_and_those_that_it_does_not_report_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(None, "old"))
    monitor = GpuMonitor()
    monitor.open()
    shown = {
        series.family.name: {sample.labels: sample.value for sample in series.samples}
        for series in monitor.series()
    }
    first, second = (("gpu_uuid", "GPU-0"),), (("gpu_uuid", "GPU-1"),)
    assert shown == {
        "nv_gpu_utilization": {first: 0.5, second: 0.5},
        "nv_gpu_memory_total_bytes": {first: 10, second: 10},
        # An old driver counts what it reserves itself.
        "nv_gpu_memory_used_bytes": {first: 1, second: 4},
        "nv_gpu_power_usage": {},
        "nv_gpu_power_limit": {first: 700, second: 700},
        "nv_energy_consumption": {first: 1.5},
    }


def test_the_memory_that_models_may_use_is_without_that_of_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For `--model-load-gpu-limit` and what loads take."""
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(None, "old"))
    monitor = GpuMonitor()
    monitor.open()
    assert [monitor.memory(uuid) for uuid in ("GPU-0", "GPU-1", "GPU-9")] == [
        (1, 10),
        (4, 10),
        (0, 0),
    ]
    monitor.close()
    assert monitor.memory("GPU-0") == (0, 0)


def test_a_binding_without_version_2_gives_version_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Nvml, "nvmlMemory_v2")
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(None))
    monitor = GpuMonitor()
    monitor.open()
    assert monitor.memory("GPU-0") == (4, 10)


def test_the_log_names_the_gpus(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "naiad.serve")
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(None, [(0, "a")]))
    find_gpus(GpuMonitor(), 6.0, {"CUDA_VISIBLE_DEVICES": "1,0"})
    assert [text for text in caplog.messages if text.startswith("GPU")] == [
        "GPU 0: NVIDIA H200, a slice of it, compute capability 9.0, MIG-a",
        "GPU 1: NVIDIA H200, compute capability 9.0, GPU-0",
    ]


@pytest.mark.parametrize(
    ("environ", "order"),
    [
        ({}, "PCI_BUS_ID"),
        ({"TRITON_SERVER_CPU_ONLY": "1"}, "PCI_BUS_ID"),
        ({"CUDA_VISIBLE_DEVICES": "1"}, "PCI_BUS_ID"),
        ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, "FASTEST_FIRST"),
    ],
)
def test_cuda_numbers_gpus_as_nvml_does_in_the_server_and_its_workers_unless_another_order_is_chosen(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], order: str
) -> None:
    found(monkeypatch, Nvml(None, None), environ)
    assert environ["CUDA_DEVICE_ORDER"] == order
