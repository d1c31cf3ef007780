"""Loads of a poll that fail, hang or read files that change: they are tried again, and hold up nothing else."""

import asyncio
import pathlib

import pytest
from typing_extensions import override

from naiad.errors import internal, unavailable
from naiad.repository.lifecycle import State
from naiad.repository.plan import VersionPlan
from tests.server.repository.polling.polls import lines, polled, poller_of
from tests.server.repository.world import Served, World
from tests.support.waiting import until

RETRIES = "it is tried again when something changes, and after 15 s, then less and less often until every 300 s"


async def test_a_failed_edit_keeps_what_served_and_is_tried_again_when_something_changes(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    world.write("m", "one")
    await world.repository.load_all()
    poller = poller_of(world)
    world.write("m", "bad")
    for _ in range(3):
        await polled(poller)
    assert world.loads == ["one", "bad"]
    assert world.repository.get("m").text == "one"
    (line,) = lines(caplog)
    assert line.startswith(f"poll: model 'm' failed to load (1/model changed); {RETRIES}. ")
    assert "The reason: load failed for model 'm': version 1 is at UNAVAILABLE state" in line
    world.write("m", "two", config="bad")
    await polled(poller)
    assert world.repository.get("m").text == "one"
    world.write("m", "two")
    await polled(poller)
    assert world.repository.get("m").text == "two"


async def test_a_model_that_failed_at_start_is_loaded_once_it_changes(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    world.write("m", "bad")
    world.write("config", "one", config="bad")
    await world.repository.load_all()
    poller = poller_of(world)
    await polled(poller)
    assert world.loads == ["bad"]
    world.write("m", "good")
    world.write("config", "one")
    await polled(poller)
    assert [world.repository.get(name).text for name in ("m", "config")] == ["good", "one"]


class Failing(World):
    """A world in which every load fails for the reason `why`, if there is one."""

    why = ""

    @override
    async def _load(self, plan: VersionPlan) -> Served:
        served = await super()._load(plan)
        if self.why:
            raise internal(self.why)
        return served


async def test_a_load_that_fails_for_a_passing_reason_is_tried_again_until_it_succeeds(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = Failing(tmp_path)
    poller = poller_of(world)
    world.write("m", "one")
    world.why = "no memory"
    times = []
    for second in range(0, 1500, 15):
        before = len(world.loads)
        await polled(poller)
        times += [second] * (len(world.loads) - before)
        world.clock.advance(ns=15 * 10**9)
    assert times == [0, 15, 45, 105, 225, 465, 765, 1065, 1365]
    world.why = "no device"
    for _ in range(21):
        await polled(poller)
        world.clock.advance(ns=15 * 10**9)
    assert [line.partition(RETRIES)[1] for line in lines(caplog)] == [RETRIES, RETRIES]
    assert ["no memory" in line for line in lines(caplog)] == [True, False]
    world.why = ""
    for _ in range(21):
        await polled(poller)
        world.clock.advance(ns=15 * 10**9)
    assert world.repository.get("m").text == "one"
    assert lines(caplog)[2:] == ["poll: model 'm' is loaded, because it failed to load before"]
    attempts = len(world.loads)
    for _ in range(50):
        await polled(poller)
        world.clock.advance(ns=15 * 10**9)
    assert len(world.loads) == attempts


async def test_a_reload_that_fails_for_a_passing_reason_is_tried_again(
    tmp_path: pathlib.Path,
) -> None:
    world = Failing(tmp_path)
    world.write("m", "one")
    await world.repository.load_all()
    poller = poller_of(world)
    world.write("m", "two")
    world.why = "no memory"
    await polled(poller)
    assert world.repository.get("m").text == "one"
    world.why = ""
    world.clock.advance(ns=15 * 10**9)
    await polled(poller)
    assert world.repository.get("m").text == "two"


async def test_a_model_that_failed_at_start_for_a_passing_reason_is_tried_again(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = Failing(tmp_path)
    world.write("m", "one")
    world.why = "no memory"
    await world.repository.load_all()
    poller = poller_of(world)
    for _ in range(3):
        await polled(poller)
        world.clock.advance(ns=15 * 10**9)
    assert len(world.loads) == 2
    assert lines(caplog) == [f"poll: model 'm' has failed to load; {RETRIES}"]
    world.why = ""
    await polled(poller)
    assert world.repository.get("m").text == "one"


class Writing(World):
    """A world in which a load changes files, as a copy that begins meanwhile or as the model itself."""

    def __init__(self, *roots: pathlib.Path) -> None:
        super().__init__(*roots)
        self.writes: list[str] = []

    @override
    async def _load(self, plan: VersionPlan) -> Served:
        served = await super()._load(plan)
        if self.writes:
            (plan.version_dir / self.writes.pop(0)).write_text("x" * len(self.loads))
        return served


async def test_a_model_whose_files_change_while_it_is_loaded_is_not_served(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = Writing(tmp_path)
    world.write("m", "one")
    await world.repository.load_all()
    poller = poller_of(world)
    world.write("m", "half")
    world.writes = ["model"]
    await polled(poller)
    assert world.repository.get("m").text == "one"
    assert world.made[-1].stopped
    assert "its files changed while it was loaded (1/model)" in lines(caplog)[-1]
    world.write("m", "whole")
    world.writes = ["another"]
    await polled(poller)
    assert world.repository.get("m").text == "one"
    await polled(poller)
    assert world.repository.get("m").text == "whole"


async def test_a_model_that_writes_its_own_files_is_served_and_not_loaded_for_ever(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = Writing(tmp_path)
    poller = poller_of(world)
    world.write("m", "one")
    world.writes = ["cache"] * 10
    for _ in range(5):
        await polled(poller)
    assert world.repository.get("m").text == "one"
    assert world.loads == ["one", "one"]
    assert "changes its files whenever it is loaded (1/cache)" in lines(caplog)[-1]
    world.write("m", "two")
    world.writes = []
    await polled(poller)
    assert world.repository.get("m").text == "two"


async def test_a_load_that_its_store_interrupts_is_tried_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    poller = poller_of(world)
    world.write("m", "one")

    async def broken(*_: object) -> None:
        raise unavailable("the connection broke")

    with monkeypatch.context() as patched:
        patched.setattr(world.reader, "checkout", broken)
        await polled(poller)
    assert world.states() == [("m", None, State.UNAVAILABLE, "the connection broke")]
    world.clock.advance(ns=15 * 10**9)
    await polled(poller)
    assert world.repository.get("m").text == "one"


async def test_a_change_that_fails_unexpectedly_is_logged_and_polling_goes_on(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    poller = poller_of(world)
    world.write("m", "one")

    async def fails(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr(world.repository, "load_from", fails)
        await polled(poller)
    assert "poll: changing model 'm' failed" in lines(caplog)
    world.write("m", "two")
    await polled(poller)
    assert world.repository.get("m").text == "two"


class Hanging(World):
    """A world in which the first load does not end before `may_end`."""

    def __init__(self, *roots: pathlib.Path) -> None:
        super().__init__(*roots)
        self.may_end = asyncio.Event()

    @override
    async def _load(self, plan: VersionPlan) -> Served:
        served = await super()._load(plan)
        if len(self.loads) == 1:
            await self.may_end.wait()
        return served


async def test_a_load_that_hangs_holds_up_no_other_model(tmp_path: pathlib.Path) -> None:
    world = Hanging(tmp_path)
    world.write("slow", "slow")
    poller = poller_of(world)
    await poller.poll()
    await until(lambda: world.loads)
    for name in ("a", "b"):
        world.write(name, name)
        world.write("slow", f"edited with {name}")
        await poller.poll()
        await until(lambda name=name: (name, 1, State.READY, "") in world.states())  # type: ignore[misc]
    assert world.loads == ["slow", "a", "b"]
    world.may_end.set()
    await poller.applied()
    await polled(poller)
    assert world.repository.get("slow").text == "edited with b"
