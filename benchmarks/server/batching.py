"""What dynamic batching and a second instance are worth, beside Triton: a Python model whose batch takes as long as one row.

A batch of the model waits 5 ms, whatever is in it, so a batch of 16 costs as much as one row. The same files on both servers, 32 connections over HTTP; rounds of both
servers take turns, medians are shown. The waits need no processor, so the ratios mean something on a busy machine too: `python -m benchmarks.server.batching [ROUNDS]`.
"""

import collections
import dataclasses
import pathlib
import statistics
import sys
import tempfile

from benchmarks import models
from benchmarks.load import require_tools, wrk
from benchmarks.requests import small
from tests.reference.install import install
from tests.reference.process import ServerProcess, naiad_program, reference_program

_WAIT_MS = 5.0
_CONNECTIONS = 32
_SECONDS = 3
_KINDS = {
    "alone": "no dynamic batching, one instance",
    "batched": "dynamic batching (up to 16 rows), one instance",
    "two": "no dynamic batching, two instances",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """Requests per second of one kind of model: medians, of Triton and of Naiad."""

    kind: str
    triton: float
    naiad: float


def repository(folder: pathlib.Path) -> pathlib.Path:
    """A model for each kind."""
    for name in _KINDS:
        models.python_sleeping(folder, name, milliseconds=_WAIT_MS)
        config = folder / name / "config.pbtxt"
        text = config.read_text().replace("max_batch_size: 64", "max_batch_size: 16")
        if name != "batched":
            text = text.replace("dynamic_batching {}\n", "")
        if name == "two":
            text = text.replace("count: 1", "count: 2")
        config.write_text(text)
    return folder


def measure(rounds: int) -> list[Rates]:
    """Run both servers side by side, loaded in turn."""
    found: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shared = [repository(folder / "models")]
        with (
            ServerProcess(
                reference_program(install()), shared, log=folder / "triton.log"
            ) as triton,
            ServerProcess(naiad_program(), shared, log=folder / "naiad.log") as naiad,
        ):
            both = [("triton", triton), ("naiad", naiad)]
            for turn in range(rounds):
                for kind in _KINDS:
                    for which, server in both if turn % 2 == 0 else both[::-1]:
                        request = small(kind).binary(server.http)
                        rate = wrk(request, connections=_CONNECTIONS, seconds=_SECONDS)
                        found[kind, which].append(rate.per_second)
    return [
        Rates(kind, *(statistics.median(found[kind, which]) for which in ("triton", "naiad")))
        for kind in _KINDS
    ]


def table(rates: list[Rates]) -> str:
    """As Markdown; each ratio is to the model without dynamic batching and with one instance, on the same server."""
    alone = rates[0]
    lines = ["| | Triton req/s | ratio | Naiad req/s | ratio |", "|---|---|---|---|---|"]
    lines += [
        f"| {_KINDS[each.kind]} | {each.triton:,.0f} | {each.triton / alone.triton:.2f} | {each.naiad:,.0f} | **{each.naiad / alone.naiad:.2f}** |"
        for each in rates
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    require_tools()
    print(table(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 3)))
