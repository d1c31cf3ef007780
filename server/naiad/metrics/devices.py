"""System metrics: CPU and memory from /proc, GPUs by NVML where there are any (rows 8.27, 8.28).

They are measured every `--metrics-interval-ms` away from the event loop, since an NVML call may take milliseconds; the metrics page shows the last
values. A machine without an NVIDIA driver has no GPUs, which is not an error. UUIDs are NVML's. `GpuMonitor.open` lists MIG slices one by one; the values
of `nv_gpu_*` are those of whole GPUs, and `slices` measures slices.
"""

import asyncio
import collections.abc
import contextlib
import ctypes
import logging
import pathlib
from typing import Any

import msgspec

from naiad.metrics import families
from naiad.metrics.exposition import Sample, Series
from naiad.metrics.families import Family
from naiad.metrics.slices import Slice, SliceMeter

log = logging.getLogger("naiad.metrics")

_DRIVER = "libnvidia-ml.so.1"
_MEMORY_INFO = "nvmlDeviceGetMemoryInfo"
_ENERGY = "nvmlDeviceGetTotalEnergyConsumption"
_MILLI = 1_000
_PERCENT = 100
_KIB = 1024
_MEMORY = ("MemTotal", "MemAvailable")

_GPU_FAMILIES: tuple[tuple[Family, str, collections.abc.Callable[[Any], float]], ...] = (
    (families.GPU_UTILIZATION, "nvmlDeviceGetUtilizationRates", lambda rates: rates.gpu / _PERCENT),
    (families.GPU_MEMORY_TOTAL, _MEMORY_INFO, lambda memory: int(memory.total)),
    (families.GPU_MEMORY_USED, _MEMORY_INFO, lambda memory: int(memory.used)),
    (families.GPU_POWER_USAGE, "nvmlDeviceGetPowerUsage", lambda milliwatts: milliwatts / _MILLI),
    (families.GPU_POWER_LIMIT, "nvmlDeviceGetPowerManagementLimit", lambda milliwatts: milliwatts / _MILLI),
    (families.GPU_ENERGY, _ENERGY, lambda millijoules: millijoules / _MILLI),
)  # fmt: skip
"""Each GPU family, the NVML function of its values, and what a value is of the function's result."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU of this machine, or a MIG slice of one.

    Attributes:
        index: its number in configs, from 0, with each slice in the place of the GPU that it is a part of.
        board: NVML's number of the whole GPU.
        uuid: `GPU-…` or `MIG-…`, as CUDA_VISIBLE_DEVICES takes them.
        compute_capability: "9.0" as a number.
    """

    index: int
    board: int
    uuid: str
    name: str
    compute_capability: float
    is_slice: bool = False


