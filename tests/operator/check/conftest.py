"""A command line of `naiad-operator check` for documents."""

import pathlib
import typing

import pytest

from naiad_operator import cli
from naiad_operator.api.manifests import yaml_text
from tests.operator.check.lines import RUN


@pytest.fixture
def check(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> RUN:
    """Checks documents; returns the exit status and the lines without file and line."""

    def run(*documents: typing.Any, options: typing.Sequence[str] = ()) -> tuple[int, list[str]]:
        path = tmp_path / "service.yaml"
        path.write_text(yaml_text.write(documents))
        status = cli.main(["check", "-q", "-f", str(path), *options])
        lines = capsys.readouterr().err.splitlines()
        return status, [
            line.removeprefix(f"{path}:").partition(": ")[2] if line.startswith(str(path)) else line
            for line in lines
        ]

    return run
