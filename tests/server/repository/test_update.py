"""Other instances for versions that serve, without a load (row 7.24)."""

import asyncio
import pathlib

import pytest

from naiad.errors import InferenceError
from naiad.repository.lifecycle import State
from tests.server.repository.world import World
from tests.support.waiting import until


async def loaded(root: pathlib.Path) -> World:
    world = World(root)
    for version in (1, 2):
        world.write("m", f"v{version}", version=version, config="config,one")
    await world.repository.load("m")
    return world


async def test_a_config_with_other_instances_changes_them_and_loads_nothing(
    tmp_path: pathlib.Path,
) -> None:
    world = await loaded(tmp_path)
    before = list(world.made)
    world.progress.seen.clear()
    world.write("m", "v2", version=2, config="config,two")
    await world.repository.load("m")
    assert world.made == before
    assert [served.instances for served in before] == ["two", "two"]
    assert [(state.version, state.state, state.updated) for state in world.progress.seen] == [
        (1, State.READY, " -> two"),
        (2, State.READY, " -> two"),
    ]
    await world.repository.load("m")
    assert len(world.progress.seen) == 2


async def test_a_version_comes_while_the_instances_of_others_change(tmp_path: pathlib.Path) -> None:
    world = await loaded(tmp_path)
    world.write("m", "v3", version=3, config="config,two")
    await world.repository.load("m")
    assert world.loads == ["v1", "v2", "v3"]
    assert [served.instances for served in world.made] == ["two", "two", ""]


async def test_instances_that_cannot_be_made_change_nothing_and_are_tried_again(
    tmp_path: pathlib.Path,
) -> None:
    world = await loaded(tmp_path)
    world.write("m", "v3", version=3, config="config,bad")
    with pytest.raises(InferenceError, match="version 1 is at READY state: no such place") as error:
        await world.repository.load("m")
    assert "goes on serving" in error.value.message
    assert list(world.repository.ready_versions("m")) == [1, 2]
    await until(lambda: world.made[2].stopped)
    world.write("m", "v3", version=3, config="config,two")
    await world.repository.load("m")
    assert [served.instances for served in world.made[:2]] == ["two", "two"]


async def test_a_version_that_fails_to_load_discards_the_instances_of_the_others(
    tmp_path: pathlib.Path,
) -> None:
    world = await loaded(tmp_path)
    world.write("m", "bad", version=3, config="config,two")
    with pytest.raises(InferenceError, match="version 3 is at UNAVAILABLE state"):
        await world.repository.load("m")
    assert [served.instances for served in world.made] == ["", ""]


async def test_a_stop_discards_the_instances_that_are_prepared(tmp_path: pathlib.Path) -> None:
    world = await loaded(tmp_path)
    world.write("m", "v3", version=3, config="config,slow")
    loading = asyncio.create_task(world.repository.load("m"))
    await until(lambda: world.made[1].waits)
    await world.repository.unload_all()
    with pytest.raises(InferenceError, match="the server is stopping"):
        await loading
    assert [served.discarded for served in world.made] == [1, 0, 0]
    assert all(served.stopped for served in world.made)
