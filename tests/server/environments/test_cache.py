"""The folder where environments are kept: once, whole, shared, and not for ever."""

import collections.abc
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import pytest
from typing_extensions import override

from naiad.environments import cache as environments_cache
from naiad.environments.cache import MARK, Cache, default_folder
from naiad.environments.programs import ClosedError

DAY = 86_400.0


def cache(folder: pathlib.Path, closing: threading.Event | None = None) -> Cache:
    return Cache(folder, closing or threading.Event())


class Builder:
    """Makes an environment that holds one file, and counts."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, folder: pathlib.Path, lock: int) -> None:
        self.times += 1
        (folder / "made").touch()


def test_it_is_made_once_for_all_servers(tmp_path: pathlib.Path) -> None:
    builder = Builder()
    first = cache(tmp_path / "c")
    folder = first.get("e", builder)
    assert (folder / "made").is_file()
    assert first.get("e", builder) == folder
    assert cache(tmp_path / "c").get("e", builder) == folder
    assert builder.times == 1


def test_two_makers_at_once_make_it_once(tmp_path: pathlib.Path) -> None:
    builder = Builder()
    inside, go_on = threading.Event(), threading.Event()

    def slowly(folder: pathlib.Path, lock: int) -> None:
        builder(folder, lock)
        inside.set()
        assert go_on.wait(60)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache(tmp_path).get, "e", slowly)
        assert inside.wait(60)
        second = pool.submit(cache(tmp_path).get, "e", slowly)
        assert concurrent.futures.wait([second], timeout=0.3).not_done
        go_on.set()
        assert first.result() == second.result()
    assert builder.times == 1


def test_a_failed_build_leaves_nothing_and_is_repeated(tmp_path: pathlib.Path) -> None:
    def failing(folder: pathlib.Path, lock: int) -> None:
        (folder / "half").touch()
        raise ValueError("it failed")

    ours = cache(tmp_path)
    with pytest.raises(ValueError, match="it failed"):
        ours.get("e", failing)
    assert not (tmp_path / "e").exists()
    builder = Builder()
    ours.get("e", builder)
    assert builder.times == 1


def test_the_remains_of_a_builder_that_died_are_removed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "e").mkdir(parents=True)
    (tmp_path / "e" / "half").touch()
    folder = cache(tmp_path).get("e", Builder())
    assert not (folder / "half").exists()
    assert (folder / "made").exists()


def test_an_installer_that_outlives_its_server_keeps_others_out(tmp_path: pathlib.Path) -> None:
    """The lock goes to programs that write into the folder, so that it lasts as long as they do."""
    reading, writing = os.pipe()
    orphans: list[subprocess.Popen[bytes]] = []

    def dying(folder: pathlib.Path, lock: int) -> None:
        command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        orphans.append(subprocess.Popen(command, stdin=reading, pass_fds=(lock,)))
        os.close(reading)
        raise ValueError("it failed")

    with pytest.raises(ValueError, match="it failed"):
        cache(tmp_path).get("e", dying)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        next_one = pool.submit(cache(tmp_path).get, "e", Builder())
        assert concurrent.futures.wait([next_one], timeout=0.3).not_done
        os.close(writing)
        assert orphans[0].wait(60) == 0
        assert next_one.result(60).is_dir()


def test_a_server_that_stops_does_not_wait_for_another_maker(tmp_path: pathlib.Path) -> None:
    closing = threading.Event()

    def meanwhile(folder: pathlib.Path, lock: int) -> None:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(cache(tmp_path, closing).get, "e", Builder())
            closing.set()
            with pytest.raises(ClosedError):
                waiting.result(60)

    cache(tmp_path).get("e", meanwhile)


class BuilderEnvironment(Builder):
    """Makes something like an environment."""

    @override
    def __call__(self, folder: pathlib.Path, lock: int) -> None:
        super().__call__(folder, lock)
        packages = folder / "lib" / "python3.11" / "site-packages"
        (packages / "numpy").mkdir(parents=True)
        (packages / "numpy" / "__init__.py").touch()
        (folder / "bin").mkdir()
        (folder / "bin" / "python").symlink_to(folder.parent / "interpreter")


def nothing(folder: pathlib.Path) -> None:
    """Do no harm."""
    (folder / "lib" / "python3.11" / "__pycache__").mkdir()
    (folder / "new").touch()


@pytest.mark.parametrize(
    ("harm", "made"),
    [
        (nothing, 1),
        (lambda folder: (folder.parent / "interpreter").unlink(), 2),
        (lambda folder: shutil.rmtree(folder / "lib/python3.11/site-packages/numpy"), 2),
        (lambda folder: (folder / "made").unlink(), 2),
        (shutil.rmtree, 2),
        (lambda folder: (folder / MARK).unlink(), 2),
        (lambda folder: (folder / MARK).write_text(""), 1),
    ],
    ids=["none", "interpreter", "package", "file", "all", "mark", "a mark without a list"],
)
@pytest.mark.parametrize("held", [False, True])
def test_a_damaged_one_is_built_again(
    tmp_path: pathlib.Path,
    harm: collections.abc.Callable[[pathlib.Path], object],
    made: int,
    *,
    held: bool,
) -> None:
    builder = BuilderEnvironment()
    ours = cache(tmp_path)
    (tmp_path / "interpreter").touch()
    folder = ours.get("e", builder)
    harm(folder)
    if not held:
        ours.close()
    assert ours.get("e", builder) == folder
    assert builder.times == made


def test_a_damaged_environment_that_another_server_uses_is_an_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments_cache, "POLL_S", 0.001)
    another = cache(tmp_path)
    folder = another.get("e", Builder())
    (folder / "made").unlink()
    with pytest.raises(OSError, match=r"made is missing.*another server uses it"):
        cache(tmp_path).get("e", Builder())
    another.close()
    builder = Builder()
    cache(tmp_path).get("e", builder)
    assert builder.times == 1


def test_unused_ones_go_after_some_days_and_used_ones_stay(tmp_path: pathlib.Path) -> None:
    stays, goes = cache(tmp_path), cache(tmp_path)
    for name in ("used", "recent", "old"):
        (stays if name == "used" else goes).get(name, Builder())
    goes.close()
    (tmp_path / "half.lock").touch()
    (tmp_path / "half").mkdir()
    for name, age in (("used", 40), ("recent", 20), ("old", 31)):
        os.utime(tmp_path / name / MARK, (1e9 - age * DAY, 1e9 - age * DAY))
    assert cache(tmp_path).remove_unused(days=30, now_s=1e9) == ["half", "old"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["recent", "used"]
    assert cache(tmp_path).remove_unused(days=0, now_s=2e9) == []


def test_using_one_makes_it_young_again(tmp_path: pathlib.Path) -> None:
    builder = Builder()
    folder = cache(tmp_path).get("e", builder)
    os.utime(folder / MARK, (1, 1))
    cache(tmp_path).get("e", builder)
    assert (folder / MARK).stat().st_mtime > DAY


def test_a_cache_that_cannot_be_written_is_used_as_it_is(tmp_path: pathlib.Path) -> None:
    """As in an image: here the locks cannot be opened, because folders have their names."""
    folder = cache(tmp_path).get("e", Builder())
    (tmp_path / "e.lock").unlink()
    (tmp_path / "e.lock").mkdir()
    assert cache(tmp_path).get("e", Builder()) == folder
    (tmp_path / "f.lock").mkdir()
    with pytest.raises(IsADirectoryError):
        cache(tmp_path).get("f", Builder())


def test_it_is_in_the_users_cache_folder() -> None:
    assert default_folder({}, "/home/u") == pathlib.Path("/home/u/.cache/naiad/environments")
    assert default_folder({"XDG_CACHE_HOME": "/x"}, "/home/u") == pathlib.Path(
        "/x/naiad/environments"
    )
    assert default_folder({"XDG_CACHE_HOME": "relative"}, "~") is None
