"""Which GPUs this server may use, numbered as `gpus` in a config numbers them: whole ones, and MIG slices one by one.

CUDA opens one MIG slice per process, and knows it by its UUID only. So where NVML finds slices, CUDA_VISIBLE_DEVICES gets the UUIDs of everything that was
found, unless it is set: a worker is then started with the one of its instance (`backends/visible_devices.py`).
"""

import collections.abc
import logging

import msgspec

from naiad.backends.visible_devices import DEVICES
from naiad.metrics.devices import Gpu, GpuMonitor

_log = logging.getLogger("naiad.serve")


def find_gpus(
    monitor: GpuMonitor,
    least_capability: float,
    environ: collections.abc.MutableMapping[str, str],
) -> tuple[Gpu, ...]:
    """The GPUs that may be used (rows 17.9, 17.18); blocking.

    Args:
        monitor: asks NVML.
        least_capability: older ones are not used.
        environ: the server's variables.
    """
    if environ.get("TRITON_SERVER_CPU_ONLY"):
        return ()
    found = visible(monitor.open(), environ.get(DEVICES))
    if any(gpu.is_slice for gpu in found) and not environ.get(DEVICES):
        environ[DEVICES] = ",".join(gpu.uuid for gpu in found)
        _log.info("found MIG slices: %s=%s", DEVICES, environ[DEVICES])
    for gpu in found:
        if gpu.compute_capability < least_capability:
            _log.warning(
                "GPU %d (%s) is not used: its compute capability %.1f is below %.1f",
                gpu.index, gpu.name, gpu.compute_capability, least_capability,
            )  # fmt: skip
    return tuple(gpu for gpu in found if gpu.compute_capability >= least_capability)


def visible(found: tuple[Gpu, ...], devices: str | None) -> tuple[Gpu, ...]:
    """The GPUs of which CUDA_VISIBLE_DEVICES says UUIDs, numbered in its order. Numbers in it say nothing here: CUDA may count in another order.

    Args:
        found: by NVML.
        devices: the variable; None where it is not set.
    """
    named = [each.strip() for each in (devices or "").split(",") if each.strip()]
    if not named or not all(each.startswith(("GPU-", "MIG-")) for each in named):
        return found
    chosen = [next((gpu for gpu in found if gpu.uuid.startswith(each)), None) for each in named]
    return tuple(
        msgspec.structs.replace(gpu, index=index)
        for index, gpu in enumerate(chosen)
        if gpu is not None
    )
