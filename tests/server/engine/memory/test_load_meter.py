"""What loads took, by their worker processes, by the growth of the server, by a made-up NVML."""

import os
import pathlib
import typing

import pytest

from naiad.config.model_config import InstanceGroup, InstanceKind
from naiad.engine.memory import load_meter
from naiad.engine.memory.load_meter import LoadMeter, Measurement
from naiad.metrics.device_memory import DeviceMemory
from naiad.metrics.memory import MemoryUsage
from naiad.metrics.statistics import ModelStatistics
from naiad.repository.plan import VersionPlan

MB = 1_000_000


class Monitor:
    """Devices with so many bytes in use, and the processes that use them."""

    def __init__(self) -> None:
        self.used = {"GPU-a": 0}
        self.processes: dict[int, int] = {}

    def memory(self, uuid: str) -> tuple[int, int]:
        return self.used[uuid], 1000 * MB

    def memory_of_processes(self, uuid: str) -> dict[int, int]:
        return self.processes


class World:
    def __init__(self, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.own = 0
        self.monitor = Monitor()
        monitor: typing.Any = self.monitor
        monkeypatch.setattr(load_meter, "resident_bytes", lambda: self.own)
        self.meter = LoadMeter(
            in_thread=typing.cast(typing.Any, _here), devices=DeviceMemory(monitor, {0: "GPU-a"})
        )

    async def begin(self, name: str, size: int, *gpus: int) -> tuple[Measurement, ModelStatistics]:
        folder = self.root / name / "1"
        folder.mkdir(parents=True)
        with (folder / "model").open("wb") as file:
            file.truncate(size)
        group = InstanceGroup(
            name=name, kind=InstanceKind.GPU if gpus else InstanceKind.CPU, count=1, gpus=gpus
        )
        config: typing.Any = Config(name, (group,))
        plan = VersionPlan(config=config, version=1, model_dir=folder.parent)
        statistics = ModelStatistics()
        return await self.meter.begin(plan, statistics), statistics


class Config(typing.NamedTuple):
    """As much of a ModelConfig as is read."""

    name: str
    instance_groups: tuple[InstanceGroup, ...]


async def _here(work: typing.Callable[[object], object], argument: object) -> object:
    return work(argument)


@pytest.fixture
def world(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def cpu(size: int, *, estimated: bool = True) -> MemoryUsage:
    return MemoryUsage(type="CPU", id=0, byte_size=size, estimated=estimated)


def gpu(size: int, *, estimated: bool = True) -> MemoryUsage:
    return MemoryUsage(type="GPU", id=0, byte_size=size, estimated=estimated)


async def test_a_load_in_a_thread_is_estimated_by_the_growth_of_the_server(world: World) -> None:
    load, statistics = await world.begin("m", 10 * MB)
    world.own = 15 * MB
    await world.meter.end(load, ())
    assert statistics.memory == (cpu(15 * MB),)


async def test_loads_that_overlap_have_their_files_and_then_a_share(world: World) -> None:
    first, of_first = await world.begin("first", 10 * MB)
    second, of_second = await world.begin("second", 30 * MB)
    world.own = 60 * MB
    await world.meter.end(first, ())
    assert of_first.memory == (cpu(12 * MB),)
    world.own = 80 * MB
    await world.meter.end(second, ())
    assert (of_first.memory, of_second.memory) == ((cpu(20 * MB),), (cpu(60 * MB),))


async def test_a_share_is_no_less_than_the_files(world: World) -> None:
    first, of_first = await world.begin("first", 10 * MB)
    second, of_second = await world.begin("second", 30 * MB)
    world.own = 20 * MB
    await world.meter.end(first, ())
    await world.meter.end(second, ())
    assert (of_first.memory, of_second.memory) == ((cpu(10 * MB),), (cpu(30 * MB),))


async def test_an_abandoned_load_leaves_the_others_their_files(world: World) -> None:
    first, of_first = await world.begin("first", 10 * MB)
    second, of_second = await world.begin("second", 10 * MB)
    world.own = 60 * MB
    await world.meter.end(first, ())
    world.meter.abandon(second)
    assert (of_first.memory, of_second.memory) == ((cpu(12 * MB),), ())
    third, of_third = await world.begin("third", 10 * MB)
    world.own = 61 * MB
    await world.meter.end(third, ())
    assert of_third.memory == (cpu(MB),)


async def test_a_worker_process_has_its_own_pages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_meter, "process_bytes", lambda pid: {5: 20 * MB, 6: 30 * MB}[pid])
    load, statistics = await world.begin("m", 10 * MB)
    world.own = 15 * MB
    await world.meter.end(load, {5, 6})
    assert statistics.memory == (cpu(50 * MB, estimated=False),)


async def test_a_load_in_a_process_has_no_share_of_what_the_server_grew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_meter, "process_bytes", lambda _: 20 * MB)
    there, _ = await world.begin("there", 10 * MB)
    here, of_here = await world.begin("here", 10 * MB)
    world.own = 60 * MB
    await world.meter.end(there, {5})
    await world.meter.end(here, ())
    assert of_here.memory == (cpu(60 * MB),)


