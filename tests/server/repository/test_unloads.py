"""Versions that are being unloaded, in virtual time."""

import asyncio
import pathlib
import types
from typing import Any

import pytest
from typing_extensions import override

from naiad.config.model_config import InstanceGroup, InstanceKind
from naiad.repository.lifecycle import Event, State
from naiad.repository.model_table import ModelTable
from naiad.repository.plan import VersionPlan
from naiad.repository.reading.reader import LocalCopy
from naiad.repository.store import Checkout
from naiad.repository.unloads import Unloads
from naiad.repository.version import Version
from tests.server.repository.world import Config, Memory, Progress, Served

pytestmark = pytest.mark.looptime


class Stubborn(Served):
    """A version that fails to stop."""

    @override
    async def stop(self) -> None:
        await super().stop()
        raise RuntimeError("no")


def ready(served: Served) -> Version[Served]:
    """A READY version."""
    config: Any = Config("m", "")
    version = Version[Served](
        plan=VersionPlan(config=config, version=1, model_dir=pathlib.Path()),
        copy=LocalCopy(Checkout(pathlib.Path()), lambda _: None),
    )
    version.apply(Event.LOAD)
    version.apply(Event.LOADED)
    version.served = served
    return version


async def test_a_version_is_out_of_service_at_once_and_unloaded_when_it_has_finished() -> None:
    served, progress = Served("one", seconds=2), Progress()
    version = ready(served)
    unloads = Unloads[Served](table=ModelTable(), progress=progress, memory=None)
    tasks = unloads.start([version])
    assert (version.served, version.state) == (None, State.UNLOADING)
    assert unloads.unloading() == [served]
    await asyncio.wait(tasks)
    assert served.stopped
    assert unloads.unloading() == []
    assert [each.state for each in progress.seen] == [State.UNLOADING, State.UNAVAILABLE]
    assert version.snapshot().resident is None


async def test_a_version_that_fails_to_stop_is_unloaded_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    version = ready(Stubborn("one", seconds=0))
    unloads = Unloads[Served](table=ModelTable(), progress=Progress(), memory=None)
    (task,) = unloads.start([version])
    await task
    assert (version.state, version.reason) == (State.UNAVAILABLE, "unloaded")
    assert "unloading m version 1 failed" in caplog.text


async def test_join_waits_for_every_unload() -> None:
    slow, quick = Served("slow", seconds=5), Served("quick", seconds=1)
    unloads = Unloads[Served](table=ModelTable(), progress=Progress(), memory=None)
    await unloads.join()
    unloads.start([ready(slow), ready(quick)])
    await unloads.join()
    assert (slow.stopped, quick.stopped) == (True, True)
    assert asyncio.get_running_loop().time() >= 5


async def test_freed_memory_is_reported_until_that_is_switched_off() -> None:
    made = [Served("one", seconds=0), Served("two", seconds=0)]
    memory = Memory(made)
    unloads = Unloads[Served](table=ModelTable(), progress=Progress(), memory=memory)
    first, second = (ready(each) for each in made)
    await asyncio.wait(unloads.start([first]))
    assert first.snapshot().resident == (200, 100)
    unloads.skip_memory()
    await asyncio.wait(unloads.start([second]))
    assert second.snapshot().resident is None
    assert (memory.expected, memory.given_back) == (1, 1)


async def test_freed_memory_of_the_gpus_of_a_version_is_reported() -> None:
    made = [Served("one", seconds=0)]
    version = ready(made[0])
    groups = (
        InstanceGroup(name="a", kind=InstanceKind.GPU, count=2, gpus=(3, 1)),
        InstanceGroup(name="b", kind=InstanceKind.GPU, count=1, gpus=(1, 2)),
    )
    config: Any = types.SimpleNamespace(name="m", instance_groups=groups)
    version.plan = VersionPlan(config=config, version=1, model_dir=pathlib.Path())

    def of_gpu(gpu: int) -> int:
        """GPU 2 is not known; loaded, the version takes all of GPU 3."""
        return {1: 50, 2: 0, 3: 0}[gpu] if made[0].stopped else {1: 70, 2: 0, 3: 900}[gpu]

    unloads = Unloads[Served](
        table=ModelTable(), progress=Progress(), memory=Memory(made), gpu_memory=of_gpu
    )
    await asyncio.wait(unloads.start([version]))
    assert version.snapshot().gpu_memory == {1: (70, 50), 3: (900, 0)}


async def test_the_garbage_collector_runs_only_for_a_version_that_leaves_cycles() -> None:
    made = [Served("one", seconds=0), Served("cycles", seconds=0), Served("two", seconds=0)]
    memory = Memory(made)
    unloads = Unloads[Served](table=ModelTable(), progress=Progress(), memory=memory)
    for each, collected in zip(made, (0, 1, 1), strict=True):
        await asyncio.wait(unloads.start([ready(each)]))
        assert memory.collected == collected
    assert memory.given_back == 3
