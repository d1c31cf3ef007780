"""When a model's folder counts as changed (row 7.25)."""

import collections.abc
import os
import pathlib
import typing

import pytest

from naiad.repository.polling import fingerprint as scan
from naiad.repository.polling.fingerprint import changed_paths, fingerprint, in_words


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A model with a config, a label file and two versions, one of them empty."""
    (tmp_path / "1" / "sub").mkdir(parents=True)
    (tmp_path / "2").mkdir()
    for name in ("config.pbtxt", "labels.txt", "1/model.py", "1/sub/weights"):
        (tmp_path / name).write_text(name)
    return tmp_path


def older(folder: pathlib.Path) -> None:
    os.utime(folder / "1" / "sub" / "weights", (1, 1))


def larger(folder: pathlib.Path) -> None:
    path = folder / "1" / "model.py"
    status = path.stat()
    path.write_text("more than there was")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES: dict[str, collections.abc.Callable[[pathlib.Path], object]] = {
    "a file is older than before": older,
    "a file has another size": larger,
    "a file is gone": lambda folder: (folder / "labels.txt").unlink(),
    "a file has come": lambda folder: (folder / "2" / "model.py").write_text(""),
    "an empty version is gone": lambda folder: (folder / "2").rmdir(),
    "an empty version has come": lambda folder: (folder / "3").mkdir(),
    "the config was touched": lambda folder: os.utime(folder / "config.pbtxt", (2, 2)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_shows(
    folder: pathlib.Path, change: collections.abc.Callable[[pathlib.Path], object]
) -> None:
    before = fingerprint(folder)
    assert fingerprint(folder) == before
    change(folder)
    assert fingerprint(folder) != before


def test_files_that_python_writes_during_a_load_are_not_a_change(folder: pathlib.Path) -> None:
    before = fingerprint(folder)
    for place in (folder, folder / "1"):
        (place / "__pycache__").mkdir()
        (place / "__pycache__" / "model.cpython-311.pyc").write_text("")
    assert fingerprint(folder) == before


def test_a_link_to_a_folder_above_it_ends(folder: pathlib.Path) -> None:
    (folder / "1" / "loop").symlink_to(folder / "1", target_is_directory=True)
    (folder / "1" / "nowhere").symlink_to(folder / "absent")
    assert {path for path, _, _ in fingerprint(folder)["1"]} == {"1/model.py", "1/sub/weights"}


def test_a_folder_that_is_gone_holds_nothing(tmp_path: pathlib.Path) -> None:
    assert fingerprint(tmp_path / "absent") == {}


def test_a_folder_that_disappears_during_the_scan_is_absent(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "1" / "kept").mkdir(parents=True)
    (tmp_path / "1" / "kept" / "weights").touch()
    gone = tmp_path / "1" / "gone"
    gone.mkdir()
    scandir = os.scandir

    def remove_and_scan(path: "str | pathlib.Path") -> typing.Any:
        if pathlib.Path(path) == gone:
            gone.rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", remove_and_scan)
    files = fingerprint(tmp_path)
    assert {path for path, _, _ in files["1"]} == {"1/kept/weights"}


def test_the_paths_that_changed_are_named(folder: pathlib.Path) -> None:
    before = fingerprint(folder)
    (folder / "1" / "model.py").write_text("longer than before")
    (folder / "2").rmdir()
    (folder / "new.txt").touch()
    assert changed_paths(before, fingerprint(folder)) == {"1/model.py", "2/", "new.txt"}
    assert in_words({"b", "a", "d", "c", "e"}) == "a, b, c and 2 more"


def test_an_entry_with_too_many_files_counts_as_unchanged(
    folder: pathlib.Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "MAX_FILES", 100)
    outside = tmp_path_factory.mktemp("outside")
    for number in range(30):
        (outside / str(number)).mkdir(parents=True)
        for name in "abcd":
            (outside / str(number) / name).touch()
    (folder / "3").symlink_to(outside)
    before = fingerprint(folder)
    assert before["3"] == {("3: too many files", 0, 100)}
    (outside / "7" / "a").write_text("changed")
    assert fingerprint(folder) == before
    (folder / "1" / "model.py").write_text("longer than before")
    assert changed_paths(before, fingerprint(folder)) == {"1/model.py"}
