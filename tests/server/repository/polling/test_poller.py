"""Polling: what comes, changes and goes is applied, and a store that cannot be read changes nothing (row 7.30)."""

import asyncio
import pathlib
import shutil

import pytest

from naiad.errors import InferenceError
from naiad.repository.lifecycle import State
from naiad.repository.plan import DUPLICATE
from naiad.repository.reading.listing import RepositoryListing
from naiad.repository.reading.reader import Scan
from naiad.repository.store import StoredModel
from tests.server.repository.polling.polls import QUIET_S, lines, polled, poller_of
from tests.server.repository.stores import FakeStore
from tests.server.repository.world import World


async def test_models_come_change_and_go(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    world.write("a", "a")
    await world.repository.load_all()
    poller = poller_of(world)
    await polled(poller)
    assert world.loads == ["a"]
    world.write("b", "b")
    world.write("a", "edited")
    await polled(poller)
    assert [world.repository.get(name).text for name in ("a", "b")] == ["edited", "b"]
    shutil.rmtree(tmp_path / "a")
    await polled(poller)
    assert world.states() == [("b", 1, State.READY, "")]
    assert await world.repository.names() == ["b"]
    with pytest.raises(InferenceError, match=r"'a' has no available versions: .*removed from"):
        world.repository.get("a")
    assert sorted(lines(caplog)) == [
        "poll: model 'a' is gone from " + str(tmp_path) + ": unloaded",
        "poll: model 'a' is loaded, because 1/model changed",
        "poll: model 'b' is loaded, because it is new",
    ]
    world.write("a", "back")
    await polled(poller)
    assert world.repository.get("a").text == "back"


@pytest.mark.looptime
async def test_a_model_that_is_gone_finishes_its_requests_and_leaves_the_index(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    world.write("a", "a")
    await world.repository.load_all()
    world.made[0].seconds = 60
    shutil.rmtree(tmp_path / "a")
    poller = poller_of(world)
    await polled(poller)
    assert world.states() == [("a", 1, State.UNLOADING, "")]
    await world.repository.aclose()
    assert world.made[0].stopped
    assert world.states() == []


async def test_a_slow_copy_is_loaded_once_and_whole(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    poller = poller_of(world, quiet=QUIET_S)
    for size in range(1, 5):
        world.write("m", "weights"[:size])
        await polled(poller)
        world.clock.advance(ns=4 * 10**9)
    world.write("m", "weights")
    await polled(poller)
    world.clock.advance(ns=QUIET_S * 10**9)
    assert world.loads == []
    assert await world.repository.names() == ["m"]
    await polled(poller)
    assert world.loads == ["weights"]
    assert lines(caplog) == [
        "poll: model 'm' waits until its files have not changed for 5 s, because it is new",
        "poll: model 'm' is loaded, because it is new",
    ]


async def test_a_store_that_cannot_be_read_changes_nothing_and_is_reported_once(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "models"
    world = World(root)
    world.write("m", "one")
    await world.repository.load_all()
    poller = poller_of(world)
    root.rename(tmp_path / "away")
    for _ in range(3):
        await polled(poller)
    assert world.repository.get("m").text == "one"
    (failed,) = lines(caplog)
    assert "there is no such folder" in failed
    assert "Its models stay as they are, and polling goes on every 15 s" in failed
    (tmp_path / "away").rename(root)
    world.write("m", "two")
    await polled(poller)
    assert world.repository.get("m").text == "two"
    assert f"poll: {root} can be read again" in lines(caplog)
    counts = {sample.labels[0][1]: sample.value for sample in poller.series().samples}
    assert counts == {"success": 1, "failure": 3}


async def test_a_store_that_cannot_be_read_keeps_its_models_and_those_of_others_go_on(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, gone = tmp_path / "a", tmp_path / "b"
    world = World(root, gone)
    for folder, name in ((gone, "lost"), (gone, "both"), (root, "both"), (root, "m"), (root, "x")):
        world.root = folder
        world.write(name, name)
    await world.repository.load_all()
    poller = poller_of(world)
    await polled(poller)
    gone.rename(tmp_path / "away")
    world.write("m", "edited")
    world.write("new", "new")
    world.write("lost", "not the one that serves")
    shutil.rmtree(root / "x")
    for _ in range(3):
        await polled(poller)
    repository = world.repository
    texts = {name: repository.get(name).text for name in ("lost", "m", "new")}
    assert texts == {"lost": "lost", "m": "edited", "new": "new"}
    assert ("both", None, State.UNAVAILABLE, DUPLICATE) in world.states()
    assert not repository.has("x")
    assert await repository.names() == ["both", "lost", "m", "new"]
    (line,) = (line for line in lines(caplog) if "cannot be read" in line)
    assert f"{gone}: there is no such folder" in line
    shutil.rmtree(root / "lost")
    (tmp_path / "away").rename(gone)
    shutil.rmtree(gone / "both")
    await polled(poller)
    assert {name: repository.get(name).text for name in ("lost", "both")} == {
        "lost": "lost",
        "both": "both",
    }


async def test_a_repository_whose_file_system_is_not_mounted_any_more_is_not_empty(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.write("m", "one")
    await world.repository.load_all()
    shutil.rmtree(tmp_path / "m")
    stat = pathlib.Path.stat

    class Elsewhere:
        st_dev = -1

    with monkeypatch.context() as patched:
        patched.setattr(
            pathlib.Path, "stat", lambda path: Elsewhere if path == tmp_path else stat(path)
        )
        await polled(poller_of(world))
    assert world.repository.get("m").text == "one"
    await polled(poller_of(world))
    assert world.states() == []


async def test_a_model_that_cannot_be_read_stays_while_others_change(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    world.write("m", "one")
    await world.repository.load_all()
    poller = poller_of(world)
    world.write("other", "other")
    scan = world.reader.scan

    async def scan_others(models: list[StoredModel]) -> Scan:
        others = await scan([model for model in models if model.name != "m"])
        return Scan(others.fingerprints, {"m": "no permission"}, {})

    monkeypatch.setattr(world.reader, "scan", scan_others)
    for _ in range(2):
        await polled(poller)
    assert [world.repository.get(name).text for name in ("m", "other")] == ["one", "other"]
    assert lines(caplog).count("poll: model 'm' stays as it is: no permission") == 1


async def test_a_name_in_two_repositories_is_unloaded_until_one_has_it(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path / "a", tmp_path / "b")
    world.write("m", "one")
    (tmp_path / "b").mkdir()
    await world.repository.load_all()
    poller = poller_of(world)
    shutil.copytree(tmp_path / "a" / "m", tmp_path / "b" / "m")
    for _ in range(2):
        await polled(poller)
        assert ("m", None, State.UNAVAILABLE, DUPLICATE) in world.states()
        with pytest.raises(InferenceError):
            world.repository.get("m")
    shutil.rmtree(tmp_path / "b" / "m")
    await polled(poller)
    assert world.repository.get("m").text == "one"


class NoThreads:
    """A reader of one model whose store responds at once: threads do not know virtual time."""

    locations = "/r"

    async def listing(self) -> RepositoryListing:
        models = [StoredModel(FakeStore("/r", "m"), "m")]
        return RepositoryListing(models=models, failures={}, remembered=frozenset())

    async def scan(self, _: object) -> Scan:
        return Scan({"m": {}}, {}, {})


@pytest.mark.looptime
async def test_polls_follow_each_other_and_come_earlier_while_a_change_waits(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    world.reader = NoThreads()  # type: ignore[assignment]
    poller = poller_of(world, interval=15, quiet=QUIET_S)
    loop = asyncio.get_running_loop()
    polls: list[float] = []
    world.repository.list_names = lambda names: polls.append(loop.time() - begin)
    begin = loop.time()
    poller.start()
    # The model waits for its files from the first poll on, because the clock stands still.
    await asyncio.sleep(36)
    await poller.aclose()
    await asyncio.sleep(100)
    assert [round(seconds) for seconds in polls] == [15, 20, 25, 30, 35]
