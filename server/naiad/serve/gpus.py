"""The GPUs that this server may use, numbered as `gpus` in a config numbers them: whole ones, and MIG slices one by one.

CUDA opens one MIG slice per process, and knows it by its UUID only. So where there are slices, CUDA_VISIBLE_DEVICES is set to the UUIDs of the GPUs that the
server may use, and a worker is started with the one of its instance (`backends/visible_devices.py`).

CUDA numbers GPUs by its guess at which is fastest, unless CUDA_DEVICE_ORDER says otherwise. It is set before any framework is imported, so that
numbers are those of NVML and nvidia-smi in threads of the server and in its workers.
"""

import collections.abc
import logging

import msgspec

from naiad.backends.visible_devices import DEVICES
from naiad.metrics.devices import Gpu, GpuMonitor

_ORDER, _AS_NVML = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"

_log = logging.getLogger("naiad.serve")


def find_gpus(
    monitor: GpuMonitor,
    least_capability: float,
    environ: collections.abc.MutableMapping[str, str],
) -> tuple[Gpu, ...]:
    """The GPUs that may be used (rows 17.9, 17.18), by the server's variables and not below a compute capability; blocking.

    `environ` gets what makes CUDA number them in the same way.
    """
    environ.setdefault(_ORDER, _AS_NVML)
    if environ.get("TRITON_SERVER_CPU_ONLY"):
        return ()
    gpus = visible(monitor.open(), environ.get(DEVICES))
    uuids = ",".join(gpu.uuid for gpu in gpus)
    if any(gpu.is_slice for gpu in gpus) and environ.get(DEVICES) != uuids:
        environ[DEVICES] = uuids
        _log.info("found MIG slices: %s=%s", DEVICES, uuids)
    for gpu in gpus:
        if gpu.compute_capability < least_capability:
            _log.warning(
                "GPU %d (%s) is not used: its compute capability %.1f is below %.1f",
                gpu.index, gpu.name, gpu.compute_capability, least_capability,
            )  # fmt: skip
        else:
            part = ", a slice of it" if gpu.is_slice else ""
            _log.info(
                "GPU %d: %s%s, compute capability %.1f, %s",
                gpu.index, gpu.name, part, gpu.compute_capability, gpu.uuid,
            )  # fmt: skip
    return tuple(gpu for gpu in gpus if gpu.compute_capability >= least_capability)


def visible(gpus: tuple[Gpu, ...], devices: str | None) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES names, numbered in its order; as CUDA does, up to the first name that is unknown. None means every GPU.

    A UUID may be shortened. A number is that of a whole GPU, in NVML's order, and means all of its slices.
    """
    if devices is None:
        return gpus
    chosen: list[Gpu] = []
    for name in devices.split(","):
        named = _named(gpus, name.strip())
        if not named:
            break
        chosen += named
    return tuple(msgspec.structs.replace(gpu, index=index) for index, gpu in enumerate(chosen))


def _named(gpus: tuple[Gpu, ...], name: str) -> list[Gpu]:
    if name.isdecimal():
        return [gpu for gpu in gpus if gpu.board == int(name)]
    if name.startswith(("GPU-", "MIG-")):
        return [gpu for gpu in gpus if gpu.uuid.startswith(name)][:1]
    return []
