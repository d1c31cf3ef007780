"""Models of the same name in several repositories (row 7.37), in virtual time."""

import asyncio
import pathlib

import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.repository.lifecycle import State
from naiad.repository.requests.coordination import Coordination
from naiad.repository.requests.namespaces import NamespacedListener, Namespaces
from naiad.repository.version import VersionState
from tests.server.repository.test_control import failure
from tests.server.repository.test_nested_loads import World
from tests.server.repository.world import Progress, Served, World as FilesWorld

pytestmark = pytest.mark.looptime


class Servers:
    """Two repositories, `first` and `second`, and the models in each."""

    def __init__(
        self, folder: pathlib.Path, first: dict[str, list[str]], second: dict[str, list[str]]
    ) -> None:
        coordination = Coordination(1)
        self.worlds = [
            World(folder / name, asks=asks, coordination=coordination)
            for name, asks in (("first", first), ("second", second), ("own", {}))
        ]
        one, two, own = self.worlds
        self.namespaces = Namespaces[Served](
            {"first": one.own, "second": two.own}, own.own, coordination=coordination
        )
        for world in self.worlds:
            world.repository = self.namespaces

    def ready(self) -> list[str]:
        states = self.namespaces.states()
        return [state.name for state in states if state.state is State.READY]


def refusal(servers: Servers, name: str) -> InferenceError:
    with pytest.raises(InferenceError) as caught:
        servers.namespaces.get(name)
    return caught.value


async def test_a_name_of_two_repositories_serves_in_both_and_cannot_be_resolved(
    tmp_path: pathlib.Path,
) -> None:
    servers = Servers(tmp_path, {"x": [], "a": []}, {"x": [], "b": []})
    assert await servers.namespaces.load_all()
    assert servers.ready() == ["a", "x", "b", "x"]
    assert len(servers.namespaces.served()) == 4
    assert servers.namespaces.get("a").text == "a"
    assert servers.namespaces.ready_versions("b") == [1]
    error = refusal(servers, "x")
    assert error.code is ErrorCode.INVALID_ARG
    assert error.message.startswith(
        "There are 2 identifiers of model 'x' in global map, model namespace must be provided to resolve ambiguity."
    )
    with pytest.raises(InferenceError, match="namespace must be provided"):
        servers.namespaces.ready_versions("x")


async def test_a_name_that_no_repository_has_is_unknown_and_an_unloaded_one_is_not_found(
    tmp_path: pathlib.Path,
) -> None:
    servers = Servers(tmp_path, {"a": []}, {"b": []})
    await servers.namespaces.load("a")
    await servers.namespaces.unload("a")
    assert refusal(servers, "a").code is ErrorCode.NOT_FOUND
    assert refusal(servers, "nope").code is ErrorCode.INVALID_ARG
    assert servers.namespaces.ready_versions("nope") == []
    error = await failure(servers.namespaces.load("nope"))
    assert error.code is ErrorCode.INTERNAL
    assert "looked in first, second" in error.message


async def test_the_error_says_why_a_model_of_a_namespace_does_not_serve(
    tmp_path: pathlib.Path,
) -> None:
    stored, own = FilesWorld(tmp_path / "stored"), FilesWorld(tmp_path / "own")
    stored.write("config", "one", config="bad backend")
    stored.write("weights", "bad weights")
    (tmp_path / "own").mkdir()
    namespaces = Namespaces[Served](
        {"stored": stored.repository}, own.repository, coordination=Coordination(1)
    )
    assert not await namespaces.load_all()
    for name, reason in (("config", "config.pbtxt:1:1: bad backend"), ("weights", "cannot run")):
        with pytest.raises(InferenceError, match=f"'{name}' has no available versions: .*{reason}"):
            namespaces.get(name)


async def test_loads_and_unloads_of_a_name_concern_all_repositories(tmp_path: pathlib.Path) -> None:
    servers = Servers(tmp_path, {"x": []}, {"x": []})
    await servers.namespaces.load("x")
    assert servers.ready() == ["x", "x"]
    await servers.namespaces.unload("x")
    assert servers.ready() == []


async def test_a_load_that_fails_in_one_repository_succeeds_in_the_other(
    tmp_path: pathlib.Path,
) -> None:
    servers = Servers(tmp_path, {"x": ["x"]}, {"x": []})
    error = await failure(servers.namespaces.load("x"))
    assert "waits for itself" in error.message or "'x' waits for 'x'" in error.message
    assert servers.ready() == ["x"]


async def test_models_are_loaded_by_name_at_start(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers = Servers(tmp_path, {"x": [], "a": []}, {"x": [], "b": []})
    assert await servers.namespaces.load_all(["x"])
    assert servers.ready() == ["x", "x"]
    assert not await servers.namespaces.load_all(["b", "gone"])
    assert "failed to poll model 'gone': model not found in any model repository" in caplog.text


async def test_a_cycle_of_loads_over_repositories_is_refused(tmp_path: pathlib.Path) -> None:
    servers = Servers(tmp_path, {"a": ["b"]}, {"b": ["a"]})
    error = await failure(servers.namespaces.load("a"))
    assert "'b' waits for 'a' waits for 'b'" in error.message
    assert servers.ready() == []


async def test_dependents_of_other_repositories_go_too(tmp_path: pathlib.Path) -> None:
    servers = Servers(tmp_path, {"a": ["b"]}, {"b": [], "c": []})
    for name in ("a", "c"):
        await servers.namespaces.load(name)
    await servers.namespaces.unload("a", with_dependents=True)
    assert servers.ready() == ["c"]


async def test_at_the_end_a_model_finishes_before_those_of_other_repositories_that_it_needs(
    tmp_path: pathlib.Path,
) -> None:
    servers = Servers(tmp_path, {"a": ["b"]}, {"b": []})
    await servers.namespaces.load("a")
    servers.worlds[0].made[0].seconds = 1
    stopping = asyncio.create_task(servers.namespaces.unload_all())
    await asyncio.sleep(0.5)
    assert servers.ready() == ["b"]
    assert len(servers.namespaces.unloading()) == 1
    await stopping
    assert servers.ready() == []


def test_changes_are_shown_with_the_namespace() -> None:
    shown = Progress()
    progress = NamespacedListener(shown, "/models")
    progress.changed(VersionState(name="x", version=1, state=State.READY, reason=""))
    assert [state.name for state in shown.seen] == ["/models::x"]


async def test_each_repository_has_a_listing_of_its_own(tmp_path: pathlib.Path) -> None:
    servers = Servers(tmp_path, {"x": [], "a": []}, {"x": []})
    await servers.namespaces.load("a")
    listings = await servers.namespaces.listings(names=True)
    assert [(len(states), names) for states, names in listings] == [
        (0, []),
        (1, ["a", "x"]),
        (0, ["x"]),
    ]
