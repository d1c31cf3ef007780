"""The memory of the GPUs that the server may use, by the numbers that configs use."""

import collections.abc

from naiad.metrics.devices import GpuMonitor


class DeviceMemory:
    """The memory of the GPUs that the server may use, by NVML; every method blocks.

    Args:
        monitor: asks NVML.
        uuids: of the GPUs and MIG slices, by the number that configs use.
    """

    def __init__(self, monitor: GpuMonitor, uuids: collections.abc.Mapping[int, str]) -> None:
        self._monitor = monitor
        self._uuids = uuids

    def used(self, device: int) -> int:
        """Bytes in use, by any process, without what the driver reserves; 0 if that is not known."""
        return self.used_and_total(device)[0]

    def used_and_total(self, device: int) -> tuple[int, int]:
        """Bytes in use and of the whole device; zeros if that is not known."""
        uuid = self._uuids.get(device)
        return (0, 0) if uuid is None else self._monitor.memory(uuid)

    def of_process(self, device: int, pid: int) -> int:
        """Bytes that a process uses; 0 if NVML does not list it, as in a container that has process ids of its own."""
        uuid = self._uuids.get(device)
        return 0 if uuid is None else self._monitor.memory_of_processes(uuid).get(pid, 0)
