"""System metrics: CPU and memory from /proc, GPUs by NVML where there are any (rows 8.27, 8.28).

NVML is read once per interval, in a thread that the caller chooses (a call may take milliseconds); the page shows the last values. A
machine without an NVIDIA driver has no GPUs, which is not an error. UUIDs are NVML's. `open` lists MIG slices one by one; the values are those of whole GPUs,
since NVML measures neither utilisation nor power nor energy of a slice.
"""

import collections.abc
import contextlib
import ctypes
import logging
import pathlib
from typing import Any

import msgspec

from naiad.metrics import families
from naiad.metrics.exposition import Sample, Series

log = logging.getLogger("naiad.metrics")

_DRIVER = "libnvidia-ml.so.1"
_MILLI = 1_000
_PERCENT = 100
_KIB = 1024
_MEMORY = ("MemTotal", "MemAvailable")


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU of this machine, or a MIG slice of one.

    Attributes:
        index: its number in configs, from 0, with each slice in the place of the GPU that it is a part of.
        board: NVML's number of the whole GPU.
        uuid: `GPU-…` or `MIG-…`, as CUDA_VISIBLE_DEVICES takes them.
        name: as nvidia-smi shows it.
        compute_capability: "9.0" as a number.
        is_slice: whether it is a MIG slice.
    """

    index: int
    board: int
    uuid: str
    name: str
    compute_capability: float
    is_slice: bool = False


class GpuReading(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one GPU; None for those that it does not report."""

    uuid: str
    utilization: float | None
    memory_total: int | None
    memory_used: int | None
    power_usage: float | None
    power_limit: float | None
    energy: float | None


class GpuMonitor:
    """Reads GPUs through NVML; all methods block and belong to one thread at a time."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: list[Any] = []
        self._energy_at_start: list[float | None] = []

    def open(self) -> tuple[Gpu, ...]:
        """Find the GPUs; an empty result without a driver or without nvidia-ml-py."""
        try:
            ctypes.CDLL(
                _DRIVER
            )  # the driver's own library; without it the import below would cost 50 ms without a result
            import pynvml  # noqa: PLC0415 - only where there may be GPUs

            pynvml.nvmlInit()
        except (ImportError, OSError) as error:
            log.debug("no GPUs: %s", error)
            return ()
        except Exception as error:  # noqa: BLE001 - NVMLError is only known once the import worked
            log.debug("no GPUs: %s", error)
            return ()
        self._nvml = pynvml
        self._handles = [
            pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
        ]
        self._energy_at_start = [self._energy(handle) for handle in self._handles]
        gpus: list[Gpu] = []
        for board, handle in enumerate(self._handles):
            slices = self._slices(handle)
            for device in [handle] if slices is None else slices:
                is_slice = slices is not None
                gpus.append(self._describe(len(gpus), board, device, is_slice=is_slice))
        return tuple(gpus)

    def read(self) -> tuple[GpuReading, ...]:
        """Read every GPU once."""
        return tuple(
            self._reading(handle, start)
            for handle, start in zip(self._handles, self._energy_at_start, strict=True)
        )

    def close(self) -> None:
        """Close NVML."""
        if self._nvml is not None:
            with contextlib.suppress(Exception):
                self._nvml.nvmlShutdown()
            self._nvml = None
            self._handles = []

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

    def _describe(self, index: int, board: int, handle: Any, *, is_slice: bool) -> Gpu:
        whole = self._handles[board]
        major, minor = self._ask("nvmlDeviceGetCudaComputeCapability", whole) or (0, 0)
        return Gpu(
            index=index,
            board=board,
            uuid=_text(self._ask("nvmlDeviceGetUUID", handle)),
            name=_text(self._ask("nvmlDeviceGetName", handle)),
            compute_capability=major + minor / 10,
            is_slice=is_slice,
        )

    def _reading(self, handle: Any, energy_at_start: float | None) -> GpuReading:
        rates = self._ask("nvmlDeviceGetUtilizationRates", handle)
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        usage = self._ask("nvmlDeviceGetPowerUsage", handle)
        limit = self._ask("nvmlDeviceGetPowerManagementLimit", handle)
        energy = self._energy(handle)
        return GpuReading(
            uuid=_text(self._ask("nvmlDeviceGetUUID", handle)),
            utilization=None if rates is None else rates.gpu / _PERCENT,
            memory_total=None if memory is None else int(memory.total),
            memory_used=None if memory is None else int(memory.used),
            power_usage=None if usage is None else usage / _MILLI,
            power_limit=None if limit is None else limit / _MILLI,
            energy=None if energy is None else energy - (energy_at_start or 0),
        )

    def _energy(self, handle: Any) -> float | None:
        joules = self._ask("nvmlDeviceGetTotalEnergyConsumption", handle)
        return None if joules is None else float(joules) / _MILLI

    def _ask(self, function: str, handle: Any, *more: Any) -> Any:
        """Make one NVML call; None if this device does not support it (a MIG slice, an old card)."""
        try:
            return getattr(self._nvml, function)(handle, *more)
        except self._nvml.NVMLError as error:
            log.debug("%s: %s", function, error)
            return None


class ProcessorMeter:
    """CPU and memory with psutil's definitions, without its import, which would be a twentieth of the time of a start.

    Args:
        proc: the proc file system.
    """

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


def gpu_series(readings: collections.abc.Iterable[GpuReading]) -> list[Series]:
    """The GPU families, with the label gpu_uuid; values that a GPU does not report are left out."""
    readings = tuple(readings)
    columns: tuple[
        tuple[families.Family, collections.abc.Callable[[GpuReading], float | None]], ...
    ] = (
        (families.GPU_UTILIZATION, lambda one: one.utilization),
        (families.GPU_MEMORY_TOTAL, lambda one: one.memory_total),
        (families.GPU_MEMORY_USED, lambda one: one.memory_used),
        (families.GPU_POWER_USAGE, lambda one: one.power_usage),
        (families.GPU_POWER_LIMIT, lambda one: one.power_limit),
        (families.GPU_ENERGY, lambda one: one.energy),
    )
    return [
        Series(
            family,
            tuple(
                Sample((("gpu_uuid", one.uuid),), value)
                for one in readings
                if (value := pick(one)) is not None
            ),
        )
        for family, pick in columns
    ]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")
