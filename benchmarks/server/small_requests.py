"""Small requests beside Triton, and the aims: requests per second and p99 of the Python identity model, in a worker process and in a thread.

The same cells as in the table of all wires that have an aim, so that they alone can be measured: ten minutes with five rounds of two seconds.
`make bench ARGS="--only small --rounds 5 --seconds 2 --write"`; `python -m benchmarks.server.small_requests` measures this and writes nothing, with `--wires TEXT`
those wires alone whose name has this word.
"""

import argparse
import collections.abc
import contextlib
import pathlib
import sys
import tempfile

from benchmarks import models
from benchmarks.load import LoadError, require_tools
from benchmarks.report import Row
from benchmarks.requests import small
from benchmarks.server import streams
from benchmarks.server.contest import (
    CHANGING_BINARY,
    CHANGING_GRPC,
    CHANGING_JSON,
    GRPC_STREAMS,
    NEW_CONNECTIONS,
    Contest,
    Plan,
    play,
)
from tests.reference.install import install
from tests.reference.process import ServerProcess, naiad_program, reference_program

_WORKER, _THREAD = "python identity", "python in a thread"
_MODELS = {_WORKER: "identity", _THREAD: "threaded"}
_EACH = {CHANGING_JSON: "HTTP", CHANGING_BINARY: "HTTP", CHANGING_GRPC: "gRPC"}

_AIMS: dict[tuple[str, str], dict[int, float]] = {
    (_WORKER, "HTTP"): {1: 1.1, 16: 1.7, 64: 1.7},
    (_THREAD, "HTTP"): {1: 1.8, 16: 2.2, 64: 2.2},
    (_WORKER, "gRPC"): {1: 1.2, 16: 1.6, 64: 1.6},
    (_THREAD, "gRPC"): {1: 1.4, 16: 2.0, 64: 2.0},
}
_STREAMED = "python, 1,000 responses"
_OTHER_AIMS = {NEW_CONNECTIONS: 1.0, GRPC_STREAMS: 1.8, streams.GRPC: 2.0}
"""Times Triton's requests per second (of a stream: responses)."""

_P99_AIM = 1.1
_P99_FROM = 16
"""From so many connections on p99 is at most so many times Triton's."""

WIRES = (CHANGING_JSON, CHANGING_BINARY, NEW_CONNECTIONS, CHANGING_GRPC, GRPC_STREAMS)


def measure(plan: Plan, *, wires: str = "") -> list[Row]:
    """The rows, of the wires whose name has this text.

    Raises:
        LoadError: a server did not answer as it should.
    """
    chosen = tuple(wire for wire in WIRES if wires in wire)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as servers:
        folder = pathlib.Path(name)
        models.python_models(folder / "models")
        models.python_model_in_a_thread(folder / "models")
        streams.counting_model(folder / "models")
        both = tuple(
            (
                which,
                servers.enter_context(
                    ServerProcess(program, [folder / "models"], log=folder / f"{which}.log")
                ),
            )
            for which, program in (
                ("triton", reference_program(install())),
                ("naiad", naiad_program()),
            )
        )
        rows = play(
            [Contest(title, small(model), both, chosen) for title, model in _MODELS.items()], plan
        )
        streamed: list[streams.StreamRow] = []
        if wires in streams.GRPC:
            streamed = streams.measure(
                both, rounds=plan.rounds, seconds=plan.seconds, wires=(streams.GRPC,)
            )
    return of(rows, streamed)


def of(
    rows: collections.abc.Iterable[Row], streamed: collections.abc.Iterable[streams.StreamRow]
) -> list[Row]:
    """Those of a larger table that have an aim."""
    return [
        *(row for row in rows if row.wire in WIRES and row.model in _MODELS),
        *(_as_row(row) for row in streamed if row.wire == streams.GRPC),
    ]


def _as_row(row: streams.StreamRow) -> Row:
    ours, theirs = (row.ours, 0.0, 0.0), (row.theirs, 0.0, 0.0)
    return Row(
        wire=row.wire, model=_STREAMED, connections=row.connections, ours=ours, theirs=theirs
    )


def aim_of(row: Row) -> float:
    """How many times Triton's requests per second it is to be."""
    kind = _EACH.get(row.wire)
    return _OTHER_AIMS[row.wire] if kind is None else _AIMS[row.model, kind][row.connections]


def table(rows: collections.abc.Sequence[Row]) -> str:
    """As Markdown: what misses its aim says so."""
    lines = [
        "| wire | model | connections | Naiad req/s | Triton req/s | ratio | aim | Naiad p99 ms | Triton p99 ms | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        assert row.theirs is not None
        assert row.ratio is not None
        aim = aim_of(row)
        reached = f"{aim:.1f}" if row.ratio >= aim else f"{aim:.1f}, **missed**"
        late = "| | | |"
        if row.theirs[2]:
            times = row.ours[2] / row.theirs[2]
            missed = row.connections >= _P99_FROM and times > _P99_AIM
            late = f"| {row.ours[2]:.2f} | {row.theirs[2]:.2f} | {times:.2f}{', **missed**' if missed else ''} |"
        lines.append(
            f"| {row.wire} | {row.model} | {row.connections} | {row.ours[0]:,.0f} | {row.theirs[0]:,.0f} | **{row.ratio:.2f}** | {reached} {late}"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.server.small_requests", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--wires", default="", help="a part of the wires' names, such as gRPC")
    arguments = parser.parse_args()
    plan = Plan(rounds=arguments.rounds, seconds=arguments.seconds)
    try:
        require_tools()
        rows = measure(plan, wires=arguments.wires)
    except LoadError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(f"\n{plan.text}\n\n{table(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
