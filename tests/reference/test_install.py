"""The reference environment: built once, whole or not at all. The build's commands are replaced, nothing is fetched."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.reference import install as module
from tests.reference.install import ReferenceUnavailableError, install


class Builds:
    """Stands in for the commands of a build and counts them."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.fails = False
        self.meeting: threading.Barrier | None = None

    def run(self, command: list[str]) -> None:
        self.commands.append(command)
        if self.meeting is not None:
            # Builds that run side by side meet here; one alone goes on after a moment.
            with contextlib.suppress(threading.BrokenBarrierError):
                self.meeting.wait(timeout=0.2)
        if self.fails:
            raise ReferenceUnavailableError("no network")


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    found = Builds()
    monkeypatch.setattr(module, "_run", found.run)
    monkeypatch.setattr(module, "_place_stub", lambda _environment: None)
    return found


def test_an_environment_is_built_once(tmp_path: Path, builds: Builds) -> None:
    first = install(cache=tmp_path)
    count = len(builds.commands)
    assert install(cache=tmp_path) == first
    assert first.root.is_dir()
    assert len(builds.commands) == count > 0


def test_two_that_start_at_once_share_one_build(tmp_path: Path, builds: Builds) -> None:
    builds.meeting = threading.Barrier(2)
    with ThreadPoolExecutor(4) as pool:
        roots = {
            future.result().root
            for future in [pool.submit(install, cache=tmp_path) for _ in range(4)]
        }
    assert len(roots) == 1
    assert len([command for command in builds.commands if "venv" in command]) == 1


def test_a_build_that_fails_leaves_nothing_behind(tmp_path: Path, builds: Builds) -> None:
    builds.fails = True
    with pytest.raises(ReferenceUnavailableError, match="no network"):
        install(cache=tmp_path)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    builds.fails = False
    assert install(cache=tmp_path).root.is_dir()


def test_other_packages_make_another_environment(
    tmp_path: Path, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = install(cache=tmp_path)
    monkeypatch.setattr(module, "PACKAGES", ("nvidia-pytriton==0.8.0",))
    assert install(cache=tmp_path).root != first.root


def test_the_environments_own_programs_come_first(tmp_path: Path, builds: Builds) -> None:
    environment = install(cache=tmp_path)
    assert environment.variables()["PATH"].startswith(f"{environment.root}/bin:")
    assert "PYTHONPATH" not in environment.variables()
