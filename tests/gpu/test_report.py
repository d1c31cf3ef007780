"""What a run of the GPU checks says: of a machine without a GPU, and of checks that pass, fail and are skipped."""

import json
import pathlib

import pytest

from tests.gpu import machine
from tests.gpu.__main__ import main, run
from tests.gpu.checks import Bench, Check
from tests.gpu.machine import Gpu
from tests.gpu.report import NO_GPU, Outcome, status, table

CARD = Gpu("NVIDIA H200", (9, 0), "580.1")


def test_without_a_gpu_it_says_so_and_checks_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "find_gpu", lambda: "NVIDIA's driver is missing")
    assert main(["--json", str(tmp_path / "a" / "found.json")]) == NO_GPU
    assert (
        "There is no GPU on this machine, so that nothing was checked: NVIDIA's driver is missing."
        in capsys.readouterr().out
    )
    found = json.loads((tmp_path / "a" / "found.json").read_text())
    assert (found["gpu"], found["checks"]) == (None, [])


def test_a_check_fails_by_an_exception_and_is_skipped_without_its_packages(
    tmp_path: pathlib.Path,
) -> None:
    def breaks(bench: Bench) -> str:
        raise AssertionError(f"differs on {bench.gpu.name}")

    checks = [
        Check("good", ("numpy",), lambda bench: "right"),
        Check("broken", (), breaks),
        Check("absent", ("no_such_package",), breaks),
    ]
    outcomes = list(run(checks, CARD, tmp_path, 60))
    assert [(each.state, each.detail) for each in outcomes] == [
        ("passed", "right"),
        ("failed", "AssertionError: differs on NVIDIA H200"),
        ("skipped", "not installed: no_such_package"),
    ]
    shown = table(outcomes).splitlines()
    assert shown[0].split() == ["good", "passed", "0.0", "s", "right"]
    assert shown[-1] == "1 passed, 1 failed, 1 skipped"
    assert status(outcomes) == 1
    assert [each.state for each in run(checks, CARD, tmp_path, -1)] == ["skipped"] * 3


def test_a_run_in_which_nothing_passes_is_not_a_success() -> None:
    assert status([Outcome("a", "passed", "", 1), Outcome("b", "skipped", "", 0)]) == 0
    assert status([Outcome("b", "skipped", "", 0)]) == 1
