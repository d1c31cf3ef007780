"""Loading, unloading and loading again while the server serves (rows 7.8 to 7.12, 7.20 to 7.22), in virtual time."""

import asyncio
import collections.abc
import pathlib
import shutil

import pytest
from typing_extensions import override

from naiad.errors import ErrorCode, InferenceError
from naiad.repository.lifecycle import State
from naiad.repository.plan import DUPLICATE, ModelPlan, VersionPlan
from naiad.repository.requests.overrides import Value
from tests.server.repository.world import Served, World
from tests.support.waiting import until


async def failure(change: collections.abc.Awaitable[None]) -> InferenceError:
    with pytest.raises(InferenceError) as caught:
        await change
    return caught.value


async def test_only_the_models_named_are_loaded_at_start(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    for name in ("a", "b", "c"):
        world.write(name, name)
    assert await world.repository.load_all(["a", "c"])
    assert world.states() == [("a", 1, State.READY, ""), ("c", 1, State.READY, "")]
    assert await world.repository.names() == ["a", "b", "c"]


async def test_nothing_is_loaded_at_start_when_nothing_is_named(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    world.write("a", "a")
    assert await world.repository.load_all([])
    assert world.states() == []


async def test_a_start_without_a_model_that_is_named_fails(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    world.write("a", "a")
    assert not await world.repository.load_all(["a", "gone"])
    assert "failed to poll model 'gone': model not found" in caplog.text
    assert world.repository.get("a").text == "a"


async def test_a_model_is_loaded_unloaded_and_loaded_again(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    world.write("m", "one")
    repository = world.repository
    for _ in range(2):
        await repository.load("m")
        assert repository.get("m").text == "one"
        await repository.unload("m")
        assert world.made[-1].stopped
        assert world.states() == [("m", 1, State.UNAVAILABLE, "unloaded")]
        with pytest.raises(InferenceError, match="has no available versions"):
            repository.get("m")
    assert repository.unloading() == []


async def test_an_unload_reports_the_memory_that_it_freed(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    world.write("m", "one")
    await world.repository.load("m")
    await world.repository.unload("m")
    assert world.progress.seen[-1].resident == (100, 0)
    assert (world.memory.expected, world.memory.given_back) == (1, 1)


async def test_unloading_an_unknown_model_succeeds(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    world.write("m", "one")
    for name in ("m", "unknown", ".."):
        await world.repository.unload(name)
    assert world.states() == []


async def test_loading_a_missing_model_fails_to_poll(tmp_path: pathlib.Path) -> None:
    error = await failure(World(tmp_path).repository.load("x"))
    assert error.code is ErrorCode.INTERNAL
    assert "failed to load 'x', failed to poll from model repository" in error.message
    assert str(tmp_path) in error.message


async def test_a_bad_name_is_refused_before_the_store_is_read(tmp_path: pathlib.Path) -> None:
    error = await failure(World(tmp_path).repository.load(".."))
    assert error.code is ErrorCode.INVALID_ARG


async def test_a_name_in_two_repositories_is_not_loaded(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path / "a", tmp_path / "b")
    for root in ("a", "b"):
        (tmp_path / root / "m").mkdir(parents=True)
    error = await failure(world.repository.load("m"))
    assert error.code is ErrorCode.INTERNAL
    assert DUPLICATE in error.message
    assert world.states() == [("m", None, State.UNAVAILABLE, DUPLICATE)]


async def test_a_failed_load_names_the_version_and_the_reason(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    world.write("m", "bad weights", version=3)
    error = await failure(world.repository.load("m"))
    assert error.code is ErrorCode.INVALID_ARG
    expected = (
        "load failed for model 'm': version 3 is at UNAVAILABLE state: cannot run bad weights;"
    )
    assert expected in error.message
    assert world.states() == [("m", 3, State.UNAVAILABLE, "cannot run bad weights")]


async def test_a_failed_load_is_tried_again_by_the_next(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    world.write("m", "bad weights")
    await failure(world.repository.load("m"))
    await failure(world.repository.load("m"))
    assert world.loads == ["bad weights", "bad weights"]
    world.write("m", "good")
    await world.repository.load("m")
    assert world.states() == [("m", 1, State.READY, "")]


async def test_a_failed_model_that_is_unloaded_shows_as_unloaded(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    world.write("m", "bad weights")
    await failure(world.repository.load("m"))
    await world.repository.unload("m")
    assert world.states() == [("m", 1, State.UNAVAILABLE, "unloaded")]
    assert world.memory.given_back == 0


@pytest.mark.parametrize("then", ["one", "more"])
async def test_a_version_that_failed_and_was_taken_out_is_wanted_no_more(
    tmp_path: pathlib.Path, then: str
) -> None:
    world = World(tmp_path)
    world.write("m", "one")
    await world.repository.load("m")
    world.write("m", "bad", version=2)
    await failure(world.repository.load("m"))
    assert world.states()[0] == ("m", 1, State.READY, "")
    assert world.states()[1] == ("m", 2, State.UNAVAILABLE, "cannot run bad")
    shutil.rmtree(tmp_path / "m" / "2")
    world.write("m", then)
    await world.repository.load("m")
    assert world.states()[0] == ("m", 1, State.READY, "")
    assert world.states()[1] == ("m", 2, State.UNAVAILABLE, "unloaded")


async def test_a_model_whose_folder_is_gone_serves_until_it_is_unloaded_and_is_then_forgotten(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    world.write("m", "one")
    await world.repository.load("m")
    shutil.rmtree(tmp_path / "m")
    assert "model not found" in (await failure(world.repository.load("m"))).message
    assert world.states() == [("m", 1, State.READY, "")]
    await world.repository.unload("m")
    await failure(world.repository.load("m"))
    assert world.states() == []


async def test_a_load_needs_only_the_stores_that_may_have_the_model(tmp_path: pathlib.Path) -> None:
    gone = tmp_path / "b"
    world = World(tmp_path / "a", gone)
    for folder, name in ((tmp_path / "a", "m"), (gone, "lost")):
        world.root = folder
        world.write(name, name)
    await world.repository.load("lost")
    shutil.rmtree(gone)
    await world.repository.load("m")
    assert world.repository.get("m").text == "m"
    world.root = tmp_path / "a"
    world.write("lost", "another")
    for name in ("lost", "nowhere"):
        assert "there is no such folder" in (await failure(world.repository.load(name))).message
    assert world.repository.get("lost").text == "lost"
    assert await world.repository.names() == ["lost", "m"]


async def test_all_versions_of_a_load_serve_or_none(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    world.write("m", "good", version=1)
    world.write("m", "bad", version=2)
    error = await failure(world.repository.load("m"))
    assert "version 2 is at UNAVAILABLE" in error.message
    assert "version 1" not in error.message
    await world.repository.unload_all()
    assert [served.stopped for served in world.made] == [True]
    assert world.states()[0] == ("m", 1, State.UNAVAILABLE, "unloaded")


async def test_an_invalid_config_is_reported_in_the_reply_and_in_the_index(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    world.write("m", "one", config="bad field")
    error = await failure(world.repository.load("m"))
    assert error.code is ErrorCode.INTERNAL
    assert "failed to poll from model repository: config.pbtxt:1:1: bad field" in error.message
    assert world.states() == [("m", None, State.UNAVAILABLE, "config.pbtxt:1:1: bad field")]
    world.write("m", "one", config="good")
    await world.repository.load("m")
    assert world.states() == [("m", 1, State.READY, "")]


async def test_loading_an_unchanged_model_again_does_nothing(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    world.write("m", "one")
    await world.repository.load_all()
    serving = world.repository.get("m")
    await world.repository.load("m")
    assert world.repository.get("m") is serving
    assert world.loads == ["one"]


@pytest.mark.looptime
async def test_a_reload_serves_the_old_one_until_the_new_one_is_ready(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, load_seconds=2, stop_seconds=3)
    repository = world.repository
    world.write("m", "one")
    await repository.load("m")
    world.write("m", "two")
    reloading = asyncio.create_task(repository.load("m"))
    while not reloading.done():
        serving = repository.get("m")
        assert not serving.stopped
        assert world.states() == [("m", 1, State.READY, "")]
        await asyncio.sleep(0.1)
    await reloading
    assert repository.get("m").text == "two"
    assert [each.text for each in repository.unloading()] == ["one"]
    await asyncio.sleep(4)
    assert [each.stopped for each in world.made] == [True, False]
    assert repository.unloading() == []


async def test_a_failed_reload_leaves_the_old_one_serving(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    world.write("m", "one")
    await world.repository.load("m")
    serving = world.repository.get("m")
    world.write("m", "bad")
    error = await failure(world.repository.load("m"))
    assert error.code is ErrorCode.INVALID_ARG
    assert "What was loaded before goes on serving" in error.message
    world.write("m", "one", config="bad")
    assert (await failure(world.repository.load("m"))).code is ErrorCode.INTERNAL
    assert world.repository.get("m") is serving
    assert not serving.stopped
    assert world.states() == [("m", 1, State.READY, "")]
    failures = [each for each in world.progress.seen if each.state is State.UNAVAILABLE]
    assert [(each.reason, each.replaces) for each in failures] == [
        ("cannot run bad", True),
        ("config.pbtxt:1:1: bad", True),
    ]


async def test_a_new_version_leaves_the_others_alone_and_one_that_is_gone_goes(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    world.write("m", "one", version=1)
    world.write("m", "two", version=2)
    await world.repository.load("m")
    world.write("m", "three", version=3)
    (tmp_path / "m" / "1" / "model").unlink()
    (tmp_path / "m" / "1").rmdir()
    await world.repository.load("m")
    assert world.loads == ["one", "two", "three"]
    assert world.repository.ready_versions("m") == [2, 3]
    assert world.repository.get("m").text == "three"
    with pytest.raises(InferenceError, match="version 1 is not at ready state"):
        world.repository.get("m", 1)


@pytest.mark.looptime
async def test_a_caller_that_leaves_does_not_stop_the_load(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, load_seconds=20)
    world.write("m", "one")
    caller = asyncio.create_task(world.repository.load("m"))
    # Not a time: a thread looks into the folder first.
    await until(lambda: world.states() == [("m", 1, State.LOADING, "")])
    caller.cancel()
    await asyncio.sleep(30)
    assert caller.cancelled()
    assert world.repository.get("m").text == "one"


@pytest.mark.looptime
async def test_loads_and_unloads_of_one_model_follow_each_other(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, load_seconds=1)
    world.write("m", "one")
    repository = world.repository
    await asyncio.gather(
        repository.load("m"), repository.load("m"), repository.unload("m"), repository.load("m")
    )
    assert world.loads == ["one", "one"]
    assert [each.stopped for each in world.made] == [True, False]
    assert world.states() == [("m", 1, State.READY, "")]


@pytest.mark.looptime
@pytest.mark.slow
async def test_requests_in_flight_hold_up_neither_an_unload_nor_the_next_load(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, stop_seconds=60)
    ticking = asyncio.create_task(tick())
    world.write("m", "one")
    await world.repository.load("m")
    await world.repository.unload("m")
    assert asyncio.get_running_loop().time() < 30
    assert world.states() == [("m", 1, State.UNLOADING, "")]
    await world.repository.load("m")
    assert asyncio.get_running_loop().time() < 50
    assert world.states() == [("m", 1, State.READY, "")]
    ticking.cancel()
    await world.repository.unload_all()
    assert [each.stopped for each in world.made] == [True, True]


async def tick() -> None:
    """Let virtual time pass in small steps: while a thread works it would pass up to the next timer at once."""
    while True:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.001)


@pytest.mark.looptime
async def test_a_stop_aborts_a_load_in_progress_and_takes_no_more(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, load_seconds=20)
    world.write("m", "one")
    world.write("n", "two")
    loading = asyncio.create_task(world.repository.load("m"))
    await asyncio.sleep(10)
    stopping = asyncio.create_task(world.repository.unload_all())
    await asyncio.sleep(0)
    assert (await failure(world.repository.load("n"))).code is ErrorCode.UNAVAILABLE
    await stopping
    assert (await failure(loading)).code is ErrorCode.UNAVAILABLE
    assert world.made == []


class Version2Hangs(World):
    """A world in which the load of a version 2 never ends."""

    @override
    async def _load(self, plan: VersionPlan) -> Served:
        if plan.version == 2:
            await asyncio.Event().wait()
        return await super()._load(plan)


async def test_a_stop_unloads_a_version_that_is_loaded_while_another_one_of_its_model_is_not(
    tmp_path: pathlib.Path,
) -> None:
    world = Version2Hangs(tmp_path)
    for version in (1, 2):
        world.write("m", "good", version=version)
    loading = asyncio.create_task(world.repository.load("m"))
    await until(lambda: bool(world.made))
    await world.repository.unload_all()
    assert (await failure(loading)).code is ErrorCode.UNAVAILABLE
    assert [served.stopped for served in world.made] == [True]


class SlowToRead(World):
    """A world in which the config of `slow` is not read before `may_read`, as if an agent or a download took long."""

    def __init__(self, *roots: pathlib.Path) -> None:
        self.may_read = asyncio.Event()
        super().__init__(*roots)

    @override
    async def _resolve(self, folder: pathlib.Path, given: Value | None) -> ModelPlan:
        if folder.name == "slow":
            await self.may_read.wait()
        return await super()._resolve(folder, given)


async def test_at_the_start_no_model_waits_for_the_plan_of_another(tmp_path: pathlib.Path) -> None:
    world = SlowToRead(tmp_path)
    for name in ("a", "slow", "z"):
        world.write(name, name)
    start = asyncio.create_task(world.repository.load_all())
    ready = [(name, 1, State.READY, "") for name in ("a", "z")]
    await until(lambda: world.states() == ready)
    assert not start.done()
    world.may_read.set()
    assert await start
    assert world.repository.get("slow").text == "slow"
