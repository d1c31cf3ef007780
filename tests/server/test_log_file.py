"""The file of the log under a tool that renames, removes or empties it, and on a disk that fills up."""

import errno
import os
import pathlib

import pytest

from naiad.log_file import LOOK_S, LogFile


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "naiad.log"


def test_a_file_that_was_renamed_is_made_again_within_a_second(
    path: pathlib.Path, clock: Clock
) -> None:
    path.write_text("before\n")
    file = LogFile(str(path), now_s=clock)
    file.write("one\n")
    rotated = path.rename(path.with_suffix(".1"))
    file.write("two\n")
    assert not path.exists()
    clock.now_s += LOOK_S
    file.write("three\n")
    assert rotated.read_text() == "before\none\ntwo\n"
    assert path.read_text() == "three\n"
    file.close()


@pytest.mark.parametrize("is_made", [True, False], ids=["another one", "none"])
def test_a_file_that_was_removed_is_made_again(
    path: pathlib.Path, clock: Clock, *, is_made: bool
) -> None:
    file = LogFile(str(path), now_s=clock)
    path.unlink()
    if is_made:
        path.write_text("theirs\n")
    clock.now_s += LOOK_S
    file.write("ours\n")
    assert path.read_text() == "theirs\n" * is_made + "ours\n"
    file.close()


def test_a_file_that_was_emptied_goes_on_from_its_beginning(
    path: pathlib.Path, clock: Clock
) -> None:
    file = LogFile(str(path), now_s=clock)
    file.write("one\n")
    os.truncate(path, 0)
    file.write("two\n")
    assert path.read_text() == "two\n"
    file.close()


def test_a_file_that_cannot_be_made_again_is_said_once_and_the_old_one_gets_the_lines(
    path: pathlib.Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    file = LogFile(str(path), now_s=clock)
    moved = path.parent.rename(path.parent.with_name("moved"))
    for line in ("one\n", "two\n", "three\n"):
        clock.now_s += LOOK_S
        file.write(line)
    assert (moved / path.name).read_text() == "one\ntwo\nthree\n"
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "was renamed or removed and cannot be opened again: No such file or directory" in said
    path.parent.mkdir()
    clock.now_s += LOOK_S
    file.write("four\n")
    assert path.read_text() == "four\n"
    file.close()


def test_a_line_that_a_full_disk_cut_is_ended_before_the_next_one(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LogFile(str(path))
    write, room = os.write, [3]

    def short(descriptor: int, data: memoryview) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = write(descriptor, data[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", short)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            file.write("first\n")
    room[0] = 1000
    file.write("second\n")
    file.write("third\n")
    assert path.read_text() == "fir\nsecond\nthird\n"
    file.close()


def test_text_that_is_not_unicode_is_escaped(path: pathlib.Path) -> None:
    file = LogFile(str(path))
    file.write("\ud800 é\n")
    file.close()
    assert path.read_text() == "\\ud800 é\n"
