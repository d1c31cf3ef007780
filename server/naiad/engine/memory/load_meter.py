"""Measures what each load takes: worker processes by their own pages, threads by how much the server grows, devices by NVML.

What a load in a thread takes of a device is the growth of what NVML lists for the server's process; where it lists no processes, as in a container that
has process ids of its own, the growth of the whole device, other processes included.

The state belongs to the event loop; what blocks runs in threads.
"""

import collections
import collections.abc
import os
import typing

from naiad.config.model_config import ModelConfig
from naiad.engine.instances.factory import InThread
from naiad.engine.memory.shared_growth import SharedGrowth
from naiad.engine.memory.sizes import HOST, Place, expected, file_bytes, places
from naiad.metrics.device_memory import DeviceMemory
from naiad.metrics.memory import MemoryUsage, process_bytes, resident_bytes
from naiad.metrics.statistics import ModelStatistics
from naiad.repository.plan import VersionPlan


class _Level(typing.NamedTuple):
    """Bytes of a memory that are in use: `all`, and of a device `own`, those of the server's process; 0 if NVML does not list it."""

    all: int
    own: int


_Levels = collections.abc.Mapping[Place, _Level]


class Measurement:
    """One load. Made by `LoadMeter.begin`.

    Args:
        plan: what is loaded.
        statistics: gets the result, and better ones once loads that overlap have ended.
        size: bytes of the files.

    Attributes:
        over: whether the load has ended.
    """

    def __init__(self, plan: VersionPlan, statistics: ModelStatistics, *, size: int) -> None:
        self.size = size
        self.over = False
        self._statistics = statistics
        self._usage: dict[Place, MemoryUsage] = {}
        self._expected = expected(plan.config, size)
        self.devices = _devices(plan.config)

    def assume(self) -> None:
        """It is loaded: until more is known, it takes what its files say."""
        for place, size in self._expected.items():
            self._set(place, size, estimated=True)
        self._publish()

    def measured(self, place: Place, size: int, *, estimated: bool) -> None:
        """It takes so much of a memory."""
        self._set(place, size, estimated=estimated)
        self._publish()

    def _set(self, place: Place, size: int, *, estimated: bool) -> None:
        kind, number = place
        self._usage[place] = MemoryUsage(type=kind, id=number, byte_size=size, estimated=estimated)

    def _publish(self) -> None:
        self._statistics.memory = tuple(
            sorted(usage for usage in self._usage.values() if usage.byte_size)
        )


class LoadMeter:
    """Measures loads.

    Args:
        in_thread: runs what may block.
        devices: the memory of the GPUs.
    """

    def __init__(self, *, in_thread: InThread, devices: DeviceMemory) -> None:
        self._in_thread = in_thread
        self._devices = devices
        self._growth = collections.defaultdict[Place, SharedGrowth[Measurement]](SharedGrowth)
        self._own_growth = collections.defaultdict[Place, SharedGrowth[Measurement]](SharedGrowth)
        """The growth of what the server's process uses of each device."""

    async def begin(self, plan: VersionPlan, statistics: ModelStatistics) -> Measurement:
        """A load begins; `end` or `abandon` follows."""
        size, levels = await self._in_thread(self._before, plan)
        load = Measurement(plan, statistics, size=size)
        for place, level in levels.items():
            self._growth[place].begin(load, weight=load.size, level=level.all)
            self._own_growth[place].begin(load, weight=load.size, level=level.own)
        return load

    def abandon(self, load: Measurement) -> None:
        """The load has failed. What those that overlap it took remains an estimate by their files. Without effect after `end`."""
        if load.over:
            return
        load.over = True
        for place in (HOST, *load.devices):
            self._growth[place].end(load, level=0, failed=True)
            self._own_growth[place].end(load, level=0, failed=True)

    async def end(self, load: Measurement, pids: collections.abc.Collection[int]) -> None:
        """The load has succeeded, in these worker processes or, without any, in the server. If this raises, `abandon` follows."""
        levels, exact = await self._in_thread(self._after, (load, pids))
        load.over = True
        load.assume()
        for place, level in levels.items():
            shares = self._growth[place].end(load, level=level.all, failed=place in exact)
            own = self._own_growth[place].end(load, level=level.own, failed=bool(pids))
            if level.own:
                shares = own
            for other, size in shares.items():
                # Models may have been unloaded while several were loaded: their files are the least that they take.
                least = other.size if len(shares) > 1 else 0
                other.measured(place, max(size, least), estimated=True)
        for place, size in exact.items():
            load.measured(place, size, estimated=False)

    async def measure_again(self, load: Measurement, pids: collections.abc.Collection[int]) -> None:
        """The worker processes of a loaded version are others now. What threads hold stays as it was measured."""
        for place, size in (await self._in_thread(self._of_processes, (load, pids))).items():
            load.measured(place, size, estimated=False)

    def _before(self, plan: VersionPlan) -> tuple[int, _Levels]:
        return file_bytes(plan), self._levels(_devices(plan.config))

    def _after(
        self, measured: tuple[Measurement, collections.abc.Collection[int]]
    ) -> tuple[_Levels, dict[Place, int]]:
        load, _ = measured
        return self._levels(load.devices), self._of_processes(measured)

    def _levels(self, devices: collections.abc.Iterable[Place]) -> _Levels:
        levels = {HOST: _Level(resident_bytes(), own=0)}
        for place in devices:
            _, device = place
            own = self._devices.of_process(device, os.getpid())
            levels[place] = _Level(self._devices.used(device), own)
        return levels

    def _of_processes(
        self, measured: tuple[Measurement, collections.abc.Collection[int]]
    ) -> dict[Place, int]:
        """What the worker processes hold of each memory, as far as that is known."""
        load, pids = measured
        if not pids:
            return {}
        sizes = {HOST: sum(map(process_bytes, pids))}
        for place in load.devices:
            _, device = place
            size = sum(self._devices.of_process(device, pid) for pid in pids)
            if size:
                sizes[place] = size
        return sizes


def _devices(config: ModelConfig) -> list[Place]:
    return [place for place in places(config) if place != HOST]
