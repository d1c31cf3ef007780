"""Ensembles where models of several repositories have the same name (row 7.37): whose model a step is, and what follows its changes."""

import asyncio
import pathlib

import pytest

from naiad.errors import InferenceError
from naiad.repository.manager import Repository
from naiad.repository.requests.coordination import Coordination
from naiad.repository.requests.namespaces import Namespaces
from tests.server.repository.test_ensembles import Served, World

pytestmark = pytest.mark.looptime


class Two:
    """The repositories `first` and `second`, and the one without a store."""

    def __init__(self, folder: pathlib.Path) -> None:
        coordination = Coordination(1)
        self.first, self.second, own = (
            World(folder / name, coordination=coordination, namespace=namespace)
            for name, namespace in (("first", "1"), ("second", "2"), ("own", ""))
        )
        self.namespaces = Namespaces[Served](
            {"1": self.first.repository, "2": self.second.repository},
            own.repository,
            coordination=coordination,
        )

    def ready(self) -> str:
        return f"{self.first.ready()} | {self.second.ready()}"


def namespaces_of(repository: Repository[Served], name: str) -> list[str]:
    ensemble = repository.get(name).config.ensemble
    assert ensemble is not None
    return [each.namespace for each in ensemble.steps]


async def test_a_step_is_the_model_of_the_ensembles_own_repository(tmp_path: pathlib.Path) -> None:
    two = Two(tmp_path)
    for world in (two.first, two.second):
        world.write("a")
        world.write("E", "a")
    assert await two.namespaces.load_all()
    assert namespaces_of(two.first.repository, "E") == ["1"]
    assert namespaces_of(two.second.repository, "E") == ["2"]


async def test_else_it_is_that_of_the_only_repository_that_has_it(tmp_path: pathlib.Path) -> None:
    two = Two(tmp_path)
    two.first.write("a")
    two.first.write("E", "a b")
    two.second.write("b")
    await two.namespaces.load("E")
    assert two.ready() == "E a | b"
    assert namespaces_of(two.first.repository, "E") == ["1", "2"]
    await two.namespaces.unload("E", with_dependents=True)
    assert two.ready() == " | "


async def test_a_name_of_several_others_is_ambiguous(tmp_path: pathlib.Path) -> None:
    coordination = Coordination(1)
    worlds = [
        World(tmp_path / name, coordination=coordination, namespace=name)
        for name in ("1", "2", "3")
    ]
    worlds[0].write("E", "b")
    for world in worlds[1:]:
        world.write("b")
    with pytest.raises(InferenceError, match="not available or ambiguous: b"):
        await worlds[0].repository.load("E")


async def test_an_ensemble_follows_the_model_of_another_repository(tmp_path: pathlib.Path) -> None:
    two = Two(tmp_path)
    two.first.write("E", "b")
    two.second.write("b")
    await two.namespaces.load("E")
    before = two.first.repository.get("E")
    two.second.write("b", text="v2 of it")
    await two.namespaces.load("b")
    assert two.first.repository.get("E") is not before
    await two.namespaces.unload("b")
    assert two.ready() == " | "
    await two.namespaces.load("b")
    assert two.ready() == "E | b"


async def test_it_finishes_its_requests_before_that_model_is_unloaded(
    tmp_path: pathlib.Path,
) -> None:
    two = Two(tmp_path)
    two.first.write("E", "b")
    two.first.write("F", "E")
    two.second.write("b")
    for name in ("E", "F"):
        await two.namespaces.load(name)
    served = two.first.repository.get("F")
    served.may_stop.clear()
    unloading = asyncio.create_task(two.namespaces.unload("b"))
    await asyncio.sleep(0.1)
    assert two.ready() == " | b"
    served.may_stop.set()
    await unloading
    assert two.ready() == " | "


async def test_the_same_name_elsewhere_leaves_it_alone(tmp_path: pathlib.Path) -> None:
    two = Two(tmp_path)
    two.first.write("a")
    two.first.write("E", "a")
    two.second.write("a")
    assert await two.namespaces.load_all()
    before = two.first.repository.get("E")
    await two.second.repository.remove("a")
    assert two.ready() == "E a | "
    two.second.write("a", text="v2 of it")
    await two.second.repository.load("a")
    assert two.first.repository.get("E") is before
