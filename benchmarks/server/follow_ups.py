"""What it costs, and what it is worth, that an instance may wait for the next requests of clients that were just answered (`scheduling/follow_ups.py`).

Requests per second at 1 and 64 connections, of a Python model that sleeps for 5 ms and of one that returns its input, beside those of another checkout (`CHECKOUT=DIR`, say
`git worktree add ../before 6b962b11`); the aim is 0.97. Without `CHECKOUT`: rows per batch at 32 connections beside Triton's; the aim is 0.9. Rounds take turns, medians are
shown: `python -m benchmarks.server.follow_ups [ROUNDS] [SECONDS]`.
"""

import collections
import dataclasses
import json
import os
import pathlib
import statistics
import sys
import tempfile
import urllib.request

from benchmarks import models
from benchmarks.load import require_tools
from benchmarks.requests import small
from benchmarks.server.contest import HTTP_JSON, send
from tests.reference.install import install
from tests.reference.process import Program, ServerProcess, naiad_program, reference_program

_MODELS = ("sleeps", "identity")


@dataclasses.dataclass(frozen=True, slots=True)
class _Measured:
    """One run of load: requests per second and rows per batch."""

    per_second: float
    rows: float


def _repository(folder: pathlib.Path, model: str) -> pathlib.Path:
    """One with this model alone: the processor that an instance has depends on whether there is another one."""
    if model == "sleeps":
        models.python_sleeping(folder, model, milliseconds=5)
    else:
        models.python_identity(folder, model)
    return folder


def _other() -> tuple[Program, tuple[int, ...]]:
    checkout = os.environ.get("CHECKOUT")
    if not checkout:
        return reference_program(install()), (32,)
    ours = naiad_program()
    server = str(pathlib.Path(checkout) / "server")
    environ = {**ours.environ, "PYTHONPATH": server}
    return dataclasses.replace(ours, name=checkout, environ=environ), (1, 64)


def _counts(server: ServerProcess, model: str) -> tuple[int, int]:
    """Rows and batches so far."""
    address = f"http://{server.http}/v2/models/{model}/stats"
    with urllib.request.urlopen(address, timeout=60) as reply:
        found = json.load(reply)["model_stats"][0]
    return int(found["inference_count"]), int(found["execution_count"])


def _loaded(server: ServerProcess, model: str, connections: int, seconds: float) -> _Measured:
    rows, batches = _counts(server, model)
    rate = send(server, small(model), HTTP_JSON, connections=connections, seconds=seconds)
    more_rows, more_batches = _counts(server, model)
    return _Measured(rate.per_second, (more_rows - rows) / max(more_batches - batches, 1))


def _pairs(
    program: Program, model: str, all_connections: tuple[int, ...], rounds: int, seconds: float
) -> dict[int, list[tuple[_Measured, _Measured]]]:
    """By number of connections, the other server's and ours of each round."""
    found: dict[int, list[tuple[_Measured, _Measured]]] = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shared = [_repository(folder / "models", model)]
        with (
            ServerProcess(program, shared, log=folder / "other.log") as other,
            ServerProcess(naiad_program(), shared, log=folder / "naiad.log") as ours,
        ):
            for server in (other, ours):
                _loaded(server, model, 8, 1.0)
            for turn in range(rounds):
                for connections in all_connections:
                    servers = (other, ours) if turn % 2 == 0 else (ours, other)
                    pair = [_loaded(each, model, connections, seconds) for each in servers]
                    theirs, mine = pair if turn % 2 == 0 else pair[::-1]
                    found[connections].append((theirs, mine))
    return found


def main(rounds: int, seconds: float) -> None:
    """Print the table."""
    program, all_connections = _other()
    found: dict[tuple[str, int], list[tuple[_Measured, _Measured]]] = {}
    for model in _MODELS:
        for connections, pairs in _pairs(program, model, all_connections, rounds, seconds).items():
            found[model, connections] = pairs
    print(
        f"| model | connections | {program.name}, req/s (rows per batch) | Naiad | ratio of requests | ratio of rows per batch |"
    )
    print("|---|---|---|---|---|---|")
    for (model, connections), pairs in found.items():
        shown = [
            f"{statistics.median(each.per_second for each in side):,.0f} ({statistics.median(each.rows for each in side):.1f})"
            for side in zip(*pairs, strict=True)
        ]
        rate = statistics.median(mine.per_second / theirs.per_second for theirs, mine in pairs)
        rows = statistics.median(mine.rows / theirs.rows for theirs, mine in pairs)
        print(
            f"| {model} | {connections} | {shown[0]} | {shown[1]} | **{rate:.2f}** | {rows:.2f} |"
        )
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    require_tools()
    given = [float(each) for each in sys.argv[1:]]
    main(int(given[0]) if given else 7, given[1] if len(given) > 1 else 2.0)
