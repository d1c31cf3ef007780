"""Ensembles of three Python models beside Triton: requests per second and processor time per request over HTTP at 1, 16 and 64 connections.

The same files on both servers. The three steps follow each other; each is a Python model that returns its input, with dynamic batching and one
instance. Rounds of both servers take turns; medians are shown. The processor time is that of the server and of all its processes, which also means something on a busy machine:
`python -m benchmarks.server.ensembles [ROUNDS] [SECONDS]`; with `CHECKOUT=DIR` another checkout of Naiad takes Triton's place.
"""

import collections
import dataclasses
import os
import pathlib
import statistics
import sys
import tempfile

from benchmarks import models, process_time
from benchmarks.load import require_tools
from benchmarks.requests import small
from benchmarks.server.contest import HTTP_JSON, send
from tests.reference.install import install
from tests.reference.process import Program, ServerProcess, naiad_program, reference_program

_STEPS = ("first", "second", "third")
_CONNECTIONS = (1, 16, 64)

_ENSEMBLE = """\
platform: "ensemble"
max_batch_size: 64
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 4 }
ensemble_scheduling {
  step { model_name: "first" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "a" } }
  step { model_name: "second" model_version: -1 input_map { key: "x" value: "a" } output_map { key: "y" value: "b" } }
  step { model_name: "third" model_version: -1 input_map { key: "x" value: "b" } output_map { key: "y" value: "y" } }
}
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One number of connections: medians of requests per second and of µs of processor time per request, and of the ratios of pairs, Triton's first."""

    connections: int
    rates: tuple[float, float]
    costs: tuple[float, float]
    faster: float
    cheaper: float


def repository(folder: pathlib.Path) -> pathlib.Path:
    """The ensemble `chain` and its three models."""
    for name in _STEPS:
        models.python_identity(folder, name)
    (folder / "chain" / "1").mkdir(parents=True)
    (folder / "chain" / "config.pbtxt").write_text(_ENSEMBLE)
    return folder


def measure(*, rounds: int, seconds: float) -> list[Cell]:
    """Run both servers side by side, loaded in turn."""
    found: dict[tuple[int, str], list[tuple[float, float]]] = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shared = [repository(folder / "models")]
        with (
            ServerProcess(other_program(), shared, log=folder / "other.log") as other,
            ServerProcess(naiad_program(), shared, log=folder / "naiad.log") as ours,
        ):
            both = [("other", other), ("ours", ours)]
            for _, server in both:
                _loaded(server, 4, 1.0)
            for turn in range(rounds):
                for connections in _CONNECTIONS:
                    for which, server in both if turn % 2 == 0 else both[::-1]:
                        measured = _loaded(server, connections, seconds)
                        found[connections, which].append(measured)
                        print(
                            f"round {turn + 1}  ensemble {connections:>2}  {which:<6} {measured[0]:>9,.0f}/s",
                            flush=True,
                        )
    return [
        _cell(connections, found[connections, "other"], found[connections, "ours"])
        for connections in _CONNECTIONS
    ]


def other_program() -> Program:
    """Triton, or the checkout of Naiad that `CHECKOUT` names."""
    checkout = os.environ.get("CHECKOUT")
    if not checkout:
        return reference_program(install())
    ours = naiad_program()
    server = str(pathlib.Path(checkout) / "server")
    return dataclasses.replace(ours, name=checkout, environ={**ours.environ, "PYTHONPATH": server})


def _loaded(server: ServerProcess, connections: int, seconds: float) -> tuple[float, float]:
    """Requests per second, and µs of processor time per request."""
    assert server.process is not None, "it runs"
    pid = server.process.pid
    before = process_time.of_tree(pid)
    rate = send(server, small("chain"), HTTP_JSON, connections=connections, seconds=seconds)
    used = process_time.of_tree(pid) - before
    return rate.per_second, used / max(rate.requests, 1) * 1e6


def _cell(
    connections: int, other: list[tuple[float, float]], ours: list[tuple[float, float]]
) -> Cell:
    pairs = list(zip(other, ours, strict=True))
    return Cell(
        connections,
        (statistics.median(rate for rate, _ in other), statistics.median(rate for rate, _ in ours)),
        (statistics.median(cost for _, cost in other), statistics.median(cost for _, cost in ours)),
        statistics.median(mine[0] / theirs[0] for theirs, mine in pairs),
        statistics.median(theirs[1] / mine[1] for theirs, mine in pairs),
    )


def table(cells: list[Cell]) -> str:
    """As Markdown."""
    lines = [
        "| connections | Triton req/s | Naiad req/s | ratio | Triton µs of processor time | Naiad µs | Triton / Naiad |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        theirs, mine = cell.rates
        its_cost, my_cost = cell.costs
        lines.append(
            f"| {cell.connections} | {theirs:,.0f} | {mine:,.0f} | **{cell.faster:.2f}** | {its_cost:.0f} | {my_cost:.0f} | {cell.cheaper:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    require_tools()
    given = [float(each) for each in sys.argv[1:]]
    print(
        table(
            measure(
                rounds=int(given[0]) if given else 5, seconds=given[1] if len(given) > 1 else 2.0
            )
        )
    )
