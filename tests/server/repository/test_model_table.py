"""What is remembered of unloaded models: what the index shows, and no more than that."""

import asyncio
import gc
import pathlib

import pytest

from naiad.errors import InferenceError
from naiad.repository.lifecycle import State
from naiad.repository.model_table import KEPT_MODELS, KEPT_VERSIONS, UnloadedVersions
from naiad.repository.plan import VersionPlan
from naiad.repository.version import Version, VersionState
from tests.server.repository.world import Config, World
from tests.support.waiting import until


def state(name: str, version: int = 1) -> VersionState:
    return VersionState(name=name, version=version, state=State.UNAVAILABLE, reason="unloaded")


def test_the_models_that_were_unloaded_last_are_remembered() -> None:
    unloaded = UnloadedVersions()
    for number in range(KEPT_MODELS + 10):
        unloaded.remember(1, state(f"m{number}"))
        unloaded.remember(1, state("again and again"))
    names = {each.name for each in unloaded.states()}
    assert len(names) == KEPT_MODELS
    assert {"again and again", f"m{KEPT_MODELS + 9}"} <= names
    assert "m10" not in names
    assert unloaded.of("m10") == {}


def test_of_a_model_the_highest_versions_are_remembered() -> None:
    unloaded = UnloadedVersions()
    for number in range(1, KEPT_VERSIONS + 4):
        unloaded.remember(number, state("m", number))
    assert sorted(unloaded.of("m")) == list(range(4, KEPT_VERSIONS + 4))


def test_versions_that_are_loaded_again_are_forgotten() -> None:
    unloaded = UnloadedVersions()
    for number in (1, 2):
        unloaded.remember(number, state("m", number))
    unloaded.forget("m", 1)
    assert list(unloaded.of("m")) == [2]
    unloaded.forget("m", 2)
    unloaded.forget("m", 2)
    assert unloaded.states() == []


def held() -> int:
    """Plans of versions, and what holds them, that live in this process."""
    gc.collect()
    return sum(
        isinstance(get_object, Config | Version | VersionPlan) for get_object in gc.get_objects()
    )


@pytest.mark.slow
async def test_hundreds_of_models_that_were_loaded_and_unloaded_leave_only_their_last_states(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    count = 300
    for number in range(count):
        world.write(f"m{number}", "text")
    before = held()

    async def come_and_go(number: int) -> None:
        await world.repository.load(f"m{number}")
        await world.repository.unload(f"m{number}")

    for first in range(0, count, 50):
        await asyncio.gather(*(come_and_go(number) for number in range(first, first + 50)))
    world.made.clear()
    world.progress.seen.clear()

    await until(lambda: held() == before)  # a thread may still end a call whose result is there
    states = world.states()
    assert len(states) == min(count, KEPT_MODELS)
    assert {(found, reason) for _, _, found, reason in states} == {(State.UNAVAILABLE, "unloaded")}


@pytest.mark.slow
async def test_versions_that_a_reload_replaced_leave_only_their_last_states(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    before = held()
    for number in range(1, 41):
        world.write("m", f"text {number}", version=number)
        await world.repository.load("m")
        (tmp_path / "m" / str(number) / "model").unlink()
        (tmp_path / "m" / str(number)).rmdir()
    await world.repository.unload("m")
    world.made.clear()
    world.progress.seen.clear()
    await until(lambda: held() == before)
    assert len(world.states()) == KEPT_VERSIONS


async def test_a_model_that_is_loaded_again_shows_once(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    world.write("m", "one")
    for _ in range(2):
        await world.repository.load("m")
        assert world.states() == [("m", 1, State.READY, "")]
        await world.repository.unload("m")
        assert world.states() == [("m", 1, State.UNAVAILABLE, "unloaded")]
    world.write("m", "bad")
    with pytest.raises(InferenceError, match="cannot run bad"):
        await world.repository.load("m")
    assert world.states() == [("m", 1, State.UNAVAILABLE, "cannot run bad")]