async def test_a_device_is_estimated_by_its_growth_for_a_thread(world: World) -> None:
    load, statistics = await world.begin("m", 10 * MB, 0)
    world.monitor.used["GPU-a"] = 300 * MB
    world.own = 5 * MB
    await world.meter.end(load, ())
    assert statistics.memory == (cpu(5 * MB), gpu(300 * MB))


async def test_a_device_is_estimated_by_what_the_server_uses_of_it_where_nvml_lists_the_server(
    world: World,
) -> None:
    world.monitor.processes[os.getpid()] = 100 * MB
    world.monitor.used["GPU-a"] = 100 * MB
    load, statistics = await world.begin("m", 10 * MB, 0)
    # A worker of another model, and a process that has nothing to do with the server, take more meanwhile.
    world.monitor.processes |= {os.getpid(): 1_010 * MB, 1: 2_000 * MB}
    world.monitor.used["GPU-a"] = 6_489 * MB
    await world.meter.end(load, ())
    assert statistics.memory == (gpu(910 * MB),)


async def test_the_first_load_in_a_thread_begins_before_nvml_lists_the_server(world: World) -> None:
    load, statistics = await world.begin("m", 10 * MB, 0)
    world.monitor.processes[os.getpid()] = 910 * MB
    world.monitor.used["GPU-a"] = 6_389 * MB
    await world.meter.end(load, ())
    assert statistics.memory == (gpu(910 * MB),)


async def test_loads_in_threads_that_overlap_share_what_the_server_took_and_workers_have_their_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_meter, "process_bytes", lambda _: 20 * MB)
    first, of_first = await world.begin("first", 10 * MB, 0)
    second, of_second = await world.begin("second", 30 * MB, 0)
    there, of_there = await world.begin("there", 10 * MB, 0)
    world.monitor.processes |= {os.getpid(): 400 * MB, 5: 1_000 * MB}
    world.monitor.used["GPU-a"] = 3_000 * MB
    for load, pids in ((first, ()), (there, (5,)), (second, ())):
        await world.meter.end(load, pids)
    assert of_first.memory == (gpu(100 * MB),)
    assert of_second.memory == (gpu(300 * MB),)
    assert of_there.memory == (cpu(20 * MB, estimated=False), gpu(1_000 * MB, estimated=False))


async def test_a_refused_load_takes_no_part_of_what_the_server_took(world: World) -> None:
    refused, of_refused = await world.begin("refused", 10 * MB, 0)
    load, statistics = await world.begin("m", 10 * MB, 0)
    world.meter.abandon(refused)
    world.monitor.processes[os.getpid()] = 300 * MB
    world.monitor.used["GPU-a"] = 1_000 * MB
    await world.meter.end(load, ())
    assert (of_refused.memory, statistics.memory) == ((), (gpu(300 * MB),))


async def test_a_device_is_exact_for_a_worker_that_nvml_lists(world: World) -> None:
    load, statistics = await world.begin("m", 10 * MB, 0)
    world.monitor.used["GPU-a"] = 300 * MB
    world.monitor.processes[os.getpid()] = 200 * MB
    await world.meter.end(load, {os.getpid()})
    host, device = statistics.memory
    assert not host.estimated
    assert device == gpu(200 * MB, estimated=False)


async def test_a_worker_that_nvml_does_not_list_is_estimated_by_the_growth_of_the_device(
    world: World,
) -> None:
    load, statistics = await world.begin("m", 10 * MB, 0)
    world.monitor.used["GPU-a"] = 300 * MB
    await world.meter.end(load, {os.getpid()})
    assert statistics.memory[1] == gpu(300 * MB)


async def test_worker_processes_are_measured_again_when_there_are_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_meter, "process_bytes", lambda _: 20 * MB)
    load, statistics = await world.begin("m", 10 * MB)
    await world.meter.end(load, {5})
    await world.meter.measure_again(load, {5, 6})
    assert statistics.memory == (cpu(40 * MB, estimated=False),)
    await world.meter.measure_again(load, ())
    assert statistics.memory == (cpu(40 * MB, estimated=False),)
