"""Temporary folders: those of killed processes are removed, and no others."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

from naiad.repository.temporary import TemporaryFolder, remove_leftovers

_OWNER = """
import sys, time
from naiad.repository.temporary import TemporaryFolder
folder = TemporaryFolder("load")
(folder.path / "m" / "1").mkdir(parents=True)
(folder.path / "m" / "1" / "model.py").touch()
print(folder.path, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary folders are made in the folder of the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_a_folder_is_removed_with_its_contents(tmp_path: pathlib.Path) -> None:
    folder = TemporaryFolder("load")
    (folder.path / "m").mkdir()
    folder.remove()
    folder.remove()
    assert not list(tmp_path.iterdir())


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_live_one_stays(
    tmp_path: pathlib.Path,
) -> None:
    mine = TemporaryFolder("agent")
    command = [sys.executable, "-c", _OWNER]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        folder = pathlib.Path(owner.stdout.readline().strip())
        remove_leftovers()
        assert (folder / "m" / "1" / "model.py").exists()
        owner.send_signal(signal.SIGKILL)
    remove_leftovers()
    assert not folder.exists()
    assert mine.path.exists()
    mine.remove()


def test_what_is_not_such_a_folder_stays(tmp_path: pathlib.Path) -> None:
    (tmp_path / "naiad-notes").mkdir()
    (tmp_path / "naiad-file").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".naiad-lock").touch()
    (tmp_path / "naiad-link").symlink_to(elsewhere)
    before = sorted(tmp_path.rglob("*"))
    remove_leftovers()
    assert sorted(tmp_path.rglob("*")) == before


def test_what_an_interrupted_removal_left_is_removed_by_the_next(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "naiad-load-x"
    left.mkdir()
    for name in (".naiad-lock", "a", "b"):
        (left / name).touch()

    def fails(path: pathlib.Path) -> None:
        raise OSError("the disk is busy")

    with monkeypatch.context() as patched:
        patched.setattr(pathlib.Path, "unlink", fails)
        remove_leftovers()
    assert left.exists()
    remove_leftovers()
    assert not left.exists()
