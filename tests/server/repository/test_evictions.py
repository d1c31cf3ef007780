"""Models that make room for others: which may be unloaded for that, and what is left of them."""

import asyncio
import pathlib

import pytest

from naiad.errors import InferenceError
from naiad.repository.lifecycle import State
from naiad.repository.loading.progress import Phase
from naiad.repository.polling.poller import Poller
from tests.server.repository.world import World
from tests.support.waiting import until

pytestmark = pytest.mark.looptime


def ignore() -> None: ...


async def loaded(tmp_path: pathlib.Path, *names: str) -> World:
    world = World(tmp_path)
    for name in names:
        world.write(name, f"{name} one")
    await world.repository.load_all()
    return world


async def evicted(tmp_path: pathlib.Path) -> World:
    world = await loaded(tmp_path, "m", "other")
    world.repository.evictions.evict("m")
    assert ("m", 1, State.UNLOADING, "evicted") in world.states()
    await world.repository._unloads.join()
    return world


async def test_an_evicted_model_is_unavailable_for_that_reason(tmp_path: pathlib.Path) -> None:
    world = await evicted(tmp_path)
    assert world.states() == [
        ("m", 1, State.UNAVAILABLE, "evicted"),
        ("other", 1, State.READY, ""),
    ]
    with pytest.raises(InferenceError, match="no available versions: version 1 is UNAVAILABLE"):
        world.repository.get("m")
    evictions = world.repository.evictions
    assert list(evictions.evicted("m")) == [1]
    assert not evictions.evicted("other")
    assert all(map(evictions.is_ready_or_evicted, world.repository.states()))


async def test_it_is_loaded_again_from_the_files_that_are_there_now(tmp_path: pathlib.Path) -> None:
    world = await evicted(tmp_path)
    world.write("m", "m two")
    await world.repository.load_evicted("m", ignore)
    assert world.repository.get("m").text == "m two"
    assert not world.repository.evictions.evicted("m")
    loads = len(world.loads)
    await world.repository.load_evicted("m", ignore)
    await world.repository.load("m")
    assert len(world.loads) == loads


@pytest.mark.parametrize("finished", [True, False])
async def test_the_server_stays_ready_meanwhile(tmp_path: pathlib.Path, *, finished: bool) -> None:
    """Also if the old one has requests while the new one is loaded."""
    world = World(tmp_path, load_seconds=1, stop_seconds=0 if finished else 5)
    world.write("m", "one")
    await world.repository.load_all()
    world.repository.evictions.evict("m")
    if finished:
        await world.repository._unloads.join()
    seen = list[object]()
    load = asyncio.ensure_future(
        world.repository.load_evicted("m", lambda: seen.append(world.states()))
    )
    await until(lambda: bool(world.loads[1:]))
    assert world.states() == [("m", 1, State.LOADING, "evicted")]
    (progress,) = world.repository.load_progress()
    assert progress.phase is Phase.LOADING
    await load
    assert seen == [[("m", 1, State.READY, "")]]


async def test_a_load_request_loads_it_as_well(tmp_path: pathlib.Path) -> None:
    world = await evicted(tmp_path)
    await world.repository.load("m")
    assert world.repository.get("m").text == "m one"
    assert not world.repository.evictions.evicted("m")


async def test_an_unload_request_ends_the_eviction(tmp_path: pathlib.Path) -> None:
    world = await evicted(tmp_path)
    await world.repository.unload("m")
    assert world.states()[0] == ("m", 1, State.UNAVAILABLE, "unloaded")
    assert not world.repository.evictions.evicted("m")


async def test_an_unload_request_that_comes_while_it_finishes_its_requests_counts_as_well(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, stop_seconds=5)
    world.write("m", "one")
    await world.repository.load_all()
    world.repository.evictions.evict("m")
    await world.repository.unload("m")
    assert world.states() == [("m", 1, State.UNLOADING, "evicted")]
    await world.repository._unloads.join()
    assert world.states() == [("m", 1, State.UNAVAILABLE, "unloaded")]


