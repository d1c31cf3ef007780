"""The profile of the event loop runs with the server as it is now; no figure is looked at."""

import pathlib
import subprocess
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_profile_has_its_tables() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.loop_profile", "--rounds=2", "--steps"],
        cwd=_ROOT,
        env={"PYTHONPATH": "server:operator:."},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "head_template.py HeadTemplate.read" in finished.stdout
    assert "  1.00 /repository/model_table.py ModelTable.get" in finished.stdout
    assert "| **together** |" in finished.stdout
    assert [line.split("|")[1].strip() for line in finished.stdout.splitlines()[-2:]] == ["1", "16"]
