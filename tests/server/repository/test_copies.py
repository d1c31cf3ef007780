"""A model's local copy lives until the last version that was loaded from it is unloaded."""

import asyncio
import pathlib
import threading
from typing import Any

import pytest
from typing_extensions import override

from naiad.core.clock import ManualClock
from naiad.errors import InferenceError, internal
from naiad.repository.manager import Repository
from naiad.repository.plan import ModelPlan, VersionPlan
from naiad.repository.reading.reader import RepositoryReader
from naiad.repository.requests.coordination import Coordination
from naiad.repository.requests.overrides import Value
from naiad.repository.store import Checkout, OnBytes, StoredModel, no_bytes
from tests.server.repository.stores import FakeStore
from tests.server.repository.world import Config, Progress, Served


class World:
    """A repository over a store of copies.

    Attributes:
        refused: the models whose config cannot be used.
        hollow: those whose version 1 has no files.
        failing: the versions that fail to load, by model and number.
        loaded_from: the folder of each load.
    """

    def __init__(self, *names: str, retries: int = 0, location: str = "/cache") -> None:
        self.store = FakeStore(location, *names)
        self.reader = RepositoryReader([self.store], timeout_seconds=None)
        self.refused = set[str]()
        self.hollow = set[str]()
        self.failing = set[tuple[str, int]]()
        self.loaded_from: list[str] = []
        self.repository = Repository[Served](
            reader=self.reader,
            resolve=self._resolve,
            load=self._load,
            coordination=Coordination(2),
            retry_count=retries,
            progress=Progress(),
            clock=ManualClock(),
        )

    async def held(self) -> dict[str, int]:
        """How many copies of each model are not released, once every release has been done."""
        while self.reader._releases:
            await asyncio.wait(self.reader._releases)
        return {name: count for name, count in self.store.held.items() if count}

    async def _resolve(self, folder: pathlib.Path, _: Value | None) -> ModelPlan:
        name = folder.name
        if name in self.refused:
            return ModelPlan(name=name, reason=f"no config in {folder}")
        if name in self.hollow:
            reason = f"no model in {folder}/1"
            return ModelPlan(name=name, reason=reason, failed_versions={1: reason})
        config: Any = Config(name, "")
        plans = (
            VersionPlan(config=config, version=number, model_dir=folder)
            for number in self.store.times[name]
        )
        return ModelPlan(name=name, versions=tuple(plans))

    async def _load(self, plan: VersionPlan) -> Served:
        assert self.store.held[plan.config.name], "the copy is there while it is loaded from"
        self.loaded_from.append(str(plan.version_dir))
        if (plan.config.name, plan.version) in self.failing:
            raise internal("bad weights")
        return Served("", seconds=0)


async def test_a_copy_is_released_once_its_last_version_is_unloaded() -> None:
    world = World("m", "n")
    world.store.times["m"] = {1: 0, 2: 0}
    assert await world.repository.load_all()
    assert await world.held() == {"m": 1, "n": 1}
    await world.repository.unload("m")
    assert await world.held() == {"n": 1}
    await world.repository.load("m")
    assert await world.held() == {"m": 1, "n": 1}
    await world.repository.unload_all()
    assert not any(world.store.held.values())


async def test_a_listing_makes_no_copy() -> None:
    world = World("m", "n")
    assert await world.repository.names() == ["m", "n"]
    await world.repository.load("m")
    await world.repository.load("m")
    assert world.store.made == {"m": 1}


async def test_a_reload_keeps_the_old_copy_for_the_versions_that_stay() -> None:
    world = World("m")
    world.store.times["m"] = {1: 0, 2: 0}
    await world.repository.load("m")
    world.store.times["m"] = {1: 0, 2: 1}
    await world.repository.load("m")
    assert world.loaded_from == ["/cache/1/m/1", "/cache/1/m/2", "/cache/2/m/2"]
    assert await world.held() == {"m": 2}
    world.store.times["m"] = {2: 1}
    await world.repository.load("m")
    assert world.loaded_from[3:] == []
    assert await world.held() == {"m": 1}
    await world.repository.unload("m")
    assert not await world.held()


@pytest.mark.parametrize("retries", [0, 2])
async def test_a_load_that_fails_releases_its_copy_and_the_old_one_stays(retries: int) -> None:
    world = World("m", retries=retries)
    await world.repository.load("m")
    world.store.times["m"] = {1: 1, 2: 0}
    world.failing = {("m", 2)}
    with pytest.raises(InferenceError, match="bad weights"):
        await world.repository.load("m")
    await world.repository._unloads.join()
    assert await world.held() == {"m": 1}
    assert len(world.loaded_from) == 3 + retries
    world.refused = {"m"}
    with pytest.raises(InferenceError, match="no config"):
        await world.repository.load("m")
    assert await world.held() == {"m": 1}


async def test_at_start_a_model_that_cannot_be_loaded_keeps_no_copy() -> None:
    world = World("m", "n", "o")
    world.refused, world.failing = {"m"}, {("n", 1)}
    assert not await world.repository.load_all()
    assert world.store.made == {"m": 1, "n": 1, "o": 1}
    assert await world.held() == {"o": 1}


async def test_errors_name_the_place_in_the_store_and_not_the_copy() -> None:
    world = World("m", "n", location="s3://bucket/models")
    world.refused, world.hollow = {"m"}, {"n"}
    for name, reason in (("m", "no config in {}/m"), ("n", "no model in {}/n/1")):
        with pytest.raises(InferenceError, match=reason.format("s3://bucket/models")):
            await world.repository.load(name)


async def test_the_end_of_the_server_releases_every_copy() -> None:
    world = World("m")
    copy = await world.reader.checkout(StoredModel(world.store, "m"))
    assert copy.folder == pathlib.Path("/cache/1/m")
    await world.reader.aclose()
    assert not world.store.held["m"]


async def test_a_checkout_that_ends_after_its_caller_left_is_released() -> None:
    begun, may_end, released = threading.Event(), threading.Event(), threading.Event()

    class Slow(FakeStore):
        @override
        def checkout(self, name: str, on_bytes: OnBytes = no_bytes) -> Checkout:
            begun.set()
            assert may_end.wait(60)
            return Checkout(pathlib.Path("/cache/m"), released.set)

    store = Slow("/cache", "m")
    reader = RepositoryReader([store])
    caller = asyncio.create_task(reader.checkout(StoredModel(store, "m")))
    assert await asyncio.to_thread(begun.wait, 60)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    may_end.set()
    assert await asyncio.to_thread(released.wait, 60)
    await reader.aclose()


async def test_a_copy_that_cannot_be_released_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise OSError("read-only")

    class Stuck(FakeStore):
        @override
        def checkout(self, name: str, on_bytes: OnBytes = no_bytes) -> Checkout:
            return Checkout(pathlib.Path("/cache/m"), fail)

    store = Stuck("/cache", "m")
    reader = RepositoryReader([store])
    (await reader.checkout(StoredModel(store, "m"))).release()
    await reader.aclose()
    assert "releasing the local copy /cache/m failed" in caplog.text