async def test_a_poll_loads_an_evicted_model_only_if_its_files_have_changed(
    tmp_path: pathlib.Path,
) -> None:
    world = await evicted(tmp_path)
    poller = Poller(
        reader=world.reader, models=world.repository, interval_seconds=15, quiet_seconds=0, clock=world.clock
    )  # fmt: skip
    loads = len(world.loads)
    await poller.poll()
    await poller.applied()
    assert len(world.loads) == loads
    assert world.repository.evictions.evicted("m")
    world.write("m", "m two")
    await poller.poll()
    await poller.applied()
    assert world.repository.get("m").text == "m two"
    assert not world.repository.evictions.evicted("m")


@pytest.mark.parametrize("broken", ["model", "config"])
async def test_one_that_cannot_be_loaded_again_stays_evicted(
    tmp_path: pathlib.Path, broken: str
) -> None:
    world = await evicted(tmp_path)
    if broken == "model":
        world.write("m", "bad weights")
    else:
        world.write("m", "m one", config="bad config")
    with pytest.raises(InferenceError, match=f"bad {'weights' if broken == 'model' else broken}"):
        await world.repository.load_evicted("m", ignore)
    assert world.states()[0] == ("m", 1, State.UNAVAILABLE, "evicted")
    assert world.repository.evictions.evicted("m")
    world.write("m", "m three")
    await world.repository.load_evicted("m", ignore)
    assert world.repository.get("m").text == "m three"


async def test_one_that_has_left_the_repository_is_no_longer_evicted(
    tmp_path: pathlib.Path,
) -> None:
    world = await evicted(tmp_path)
    (tmp_path / "m").rename(tmp_path.parent / "gone")
    with pytest.raises(InferenceError, match="not found in any model repository"):
        await world.repository.load_evicted("m", ignore)
    assert [state[0] for state in world.states()] == ["other"]
    assert not world.repository.evictions.evicted("m")


async def test_a_model_that_another_one_needs_stays(tmp_path: pathlib.Path) -> None:
    world = await loaded(tmp_path, "caller", "callee")
    repository = world.repository
    assert sorted(repository.evictions.candidates()) == ["callee", "caller"]
    await repository.load("callee", requested_by="caller")
    assert repository.evictions.candidates() == ["caller"]
    repository.evictions.evict("caller")
    await repository._unloads.join()
    assert repository.evictions.candidates() == ["callee"]


async def test_a_model_with_a_config_of_a_load_request_stays(
    tmp_path: pathlib.Path,
) -> None:
    """Nothing could load it again."""
    world = await loaded(tmp_path, "m")
    await world.repository.load("m", {"config": "given"})
    assert world.repository.evictions.candidates() == []
    world.write("m", "m two")
    await world.repository.load("m")
    assert world.repository.evictions.candidates() == ["m"]


async def test_a_model_that_is_being_loaded_stays(tmp_path: pathlib.Path) -> None:
    world = await loaded(tmp_path, "m")
    inside = list[list[str]]()
    operation = world.repository._locks.run

    async def look() -> None:
        inside.append(world.repository.evictions.candidates())

    await operation("m", look)
    assert inside == [[]]
    assert world.repository.evictions.candidates() == ["m"]


async def test_an_operation_may_change_something_unless_it_waits_for_one_that_waits(
    tmp_path: pathlib.Path,
) -> None:
    world = await loaded(tmp_path, "m")
    evictions, locks = world.repository.evictions, world.repository._locks
    seen = list[bool]()
    changes = list[int]()
    evictions.watch(lambda: changes.append(1))

    async def inner() -> None:
        seen.append(evictions.may_change({"inner"}))
        seen.append(evictions.may_change({"other"}))

    async def middle() -> None:
        await locks.run("inner", inner, requested_by="middle")

    async def outer() -> None:
        await locks.run("middle", middle, requested_by="outer")

    await locks.run("outer", outer)
    assert seen == [False, True]
    assert not evictions.may_change(set())
    assert len(changes) >= 3
