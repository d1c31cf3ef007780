"""`naiad-operator report`: the archive's file."""

import pathlib

import pytest

from naiad_operator import cli


def test_a_file_that_cannot_be_written_is_said_before_anything_is_read(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "missing" / "a.tar.gz"
    assert cli.main(["report", "-o", str(path)]) == 1
    assert capsys.readouterr().err == (
        f"naiad-operator: cannot write {path}: No such file or directory: choose another file with --output\n"
    )
