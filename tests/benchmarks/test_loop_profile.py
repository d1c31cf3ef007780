"""The profile of the event loop runs with the server as it is now; no figure is looked at."""

import pathlib
import subprocess
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_profile_has_its_tables() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.micro.loop_profile", "--rounds=2", "--steps"],
        cwd=_ROOT,
        env={"PYTHONPATH": "server:operator:."},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "head_template.py HeadTemplate.read" in finished.stdout
    assert "  1.00 /engine/engine.py ServingEngine.look_up" in finished.stdout
    assert "| **together** |" in finished.stdout
    rows = [line.replace(" ", "").split("|")[1:3] for line in finished.stdout.splitlines()[-4:]]
    assert rows == [["repeated", "1"], ["repeated", "16"], ["changing", "1"], ["changing", "16"]]
