"""What a second instance of a Python model is worth: 50 ms of pure Python a request, four clients, one instance and two."""

import pathlib
import statistics
import tempfile

from benchmarks import models
from benchmarks.load import wrk
from benchmarks.pairs import ratio
from benchmarks.requests import small
from tests.reference.process import ServerProcess, naiad_program

_CLIENTS = 4


def measure(*, seconds: float, rounds: int) -> tuple[float, float]:
    """Requests per second with one instance and with two: medians of interleaved rounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        repository = folder / "models"
        models.busy_models(repository)
        with ServerProcess(naiad_program(), [repository], log=folder / "log") as server:
            requests = [small(f"busy_{count}").flat().binary(server.http) for count in (1, 2)]
            seen = [
                [
                    wrk(request, connections=_CLIENTS, seconds=seconds).per_second
                    for request in requests
                ]
                for _ in range(rounds)
            ]
    one, two = (statistics.median(each) for each in zip(*seen, strict=True))
    return one, two


def table(rates: tuple[float, float]) -> str:
    """As Markdown."""
    one, two = rates
    return (
        "| `count: 1` req/s | `count: 2` req/s | ratio |\n|---|---|---|\n"
        f"| {one:.1f} | {two:.1f} | **{ratio(two, one):.2f}** |"
    )


if __name__ == "__main__":
    print(table(measure(seconds=3, rounds=2)))