class GpuMonitor:
    """Reads GPUs through NVML, which may be called by several threads; all methods block, `open` comes before the others."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: list[Any] = []
        self._by_uuid: dict[str, Any] = {}
        """Whole GPUs and slices."""
        self._energy_at_start: list[float] = []
        """In millijoules."""
        self._slice_meter: SliceMeter | None = None

    def open(self) -> tuple[Gpu, ...]:
        """Find the GPUs; an empty result without a driver or without nvidia-ml-py."""
        try:
            ctypes.CDLL(_DRIVER)  # without it the import below would cost 50 ms without a result
            import pynvml  # noqa: PLC0415 - only where there may be GPUs

            pynvml.nvmlInit()
        except Exception as error:  # noqa: BLE001 - NVMLError is only known once the import worked
            log.debug("no GPUs: %s", error)
            return ()
        self._nvml = pynvml
        self._handles = [
            pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
        ]
        self._energy_at_start = [self._ask(_ENERGY, handle) or 0 for handle in self._handles]
        gpus: list[Gpu] = []
        measured: list[Slice] = []
        for board, handle in enumerate(self._handles):
            slices = self._slices(handle)
            major, minor = self._ask("nvmlDeviceGetCudaComputeCapability", handle) or (0, 0)
            devices = [handle] if slices is None else slices
            gpus += (
                Gpu(
                    index=index,
                    board=board,
                    uuid=_text(self._ask("nvmlDeviceGetUUID", device)),
                    name=_text(self._ask("nvmlDeviceGetName", device)),
                    compute_capability=major + minor / 10,
                    is_slice=slices is not None,
                )
                for index, device in enumerate(devices, len(gpus))
            )
            new = gpus[len(gpus) - len(devices) :]
            self._by_uuid.update(zip((gpu.uuid for gpu in new), devices, strict=True))
            card = _text(self._ask("nvmlDeviceGetUUID", handle))
            measured += (
                Slice(uuid=gpu.uuid, name=gpu.name, card=card, handle=device, card_handle=handle)
                for gpu, device in zip(new, devices, strict=True)
                if gpu.is_slice
            )
        self._slice_meter = SliceMeter(pynvml, tuple(measured), memory=self.memory)
        return tuple(gpus)

    def series(self) -> list[Series]:
        """The GPU families now, with the label gpu_uuid, and those of slices; values that a GPU does not report are left out."""
        uuids = [_text(self._ask("nvmlDeviceGetUUID", handle)) for handle in self._handles]
        series: list[Series] = []
        for family, function, value_of in _GPU_FAMILIES:
            ask = self._memory_info if function == _MEMORY_INFO else self._ask
            results = [ask(function, handle) for handle in self._handles]
            if function == _ENERGY:
                results = [
                    None if energy is None else energy - at_start
                    for energy, at_start in zip(results, self._energy_at_start, strict=True)
                ]
            samples = tuple(
                Sample((("gpu_uuid", uuid),), value_of(result))
                for uuid, result in zip(uuids, results, strict=True)
                if result is not None
            )
            series.append(Series(family, samples))
        return series if self._slice_meter is None else series + self._slice_meter.series()

    def memory(self, uuid: str) -> tuple[int, int]:
        """Bytes in use and in all of a GPU or MIG slice, without what the driver reserves; zeros if that is not known."""
        handle = self._by_uuid.get(uuid)
        info = None if handle is None else self._memory_info(_MEMORY_INFO, handle)
        return (0, 0) if info is None else (int(info.used), int(info.total))

    def memory_of_processes(self, uuid: str) -> dict[int, int]:
        """Bytes that each process uses of a GPU or MIG slice, by process id, as far as the driver lists them."""
        processes = self._ask_device("nvmlDeviceGetComputeRunningProcesses", uuid) or ()
        return {process.pid: int(process.usedGpuMemory or 0) for process in processes}

    def close(self) -> None:
        """Close NVML."""
        if self._nvml is not None:
            with contextlib.suppress(Exception):
                if self._slice_meter is not None:
                    self._slice_meter.close()
                self._nvml.nvmlShutdown()
            self._nvml = self._slice_meter = None
            self._handles = []
            self._by_uuid = {}
            self._energy_at_start = []

    def _ask_device(self, function: str, uuid: str) -> Any:
        """Make one NVML call about a GPU or slice; None if it does not support that, or NVML is closed."""
        handle = self._by_uuid.get(uuid)
        return None if handle is None or self._nvml is None else self._ask(function, handle)

    def _memory_info(self, function: str, handle: Any) -> Any:
        """The memory of a GPU or slice; None if NVML does not say it.

        Version 2 counts what the driver reserves (600 MB of a large card) apart, as nvidia-smi does. Old drivers have version 1, which counts it as used.
        """
        if self._nvml is None:
            return None
        version = getattr(self._nvml, "nvmlMemory_v2", None)
        info = None if version is None else self._ask(function, handle, version)
        return self._ask(function, handle) if info is None else info

    def _slices(self, handle: Any) -> list[Any] | None:
        """The MIG slices of a GPU, an empty list before it is partitioned; None for a GPU that is not in MIG mode: CUDA uses all of it."""
        mode = self._ask("nvmlDeviceGetMigMode", handle)
        if mode is None or mode[0] != self._nvml.NVML_DEVICE_MIG_ENABLE:
            return None
        max_slices = self._ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0
        slices = [
            self._ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
            for index in range(max_slices)
        ]
        return [device for device in slices if device is not None]

    def _ask(self, function: str, handle: Any, *more: Any) -> Any:
        """Make one NVML call; None if this device does not support it (a MIG slice, an old card)."""
        try:
            return getattr(self._nvml, function)(handle, *more)
        except self._nvml.NVMLError as error:
            log.debug("%s: %s", function, error)
            return None


class ProcessorMeter:
    """CPU and memory with psutil's definitions, without its import, which would be a twentieth of the time of a start."""

    def __init__(self, proc: pathlib.Path = pathlib.Path("/proc")) -> None:
        self._stat = proc / "stat"
        self._meminfo = proc / "meminfo"
        self._before: tuple[int, int] | None = None

    def series(self) -> list[Series]:
        """CPU and memory now; utilisation since the last call, 0 the first time (row 8.28). Blocking, in one thread at a time."""
        total, available = self._memory()
        return [
            Series(families.CPU_UTILIZATION, (Sample((), self._utilization()),)),
            Series(families.CPU_MEMORY_TOTAL, (Sample((), total),)),
            Series(families.CPU_MEMORY_USED, (Sample((), total - available),)),
        ]

    def _utilization(self) -> float:
        with self._stat.open() as file:
            _, *fields = file.readline().split()
        # user, nice, system, idle, iowait, irq, softirq, steal; the fields behind them, of guests, are included in user and nice.
        ticks = [int(field) for field in fields[:8]]
        idle, total = sum(ticks[3:5]), sum(ticks)
        before, self._before = self._before, (idle, total)
        if before is None or total <= before[1]:
            return 0.0
        return min(1.0, max(0.0, 1 - (idle - before[0]) / (total - before[1])))

    def _memory(self) -> tuple[int, int]:
        """Total and available memory in bytes."""
        sizes: dict[str, int] = {}
        with self._meminfo.open() as file:
            for line in file:
                name, _, amount = line.partition(":")
                if name in _MEMORY:
                    sizes[name] = int(amount.split()[0]) * _KIB
                    if len(sizes) == len(_MEMORY):
                        break
        total, available = (sizes[name] for name in _MEMORY)
        return total, available


class SystemMetrics:
    """The system metrics, measured in the background by one timer, one measurement at a time: with a slow driver the values are older."""

    def __init__(self, *, gpus: GpuMonitor | None, cpu: bool, interval_seconds: float) -> None:
        self._gpus = gpus
        self._cpu = ProcessorMeter() if cpu else None
        self._interval = interval_seconds
        self._series: collections.abc.Sequence[Series] = ()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Measure once, then go on in the background."""
        if self._cpu is not None or self._gpus is not None:
            self._series = await asyncio.to_thread(self._measure)
            self._task = asyncio.get_running_loop().create_task(self._run())

    def series(self) -> collections.abc.Sequence[Series]:
        """The last values."""
        return self._series

    async def stop(self) -> None:
        """Measure no more. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                self._series = await asyncio.to_thread(self._measure)
            except OSError as error:  # no descriptor is free, most likely
                log.warning(
                    "measuring the machine failed (%s); the metrics page shows older values", error
                )
            except Exception:
                log.exception("measuring the machine failed; the metrics page shows older values")

    def _measure(self) -> list[Series]:
        series = [] if self._cpu is None else self._cpu.series()
        if self._gpus is not None:
            series += self._gpus.series()
        return series


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")
