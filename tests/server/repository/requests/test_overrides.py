"""Loads with a config and files of the request (rows 7.15 to 7.18), in virtual time."""

import asyncio
import pathlib
import tempfile
from typing import Any

import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.repository.lifecycle import State
from naiad.repository.requests import overrides
from naiad.repository.requests.overrides import FileStore, Parameters, parse
from tests.server.repository.test_control import failure
from tests.server.repository.world import World

pytestmark = pytest.mark.looptime


@pytest.fixture(autouse=True)
def temporary(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The folder that folders of request files are made in."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def config_of(world: World) -> str:
    """The config that the one version of `m` was loaded with."""
    config: Any = world.repository._table.ready("m")[1].plan.config
    return str(config.text)


def folders(temporary: pathlib.Path) -> list[pathlib.Path]:
    return list(temporary.iterdir())


def files_below(folder: pathlib.Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def world(tmp_path: pathlib.Path) -> World:
    (tmp_path / "models").mkdir()
    return World(tmp_path / "models")


async def released(world: World) -> None:
    """Wait until every copy that nothing uses any more is removed."""
    await world.repository._unloads.join()
    while world.repository._reader._releases:
        await asyncio.wait(world.repository._reader._releases)


async def test_a_config_replaces_that_of_the_folder_until_the_folder_changes(world: World) -> None:
    repository = world.repository
    world.write("m", "one", config="disk")
    await repository.load("m", {"config": "given"})
    assert world.loads == ["one"]
    assert config_of(world) == "given"
    # As in the reference, whose own tests state it.
    await repository.load("m")
    assert config_of(world) == "given"
    world.write("m", "one", config="disk 2")
    await repository.load("m")
    assert config_of(world) == "disk 2"
    assert world.loads == ["one"] * 2


async def test_after_an_unload_the_config_is_that_of_the_folder(world: World) -> None:
    world.write("m", "one", config="disk")
    await world.repository.load("m", {"config": "given"})
    await world.repository.unload("m")
    await world.repository.load("m")
    assert config_of(world) == "disk"


async def test_the_same_config_again_loads_nothing_and_another_one_does(world: World) -> None:
    world.write("m", "one", config="disk")
    for config in ("disk", "given", "given", "other"):
        await world.repository.load("m", {"config": config})
    assert world.loads == ["one"] * 3


async def test_files_replace_the_folder_until_the_next_plain_load(
    world: World, temporary: pathlib.Path
) -> None:
    repository = world.repository
    world.write("m", "disk", version=3)
    await repository.load("m")
    files: Parameters = {"file:1/model": b"given", "file:/2/model": memoryview(b"too")}
    await repository.load("m", {"config": "given", **files})
    assert repository.ready_versions("m") == [1, 2]
    (folder,) = folders(temporary)
    assert files_below(folder / "m") == ["1/model", "2/model"]
    await repository.load("m")
    await released(world)
    assert repository.ready_versions("m") == [3]
    assert not folders(temporary)


async def test_a_model_may_consist_of_the_files_of_a_request_alone(
    world: World, temporary: pathlib.Path
) -> None:
    repository = world.repository
    request: Parameters = {"config": "", "file:1/model": b"given"}
    await repository.load("new", request)
    assert repository.get("new").text == "given"
    error = await failure(repository.load("new"))
    assert error.code is ErrorCode.INTERNAL
    assert "model not found in any model repository" in error.message
    assert repository.get("new").text == "given"
    await repository.unload("new")
    await released(world)
    assert not folders(temporary)


async def test_the_folder_is_removed_with_its_last_version_and_when_the_load_fails(
    world: World, temporary: pathlib.Path
) -> None:
    repository = world.repository
    await failure(repository.load("m", {"config": "", "file:1/model": b"bad"}))
    await failure(repository.load("m", {"config": "bad", "file:1/model": b"good"}))
    await released(world)
    assert not folders(temporary)
    await repository.load("m", {"config": "", "file:1/model": b"good"})
    assert len(folders(temporary)) == 1
    await repository.unload_all()
    assert not folders(temporary)


async def test_a_load_that_fails_leaves_the_old_one_serving(world: World) -> None:
    repository = world.repository
    world.write("m", "disk")
    await repository.load("m")
    requests: list[Parameters] = [{"config": "bad"}, {"config": "", "file:1/model": b"bad"}]
    for request in requests:
        error = await failure(repository.load("m", request))
        assert "goes on serving" in error.message or error.code is ErrorCode.INTERNAL
        assert world.states() == [("m", 1, State.READY, "")]
        assert repository.get("m").text == "disk"


async def test_a_bad_config_in_a_request_says_nothing_about_the_model(world: World) -> None:
    world.write("m", "disk")
    error = await failure(world.repository.load("m", {"config": "bad"}))
    assert error.message.startswith("failed to load 'm', failed to poll from model repository: ")
    assert world.states() == []


@pytest.mark.parametrize(
    ("parameters", "fragment"),
    [
        ({"colour": "red"}, "Unrecognized load parameter 'colour' with type 'string'"),
        ({"1/model": b""}, "Unrecognized load parameter '1/model' with type 'bytes'"),
        ({"file:1/model": "text"}, "Unrecognized load parameter 'file:1/model' with type 'string'"),
        (
            {"file:1/model": b""},
            "Load parameter 'config' must be specified for model file override",
        ),
        *(
            ({"config": "", f"file:{path}": b""}, fragment)
            for path, fragment in (
                ("..", "must stay within model directory"),
                ("../m/1/model", "must stay within model directory"),
                ("1/../../model", "must stay within model directory"),
                ("/../model", "must stay within model directory"),
                ("", "names a folder"),
                ("/", "names a folder"),
                (".", "names a folder"),
                ("1/", "names a folder"),
                ("1/a\0b", "not a valid name"),
                ("1/\ud800", "not a valid name"),
            )
        ),
    ],
)
async def test_parameters_that_cannot_be_used_are_a_failed_poll(
    parameters: Parameters, fragment: str, world: World, temporary: pathlib.Path
) -> None:
    error = await failure(world.repository.load("m", parameters))
    assert error.code is ErrorCode.INTERNAL
    assert error.message.startswith("failed to load 'm', failed to poll from model repository: ")
    assert fragment in error.message
    assert not folders(temporary)
    assert world.states() == []


@pytest.mark.parametrize(
    ("name", "paths", "fragment"),
    [
        ("m", ("1", "1/model"), "directory has been created as a file"),
        ("m", ("1/model", "1"), "directory has been created as a file"),
        ("m", ("1/" + "x" * 300,), "File name too long"),
        ("m" * 300, ("1/model",), "File name too long"),
    ],
)
def test_files_that_cannot_be_written_leave_nothing(
    name: str, paths: tuple[str, ...], fragment: str, temporary: pathlib.Path
) -> None:
    store = FileStore({f"file:{path}": b"" for path in paths})
    with pytest.raises(InferenceError, match=fragment):
        store.checkout(name)
    assert not folders(temporary)


def test_a_temporary_folder_that_cannot_be_written_is_named(
    temporary: pathlib.Path,
) -> None:
    temporary.rmdir()
    with pytest.raises(
        InferenceError, match=r"cannot be written to a new temporary folder.*TMPDIR"
    ):
        FileStore({"file:1/model": b""}).checkout("m")


def test_of_files_with_one_path_the_last_counts() -> None:
    store = FileStore({"file:1/model": b"one", "file:./1//model": b"two"})
    checkout = store.checkout("m")
    assert (checkout.folder / "1" / "model").read_bytes() == b"two"


def test_the_contents_are_not_kept_once_they_are_written() -> None:
    store = FileStore({"file:1/model": b"one"})
    store.checkout("m")
    assert not store._files


def test_a_request_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overrides, "MAX_FILES", 2)
    monkeypatch.setattr(overrides, "MAX_BYTES", 4)
    parse("m", {"config": "", "file:a": b"1234", "file:b": b""})
    with pytest.raises(InferenceError, match="3 files in one load, and 2 are allowed"):
        parse("m", {"config": "", "file:a": b"", "file:b": b"", "file:c": b""})
    with pytest.raises(InferenceError, match="5 bytes of files in one load, and 4 are allowed"):
        parse("m", {"config": "", "file:a": b"123", "file:b": memoryview(b"45")})
