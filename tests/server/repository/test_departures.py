"""Versions on their way out, in virtual time."""

import asyncio
import pathlib
from typing import Any

import pytest
from typing_extensions import override

from naiad.repository.departures import Departures
from naiad.repository.lifecycle import Event, State
from naiad.repository.plan import VersionPlan
from naiad.repository.version import Version
from tests.server.repository.world import Config, Memory, Progress, Served

pytestmark = pytest.mark.looptime


class Stubborn(Served):
    """Fails to stop."""

    @override
    async def stop(self) -> None:
        await super().stop()
        raise RuntimeError("no")


def ready(served: Served) -> Version[Served]:
    """A version in service."""
    config: Any = Config("m", "")
    version = Version[Served](plan=VersionPlan(config=config, version=1, model_dir=pathlib.Path()))
    version.tell(Event.LOAD)
    version.tell(Event.LOADED)
    version.served = served
    return version


async def test_a_version_that_leaves_is_found_no_more_and_goes_when_it_has_finished() -> None:
    served, progress = Served("one", seconds=2), Progress()
    version = ready(served)
    departures = Departures[Served](progress=progress, memory=None)
    tasks = departures.retire([version])
    assert (version.served, version.state) == (None, State.UNLOADING)
    assert departures.leaving() == [served]
    await asyncio.wait(tasks)
    assert served.stopped
    assert departures.leaving() == []
    assert [each.state for each in progress.seen] == [State.UNLOADING, State.UNAVAILABLE]
    assert version.told().resident is None


async def test_one_that_fails_to_stop_is_gone_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    version = ready(Stubborn("one", seconds=0))
    departures = Departures[Served](progress=Progress(), memory=None)
    (task,) = departures.retire([version])
    await task
    assert (version.state, version.reason) == (State.UNAVAILABLE, "unloaded")
    assert "unloading m version 1 failed" in caplog.text


async def test_all_gone_waits_for_everybody() -> None:
    slow, quick = Served("slow", seconds=5), Served("quick", seconds=1)
    departures = Departures[Served](progress=Progress(), memory=None)
    await departures.all_gone()
    departures.retire([ready(slow), ready(quick)])
    await departures.all_gone()
    assert (slow.stopped, quick.stopped) == (True, True)
    assert asyncio.get_running_loop().time() >= 5


async def test_what_is_freed_is_said_until_nobody_asks_any_more() -> None:
    made = [Served("one", seconds=0), Served("two", seconds=0)]
    memory = Memory(made)
    departures = Departures[Served](progress=Progress(), memory=memory)
    first, second = (ready(each) for each in made)
    await asyncio.wait(departures.retire([first]))
    assert first.told().resident == (200, 100)
    departures.skip_memory()
    await asyncio.wait(departures.retire([second]))
    assert second.told().resident is None
    assert (memory.expected, memory.given_back) == (1, 1)


async def test_the_garbage_collector_runs_only_for_a_version_that_leaves_cycles() -> None:
    made = [Served("one", seconds=0), Served("cycles", seconds=0), Served("two", seconds=0)]
    memory = Memory(made)
    departures = Departures[Served](progress=Progress(), memory=memory)
    for each, collected in zip(made, (0, 1, 1), strict=True):
        await asyncio.wait(departures.retire([ready(each)]))
        assert memory.collected == collected
    assert memory.given_back == 3
