"""What the table of loads shows while models are fetched, read and loaded, and afterwards."""

import asyncio
import pathlib
import threading
from typing import Any

import pytest
from typing_extensions import override

from naiad.core.clock import ManualClock
from naiad.errors import InferenceError, internal
from naiad.repository.lifecycle import State
from naiad.repository.loading.progress import KEPT_RESULTS, LoadTable, Phase, enter
from naiad.repository.manager import Repository, VersionState
from naiad.repository.plan import ModelPlan, VersionPlan
from naiad.repository.reading.reader import RepositoryReader
from naiad.repository.requests.coordination import Coordination
from naiad.repository.requests.overrides import Value
from naiad.repository.store import Checkout, OnBytes, no_bytes
from tests.server.repository.stores import FakeStore
from tests.server.repository.world import Config, Progress, Served

Shown = tuple[str, int | None, str]


def shown(table: LoadTable) -> list[Shown]:
    return [(load.name, load.version, load.phase.value) for load in table.snapshot()]


def state(state: State, *, reason: str = "", version: int | None = 1) -> VersionState:
    return VersionState(name="m", version=version, state=state, reason=reason)


def loading() -> tuple[LoadTable, ManualClock, Progress]:
    """A table with one version of `m` that waits for its load."""
    clock, progress = ManualClock(), Progress()
    table = LoadTable(progress, clock=clock)
    table.begin("m").on_bytes(30, 100)
    clock.advance(ns=2_000_000_000)
    table.begin_versions("m", [1])
    return table, clock, progress


def test_a_version_continues_the_time_and_the_bytes_of_its_model_until_it_is_loaded() -> None:
    table, clock, progress = loading()
    (waiting,) = table.snapshot()
    assert (waiting.phase, waiting.bytes_done, waiting.bytes_total) == (Phase.WAITING, 30, 100)
    assert waiting.elapsed_seconds == 2
    clock.advance(ns=1_000_000_000)
    for each in (state(State.LOADING), state(State.READY)):
        table.changed(each)
    assert [each.state for each in progress.seen] == [State.LOADING, State.READY]
    clock.advance(ns=60_000_000_000)
    (loaded,) = table.snapshot()
    assert (loaded.phase, loaded.elapsed_seconds, loaded.is_over) == (Phase.LOADED, 3, True)


def test_a_retry_takes_a_failed_load_up_again() -> None:
    table, clock, _ = loading()
    table.changed(state(State.LOADING))
    table.changed(state(State.UNAVAILABLE, reason="no"))
    (failed,) = table.snapshot()
    assert (failed.phase, failed.reason) == (Phase.FAILED, "no")
    table.changed(state(State.LOADING))
    clock.advance(ns=1_000_000_000)
    (again,) = table.snapshot()
    assert (again.phase, again.reason, again.elapsed_seconds) == (Phase.LOADING, "", 3)


def test_the_unload_of_the_version_that_a_reload_replaced_is_not_the_end_of_the_next_reload() -> (
    None
):
    table, _, _ = loading()
    for each in (State.UNLOADING, State.UNAVAILABLE):
        table.changed(state(each, reason="unloaded" if each is State.UNAVAILABLE else ""))
    assert shown(table) == [("m", 1, "waiting")]


def test_a_config_that_can_be_used_replaces_the_result_of_one_that_could_not() -> None:
    table = LoadTable(Progress(), clock=ManualClock())
    table.begin("m")
    table.changed(state(State.UNAVAILABLE, reason="config.pbtxt:1:1: no", version=None))
    assert shown(table) == [("m", None, "failed")]
    table.begin("m")
    table.begin_versions("m", [2])
    assert shown(table) == [("m", 2, "waiting")]


def test_results_are_bounded_and_come_after_the_loads_in_progress() -> None:
    table = LoadTable(Progress(), clock=ManualClock())
    for number in range(KEPT_RESULTS + 1):
        table.begin(f"m{number}")
        table.changed(
            VersionState(name=f"m{number}", version=None, state=State.UNAVAILABLE, reason="no")
        )
    table.begin("z")
    names = [load.name for load in table.snapshot()]
    assert len(names) == KEPT_RESULTS + 1
    assert names[0] == "z"
    assert "m0" not in names


class World:
    """A repository over a store that fetches half of a model, and then waits for `may_go_on`."""

    def __init__(self) -> None:
        self.half, self.may_go_on = threading.Event(), threading.Event()
        self.while_read: list[Phase] = []
        self.loading, self.may_load = asyncio.Event(), asyncio.Event()
        world = self

        class Slow(FakeStore):
            @override
            def checkout(self, name: str, on_bytes: OnBytes = no_bytes) -> Checkout:
                on_bytes(50, 100)
                world.half.set()
                assert world.may_go_on.wait(60)
                on_bytes(100, 100)
                return super().checkout(name)

        self.repository = Repository[Served](
            reader=RepositoryReader([Slow("/cache", "m")], timeout_seconds=None),
            resolve=self._resolve,
            load=self._load,
            coordination=Coordination(1),
            retry_count=0,
            progress=Progress(),
            clock=ManualClock(),
        )

    def shown(self) -> list[tuple[str, int | None, str, int]]:
        return [
            (load.name, load.version, load.phase.value, load.bytes_done)
            for load in self.repository.load_progress()
        ]

    async def _resolve(self, folder: pathlib.Path, given: Value | None) -> ModelPlan:
        self.while_read = [load.phase for load in self.repository.load_progress()]
        enter(Phase.AGENTS)
        self.while_read += [load.phase for load in self.repository.load_progress()]
        config: Any = Config(folder.name, "")
        plans = [VersionPlan(config=config, version=number, model_dir=folder) for number in (1, 2)]
        return ModelPlan(name=folder.name, versions=tuple(plans))

    async def _load(self, plan: VersionPlan) -> Served:
        self.loading.set()
        await self.may_load.wait()
        if plan.version == 2:
            raise internal("cannot run")
        return Served("", seconds=0)


@pytest.mark.parametrize("at_start", [True, False])
async def test_a_load_shows_its_bytes_while_it_is_fetched_and_its_versions_afterwards(
    *, at_start: bool
) -> None:
    world = World()
    repository = world.repository
    load = asyncio.create_task(repository.load_all() if at_start else repository.load("m"))
    assert await asyncio.to_thread(world.half.wait, 60)
    assert world.shown() == [("m", None, "fetching", 50)]
    world.may_go_on.set()
    await world.loading.wait()
    assert world.while_read == [Phase.READING_CONFIG, Phase.AGENTS]
    assert world.shown() == [("m", 1, "loading", 100), ("m", 2, "waiting", 100)]
    world.may_load.set()
    (result,) = await asyncio.gather(load, return_exceptions=True)
    assert result is False if at_start else isinstance(result, InferenceError)
    assert world.shown() == [("m", 1, "loaded", 100), ("m", 2, "failed", 100)]
    await repository.unload_all()
