"""`make bench-against`: ratios, noise and verdicts from numbers, processor time of process trees, and one short run."""

import math
import os
import pathlib
import subprocess
import sys
import typing

import pytest

from benchmarks import process_time
from benchmarks.against import processors, report, run, traffic
from benchmarks.against.checkouts import program_of
from benchmarks.against.ratios import (
    AGAIN,
    OTHER,
    THIS,
    Cell,
    Round,
    Slice,
    Verdict,
    is_missed,
    means,
    result,
    verdict_of,
)
from benchmarks.load import LoadError
from tests.reference.process import ServerProcess

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_CELL = Cell("HTTP JSON", "tiny", "same", 8)


def _round(other: float, this: float, again: float) -> Round:
    """Microseconds per request; half of a processor is busy."""
    sides = {OTHER: other, THIS: this, AGAIN: again}
    return {side: Slice(each * 1e-6, 0.5e6 / each) for side, each in sides.items()}


def test_a_ratio_is_the_median_of_pairs_and_the_noise_is_that_of_the_other_checkout_with_itself() -> (
    None
):
    rounds = [_round(100, 102, 100), _round(200, 206, 200), _round(50, 52, 50), _round(10, 30, 10)]

    outcome = result(_CELL, [[each] for each in (*rounds, _round(100, 103, 104.04))])

    assert outcome.ratio == pytest.approx(1.03)
    assert outcome.noise == pytest.approx(1.0)
    assert outcome.rate == pytest.approx(1 / 1.03)
    assert outcome.microseconds == pytest.approx(102)
    assert outcome.error == pytest.approx(1.2533 * 1.4826 * 0.01 / 1.03 / math.sqrt(5), rel=0.05)


def test_rounds_after_one_start_count_as_one() -> None:
    lucky, usual = [_round(100, 150, 100)] * 30, [_round(100, 102, 100)]
    assert result(_CELL, [lucky, usual, usual]).ratio == pytest.approx(1.02)


def test_a_machine_that_slows_down_evenly_changes_no_ratio() -> None:
    assert result(_CELL, [[_round(100, 110, 121)]] * 4).ratio == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("ratio", "margin", "expected"),
    [
        (1.08, 0.0, Verdict.HOLDS),
        (1.09, 0.005, Verdict.MISSED),
        (1.09, 0.02, Verdict.NOISE),
        (3.0, math.inf, Verdict.NOISE),
    ],
)
def test_a_bound_is_missed_only_beyond_the_noise(
    ratio: float, margin: float, expected: Verdict
) -> None:
    assert verdict_of(ratio, bound=1.08, margin=margin) is expected


def test_a_wire_has_the_geometric_mean_of_its_cells_and_a_bound_of_its_own() -> None:
    cells = [Cell("gRPC", "tiny", "same", 1), Cell("gRPC", "tiny", "same", 8), _CELL]
    results = [
        result(cells[0], [[_round(100, 107, 100)]] * 9),
        result(cells[1], [[_round(100, 101, 100)]] * 9),
        result(cells[2], [[_round(100, 90, 100)]] * 9),
    ]

    grpc, http = means(results)

    assert grpc.wire == "gRPC"
    assert grpc.ratio == pytest.approx(math.sqrt(1.07 * 1.01))
    assert [each.verdict for each in results] == [Verdict.HOLDS] * 3
    assert (grpc.verdict, http.verdict) == (Verdict.MISSED, Verdict.HOLDS)
    assert is_missed(results)
    assert not is_missed(results[2:])
    assert "Missed: gRPC." in report.text(results)


def test_few_starts_miss_nothing_for_certain() -> None:
    outcome = result(_CELL, [[_round(100, 300, 100)] * 9] * 3)
    assert outcome.verdict is Verdict.NOISE


def test_every_wire_has_each_model_and_number_of_connections_and_changing_requests() -> None:
    cells = traffic.cells((1, 8, 64))
    assert len(set(cells)) == len(cells)
    for wire in traffic.WIRES:
        plain = [cell for cell in cells if cell.wire == wire and cell.requests == traffic.SAME]
        assert len(plain) == 9
        assert {cell.requests for cell in cells if cell.wire == wire} >= {"same", "ids", "shapes"}
    one_change = [cell for cell in cells if cell.requests not in {traffic.SAME, traffic.CHANGING}]
    assert {each.connections for each in one_change} == {1, 8}


def test_the_first_cells_send_what_clients_send() -> None:
    cells = traffic.cells((1, 8, 64))
    assert {cell.requests for cell in cells[:9]} == {traffic.CHANGING}
    assert cells[9].requests == traffic.NEW_CONNECTIONS


def test_no_cell_is_measured_twice_with_one_number_of_connections() -> None:
    cells = traffic.cells((8,))
    assert len(cells) == len(set(cells))


