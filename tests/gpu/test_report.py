"""What a run of the GPU checks says: of a machine without a GPU, and of checks that pass, fail and are skipped."""

import json
import pathlib
import signal

import pytest

from tests.gpu import machine
from tests.gpu.__main__ import main
from tests.gpu.bench import Bench
from tests.gpu.listing import Check
from tests.gpu.machine import Gpu
from tests.gpu.report import NO_GPU, Outcome, status, table
from tests.gpu.running import run

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


def right(bench: Bench) -> str:
    bench.step("the card", lambda: bench.gpu.name)
    return "right"


def breaks(bench: Bench) -> str:
    def wrong() -> str:
        raise AssertionError(f"differs on {bench.gpu.name}")

    (bench.folder / "server.log").write_text("what the server wrote")
    bench.step("values", wrong)
    bench.step("shape", lambda: "64")
    return "the rest"


def hangs(bench: Bench) -> str:
    while True:
        signal.pause()


def test_a_check_tells_all_it_saw_fails_by_an_exception_and_is_skipped_without_its_packages(
    tmp_path: pathlib.Path,
) -> None:
    checks = [
        Check("broken", (), breaks, alone=True),
        Check("good", ("numpy",), right),
        Check("absent", ("no_such_package",), breaks),
        Check("hanging", (), hangs, 2),
    ]
    outcomes = list(run(checks, CARD, tmp_path, seconds=60, side_by_side=2))
    assert sorted((each.name, each.state, each.detail, each.log) for each in outcomes) == [
        ("absent", "skipped", "not installed: no_such_package", ""),
        ("broken", "failed", "values: WRONG, AssertionError: differs on NVIDIA H200; shape: 64; the rest", "what the server wrote"),
        ("good", "passed", "the card: NVIDIA H200; right", ""),
        ("hanging", "failed", "not done after 2 s: ", ""),
    ]  # fmt: skip
    assert outcomes[-1].name == "broken", "what wants the GPU for itself waits for the others"
    shown = table(outcomes).splitlines()
    assert shown[-1] == "1 passed, 2 failed, 1 skipped"
    assert status(outcomes) == 1
    states = [each.state for each in run(checks, CARD, tmp_path, seconds=-1)]
    assert states == ["skipped"] * 4


def test_a_run_in_which_nothing_passes_is_not_a_success() -> None:
    assert status([Outcome("a", "passed", "", 1), Outcome("b", "skipped", "", 0)]) == 0
    assert status([Outcome("b", "skipped", "", 0)]) == 1
