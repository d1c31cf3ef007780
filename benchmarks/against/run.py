"""`make bench-against CHECKOUT=DIR`: this checkout beside another one of Naiad: processor time per request, and throughput.

Three servers run at once: the other checkout, this one, and the other one once more, whose ratio to itself shows the noise. Each cell
(wire, model, kind of requests, connections) is measured in slices of a second or less, one server after the other; the servers are restarted several times, because a process has luck of its own with
memory. They run on one processor, the load on the others.
"""

import argparse
import collections
import collections.abc
import contextlib
import dataclasses
import itertools
import os
import pathlib
import sys
import tempfile
import time

from benchmarks import models, process_time
from benchmarks.against import processors, ratios, report, traffic
from benchmarks.against.checkouts import program_of
from benchmarks.against.ratios import AGAIN, OTHER, SIDES, THIS, Cell, Round, Slice
from benchmarks.load import LoadError, require_tools
from tests.reference.process import Program, ServerFailedError, ServerProcess

_HERE = pathlib.Path(__file__).resolve().parents[2]
_SETTLE_S = 0.05
"""After a slice, until the server has put away the connections that the load has closed."""

_ATTEMPTS = 3
"""At a slice: on a busy machine a server, or the load, may get no processor for a second, and nothing is answered."""

_BUSY = 1.0
"""Load average from which a warning is printed."""

_NUMBERS = 1_000_000
"""Between the first numbers of two slices: requests that carry a number never repeat one."""

_FIRST = traffic.Amount(1, 1)
"""Of a cell that warms a server up."""

Starts = dict[Cell, list[list[Round]]]
"""The rounds after each start."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured.

    Attributes:
        cells: what.
        starts: how often the three servers are started.
        rounds: per start.
        seconds: of one round of a cell, an integer.
    """

    cells: "collections.abc.Sequence[Cell]"
    starts: int
    rounds: int
    seconds: int

    @property
    def warm_up(self) -> "list[Cell]":
        """One cell for each wire and model, which is run before anything counts: imports, caches, memory."""
        return list({(cell.wire, cell.model): cell for cell in self.cells}.values())

    @property
    def minutes(self) -> float:
        """About how long it takes."""
        load = len(self.cells) * self.rounds * (self.seconds + 0.4) + len(self.warm_up) * 1.2
        return self.starts * (len(SIDES) * load + 10) / 60


def measure(other: Program, this: Program, plan: Plan) -> Starts:
    """Run the plan.

    Raises:
        LoadError: a server did not answer as it should.
        ServerFailedError: a server did not start.
    """
    groups: Starts = collections.defaultdict(list)
    numbers = itertools.count(1, _NUMBERS)
    amounts: dict[Cell, traffic.Amount] = {}
    servers_on, load_on = processors.split(os.sched_getaffinity(0))
    for start in range(plan.starts):
        with (
            tempfile.TemporaryDirectory() as name,
            contextlib.ExitStack() as stack,
            processors.bound(load_on),
        ):
            servers = _started(pathlib.Path(name), other, this, servers_on, stack)
            for cell in plan.warm_up:
                _slices(servers, cell, start, _FIRST, numbers)
            for cell in plan.cells:
                groups[cell].append([])
                if cell not in amounts:
                    amounts[cell] = traffic.amount(servers[OTHER], cell, seconds=plan.seconds)
            for turn in range(plan.rounds):
                for place, cell in enumerate(plan.cells):
                    much = amounts[cell]
                    first = turn + start + place
                    for part in range(first, first + much.slices):
                        groups[cell][-1].append(_slices(servers, cell, part, much, numbers))
                _show_progress(groups, start * plan.rounds + turn + 1, plan.starts * plan.rounds)
    return groups


def _started(
    folder: pathlib.Path,
    other: Program,
    this: Program,
    where: processors.Processors,
    stack: contextlib.ExitStack,
) -> dict[str, ServerProcess]:
    repository = folder / "models"
    models.tiny_onnx(repository)
    models.python_models(repository)
    models.python_model_in_a_thread(repository)
    servers = {
        side: ServerProcess(program, [repository], log=folder / f"{side}.log")
        for side, program in ((OTHER, other), (THIS, this), (AGAIN, other))
    }
    for server in servers.values():
        stack.callback(server.stop)
        with processors.bound(where):
            server.start()
    for server in servers.values():
        server.wait()
        for model in traffic.MODELS:
            traffic.check(server, model)
    return servers


