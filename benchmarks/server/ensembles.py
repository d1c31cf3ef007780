"""Ensembles of three Python models beside Triton: requests per second and processor time per request over HTTP at 1, 16 and 64 connections.

The same files on both servers. The three steps follow each other; each is a Python model that returns its input, with dynamic batching and one
instance. Rounds of both servers take turns; medians are shown. The processor time is that of the server and of all its processes, which also means something on a busy machine:
`python -m benchmarks.server.ensembles [ROUNDS] [SECONDS]`; with `CHECKOUT=DIR` another checkout of Naiad takes Triton's place.
"""

import collections
import dataclasses
import pathlib
import sys
import tempfile

from benchmarks import models
from benchmarks.load import require_tools
from benchmarks.pairs import HEADINGS, Measured, Pairs, compared, loaded, other_program
from benchmarks.requests import small
from benchmarks.server.contest import HTTP_JSON, send
from tests.reference.process import ServerProcess, naiad_program

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
    """One number of connections, on both servers."""

    connections: int
    pairs: Pairs


def repository(folder: pathlib.Path) -> pathlib.Path:
    """The ensemble `chain` and its three models."""
    for name in _STEPS:
        models.python_identity(folder, name)
    (folder / "chain" / "1").mkdir(parents=True)
    (folder / "chain" / "config.pbtxt").write_text(_ENSEMBLE)
    return folder


def measure(*, rounds: int, seconds: float) -> list[Cell]:
    """Run both servers side by side, loaded in turn."""
    found: dict[tuple[int, str], list[Measured]] = collections.defaultdict(list)
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
                            f"round {turn + 1}  ensemble {connections:>2}  {which:<6} {measured.per_second:>9,.0f}/s",
                            flush=True,
                        )
    return [
        Cell(connections, compared(found[connections, "other"], found[connections, "ours"]))
        for connections in _CONNECTIONS
    ]


def _loaded(server: ServerProcess, connections: int, seconds: float) -> Measured:
    return loaded(
        server,
        lambda: send(server, small("chain"), HTTP_JSON, connections=connections, seconds=seconds),
    )


def table(cells: list[Cell]) -> str:
    """As Markdown."""
    lines = [f"| connections {HEADINGS}", "|---|---|---|---|---|---|---|"]
    lines += [f"| {cell.connections} {cell.pairs.columns()}" for cell in cells]
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
