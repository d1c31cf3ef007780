"""Two servers that are loaded in turn: what one load measures, what pairs of loads say, and the columns that show it."""

import collections.abc
import dataclasses
import math
import os
import pathlib
import statistics

from benchmarks import process_time
from benchmarks.load import HttpRequest, Rate, wrk
from tests.reference.install import install
from tests.reference.process import Program, ServerProcess, naiad_program, reference_program

HEADINGS = "| Triton req/s | Naiad req/s | ratio | Triton µs of processor time | Naiad µs | Triton / Naiad |"
"""Of `Pairs.columns`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """Requests per second, and microseconds of processor time per request, of all processes of the server."""

    per_second: float
    cpu_us: float


@dataclasses.dataclass(frozen=True, slots=True)
class Pairs:
    """Medians of requests per second and of µs of processor time per request, the other server's first, and of the ratios of pairs."""

    rates: tuple[float, float]
    costs: tuple[float, float]
    faster: float
    cheaper: float

    def columns(self) -> str:
        """As the end of a row in Markdown, under `HEADINGS`."""
        (theirs, mine), (its_cost, my_cost) = self.rates, self.costs
        return f"| {theirs:,.0f} | {mine:,.0f} | **{self.faster:.2f}** | {its_cost:,.0f} | {my_cost:,.0f} | {self.cheaper:.2f} |"


def loaded(server: ServerProcess, load: collections.abc.Callable[[], Rate]) -> Measured:
    """What a load measures on a server."""
    assert server.process is not None, "it runs"
    pid = server.process.pid
    before = process_time.of_tree(pid)
    rate = load()
    used = process_time.of_tree(pid) - before
    return Measured(rate.per_second, used / max(rate.requests, 1) * 1e6)


def loaded_by_wrk(
    server: ServerProcess, request: HttpRequest, connections: int, seconds: float
) -> Measured:
    """What a request measures on a server, again and again on so many connections."""
    return loaded(server, lambda: wrk(request, connections=connections, seconds=seconds))


def compared(other: list[Measured], ours: list[Measured]) -> Pairs:
    """What the loads say of both servers, the first one beside the first one and so on."""
    pairs = list(zip(other, ours, strict=True))
    return Pairs(
        (
            statistics.median(each.per_second for each in other),
            statistics.median(each.per_second for each in ours),
        ),
        (
            statistics.median(each.cpu_us for each in other),
            statistics.median(each.cpu_us for each in ours),
        ),
        statistics.median(ratio(mine.per_second, its.per_second) for its, mine in pairs),
        statistics.median(ratio(its.cpu_us, mine.cpu_us) for its, mine in pairs),
    )


def ratio(one: float, other: float) -> float:
    """How many times the other; infinity if that is 0: a busy machine may answer nothing for a second."""
    return one / other if other else math.inf


def other_program() -> Program:
    """Triton, or the checkout of Naiad that `CHECKOUT` names."""
    checkout = os.environ.get("CHECKOUT")
    if not checkout:
        return reference_program(install())
    ours = naiad_program()
    server = str(pathlib.Path(checkout) / "server")
    return dataclasses.replace(ours, name=checkout, environ={**ours.environ, "PYTHONPATH": server})