def test_the_time_of_a_process_holds_that_of_its_children_also_of_those_that_have_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.1: pass\n"
    code = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\n"
        f"child = subprocess.Popen([sys.executable, '-c', {burn + 'print(1, flush=True); input()'!r}], stdin=-1, stdout=-1)\n"
        "child.stdout.readline(); print(1, flush=True); input()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        of_all = process_time.of_tree(process.pid)
    finally:
        process.communicate(b"\n")
    assert of_all >= 0.2
    assert process_time.of_tree(process.pid) == 0.0  # it has ended
    assert process_time.of_tree(os.getpid()) >= 0.2  # and was waited for


@pytest.mark.parametrize(
    ("allowed", "servers", "load"),
    [({0, 1}, {1}, {0}), ({2, 3, 5, 7}, {7}, {2, 3, 5}), ({4}, {4}, {4})],
)
def test_servers_have_one_processor_and_the_load_has_the_others(
    allowed: set[int], servers: set[int], load: set[int]
) -> None:
    assert processors.split(allowed) == (servers, load)


def test_a_slice_over_grpc_is_a_number_of_calls_that_is_the_same_for_each_connection_and_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(traffic, "send", lambda *_, **__: (0, 6_400.0))
    server = typing.cast("ServerProcess", None)

    def calls(wire: str, connections: int) -> int:
        cell = Cell(wire, "tiny", traffic.SAME, connections)
        found = traffic.amount(server, cell, seconds=1)
        assert found.slices == 4
        return found.calls

    assert calls(traffic.UNARY, 1) == 1_600
    assert calls(traffic.STREAM, 8) == 48  # of 32 messages each, in 8 equal parts
    assert calls(traffic.STREAM, 64) == 64  # not fewer than one for each
    by_time = traffic.amount(server, Cell(traffic.UNARY, "tiny", traffic.IDS, 8), seconds=1)
    assert by_time == traffic.Amount(4, 0.25)
    # wrk knows whole seconds only.
    assert traffic.amount(server, _CELL, seconds=2) == traffic.Amount(1, 2)


def test_what_is_started_while_bound_stays_on_those_processors() -> None:
    before = os.sched_getaffinity(0)
    only = {max(before)}
    with processors.bound(only):
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1)
    try:
        assert os.sched_getaffinity(process.pid) == only
        assert os.sched_getaffinity(0) == before
    finally:
        process.communicate(b"\n")


def test_a_folder_that_is_not_a_checkout_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(LoadError, match="is not a checkout of Naiad"):
        program_of(tmp_path, name="other")


def test_a_checkout_is_served_by_its_own_code_and_environment(tmp_path: pathlib.Path) -> None:
    package = tmp_path / "server" / "naiad"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    python = tmp_path / ".venv" / "bin" / "python"
    python.symlink_to(sys.executable)

    program = program_of(tmp_path, name="other")

    assert program.command == (str(python), "-m", "naiad", "serve")
    assert program.environ["PYTHONPATH"] == str(tmp_path / "server")
    python.unlink()
    python.write_text("#!/bin/sh\necho /elsewhere/naiad/__init__.py\n")
    python.chmod(0o755)
    with pytest.raises(LoadError, match="imports /elsewhere"):
        program_of(tmp_path, name="other")


@pytest.mark.timeout(600)
def test_a_short_run_measures_every_wire(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This checkout beside itself. No figure is looked at: a test cannot know how busy the machine is."""
    pytest.importorskip("matplotlib")
    _need_tools()
    monkeypatch.setattr(run.Plan, "warm_up", property(lambda plan: plan.cells[:1]))
    monkeypatch.setattr(traffic, "amount", _little)
    (tmp_path / "server").symlink_to(_ROOT / "server")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / ".venv" / "bin" / "python").chmod(0o755)
    words = [str(tmp_path), "--starts=1", "--rounds=1", "--connections=2", "--only=ids"]

    status = run.main([*words, f"--plot={tmp_path / 'plot.png'}"])

    printed, complaints = capsys.readouterr()
    assert status == 0, printed + complaints  # after one start nothing is missed for certain
    rows = [line for line in printed.splitlines() if "| ids " in line]
    assert [row.split("|")[1].strip() for row in rows] == list(traffic.WIRES)
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def _little(server: ServerProcess, cell: Cell, *, seconds: int) -> traffic.Amount:
    """What shows that a cell can be measured."""
    if cell.wire == traffic.STREAM:
        return traffic.Amount(1, seconds, cell.connections)
    return traffic.Amount(1, 0.1 if cell.wire == traffic.UNARY else seconds)


def _need_tools() -> None:
    from benchmarks.load import require_tools  # noqa: PLC0415 - for this test alone

    try:
        require_tools()
    except LoadError as error:
        pytest.skip(str(error))
