"""Namespaces share the limit of memory, and a name that is evicted in one of them is still a name that it has (rows 7.37, 7.38)."""

import pathlib

import pytest

from naiad.core.response import InferResponse
from naiad.engine.memory.evicted import EvictedModels
from naiad.engine.model import Model
from naiad.errors import InferenceError
from naiad.repository.lifecycle import State
from naiad.repository.manager import Repository
from naiad.repository.requests.namespaces import Namespaces
from tests.server.engine.memory.pool_world import World, request


class Servers:
    """Two namespaces, `first` and `second`, within one limit of 250 bytes."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.world = World(folder / "own", limit=250)
        self.roots = {name: folder / name for name in ("first", "second")}
        for root in (folder / "own", *self.roots.values()):
            root.mkdir()
        self.repositories: dict[str, Repository[Model]] = {
            name: self.world.add(root, namespace=name) for name, root in self.roots.items()
        }
        self.namespaces = Namespaces[Model](
            self.repositories, self.world.repository, coordination=self.world.coordination
        )

    def write(self, namespace: str, name: str) -> None:
        """A model that takes 100 bytes."""
        self.world.root = self.roots[namespace]
        self.world.write(**{name: 100})

    def states(self) -> dict[str, str]:
        """READY or the reason, by namespace and name."""
        return {
            f"{namespace}::{state.name}": state.reason or state.state.value
            for namespace, repository in self.repositories.items()
            for state in repository.states()
        }

    async def load_all(self) -> None:
        """Load one after the other, so that the first ones are the least recently used."""
        for repository in self.repositories.values():
            for name in await repository.names():
                await repository.load(name)
        await self.world.settled(lambda: State.UNLOADING.value not in self.states().values())


@pytest.fixture
def servers(tmp_path: pathlib.Path) -> Servers:
    return Servers(tmp_path)


async def test_a_load_in_one_namespace_unloads_the_least_recently_used_model_of_any(
    servers: Servers,
) -> None:
    for namespace, name in (("first", "a"), ("second", "b"), ("second", "c")):
        servers.write(namespace, name)
    await servers.load_all()
    assert servers.states() == {"first::a": "evicted", "second::b": "READY", "second::c": "READY"}
    assert servers.namespaces.evictions_count == 1


async def test_models_of_one_name_count_each_for_themselves(servers: Servers) -> None:
    for namespace, name in (("first", "x"), ("second", "x"), ("second", "y")):
        servers.write(namespace, name)
    await servers.load_all()
    assert servers.states() == {"first::x": "evicted", "second::x": "READY", "second::y": "READY"}
    with pytest.raises(InferenceError, match="namespace must be provided"):
        servers.namespaces.get("x")
    assert servers.namespaces.evicted("x") == {}


async def test_a_request_loads_an_evicted_model_of_a_namespace_again(servers: Servers) -> None:
    for namespace, name in (("first", "a"), ("second", "b"), ("second", "c")):
        servers.write(namespace, name)
    await servers.load_all()
    with pytest.raises(InferenceError, match="evicted"):
        servers.namespaces.get("a")
    models = EvictedModels(servers.namespaces, wait_seconds=60, clock=servers.world.clock)
    responses: list[InferResponse] = []
    model = models.find("a", -1)
    assert model is not None
    model.infer(request("a"), responses.append)
    await servers.world.settled(lambda: bool(responses))
    assert responses[0].error is None
    assert servers.states()["first::a"] == "READY"
    assert servers.states()["second::b"] in {"evicted", "UNLOADING"}
