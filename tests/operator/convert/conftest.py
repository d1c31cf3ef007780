"""Runs `naiad-operator convert`."""

import pathlib

import pytest

from naiad_operator import cli
from naiad_operator.api.manifests import yaml_text
from tests.operator.convert.triton import RUN, Converted, Object


@pytest.fixture
def convert(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> RUN:
    """Converts objects, and holds `check` against every result that convert calls valid."""

    def run(*objects: Object, text: str = "") -> Converted:
        path, made = tmp_path / "triton.yaml", tmp_path / "naiad.yaml"
        path.write_text(text or yaml_text.write(objects))
        status = cli.main(["convert", "-f", str(path)])
        out, err = capsys.readouterr()
        made.write_text(out)
        if out:
            # A service may also be valid and serve nothing useful.
            assert cli.main(["check", "-q", "-f", str(made)]) <= status, capsys.readouterr().err
            capsys.readouterr()
        lines = [line.removeprefix(f"{path}:").partition(": ")[2] for line in err.splitlines()]
        return Converted(status, yaml_text.read(out), lines)

    return run