def _slices(
    servers: "collections.abc.Mapping[str, ServerProcess]",
    cell: Cell,
    turn: int,
    much: traffic.Amount,
    numbers: "collections.abc.Iterator[int]",
) -> dict[str, Slice]:
    """A slice of each server, this checkout's between the two of the other one, which change places from round to round."""
    found: dict[str, Slice] = {}
    for side in SIDES if turn % 2 else SIDES[::-1]:
        for attempt in range(_ATTEMPTS):
            try:
                found[side] = _slice(servers[side], cell, much, next(numbers))
                break
            except LoadError:
                if attempt == _ATTEMPTS - 1:
                    raise
    return found


def _slice(server: ServerProcess, cell: Cell, much: traffic.Amount, first: int) -> Slice:
    assert server.process is not None
    before = process_time.of_tree(server.process.pid)
    count, per_second = traffic.send(server, cell, much, first=first)
    time.sleep(_SETTLE_S)
    used = process_time.of_tree(server.process.pid) - before
    if not count:
        raise LoadError(f"{server.program.name} answered no request in {much.seconds} s: {cell}")
    return Slice(used / count, per_second)


def _show_progress(found: Starts, done: int, of: int) -> None:
    if found:
        means = ratios.means([ratios.result(cell, starts) for cell, starts in found.items()])
        shown = ", ".join(f"{mean.wire} {mean.ratio:.3f} (noise {mean.noise:.3f})" for mean in means)  # fmt: skip
        print(f"round {done} of {of}: {shown}", flush=True)


def main(words: "collections.abc.Sequence[str] | None" = None) -> int:
    """Measure and print; 1 when a bound is missed beyond the noise, 2 when it could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against.run", description=__doc__)
    parser.add_argument("checkout", type=pathlib.Path, metavar="DIR", help="the other checkout; .venv is made there if it has none")  # fmt: skip
    parser.add_argument(
        "--starts",
        type=int,
        default=8,
        help="of the servers; fewer than 4 say nothing about the error (default 8)",
    )
    parser.add_argument("--rounds", type=int, default=1, help="per start (default 1)")
    parser.add_argument("--seconds", type=int, default=1, help="of one round of a cell (default 1)")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 64], metavar="COUNT")
    parser.add_argument("--only", default="", metavar="TEXT", help="cells with this in their line of the table, e.g. 'gRPC stream' or 'tiny'")  # fmt: skip
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE", help="draw the ratios, e.g. against.png")  # fmt: skip
    arguments = parser.parse_args(words)
    cells = [
        cell
        for cell in traffic.cells(tuple(arguments.connections))
        if arguments.only in report.line_of(cell)
    ]
    if (
        not cells
        or min(arguments.starts, arguments.rounds, arguments.seconds, *arguments.connections) < 1
    ):
        parser.error("nothing to measure: no cell has this text, or a number is below 1")
    plan = Plan(
        cells=cells, starts=arguments.starts, rounds=arguments.rounds, seconds=arguments.seconds
    )
    try:
        require_tools()
        other = program_of(arguments.checkout, name="the other checkout")
        this = program_of(_HERE, name="this checkout")
        print(f"{len(cells)} cells, about {plan.minutes:.0f} minutes", flush=True)
        if os.getloadavg()[0] > _BUSY:
            print(
                f"Other work runs on this machine (load {os.getloadavg()[0]:.1f}): a server that waits for a processor "
                "answers smaller batches, which take more time per request. Expect noise.",
                flush=True,
            )
        starts = measure(other, this, plan)
    except (LoadError, ServerFailedError) as error:
        print(f"bench-against: {error}", file=sys.stderr)
        return 2
    results = [ratios.result(cell, each) for cell, each in starts.items()]
    print("\n" + report.text(results))
    if arguments.plot is not None:
        report.plot(results, arguments.plot)
        print(f"\nwritten: {arguments.plot}")
    return 1 if ratios.is_missed(results) else 0


if __name__ == "__main__":
    sys.exit(main())
