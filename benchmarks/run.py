"""`make bench`: both servers up, load on one at a time, interleaved rounds, medians.

Options: --rounds 3, --seconds 4 for each measurement, --quick for a look (1 round of 1 s, nothing written).
"""

import argparse
import collections
import collections.abc
import contextlib
import dataclasses
import os
import pathlib
import platform
import statistics
import sys
import tempfile

from benchmarks import (
    cycles,
    engine_cost,
    instances,
    loop_profile,
    models,
    process_handover,
    startup,
    streams,
)
from benchmarks.load import LoadError, Rate, h2load, require_tools, wrk
from benchmarks.report import CONNECTIONS, Row, plot, put_into, table, write_csv
from benchmarks.requests import GRPC_INFER, Sample, file_bytes, small, wide
from tests.reference.install import install
from tests.reference.process import ServerProcess, naiad_program, reference_program

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_RESULTS = _ROOT / "benchmarks" / "results"
_DOCUMENT = _ROOT / "docs" / "performance.md"
_WIRES = ("HTTP JSON", "HTTP binary", "gRPC")
_LARGE = ("HTTP binary",)
"""Nobody sends megabytes as JSON, and h2load does not get them through in time."""

_FEW = (1, 4)
"""Connections for large tensors: more of them only measure memory."""

Key = tuple[str, str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Contest:
    """One model under load, on the servers that have it."""

    title: str
    sample: Sample
    servers: tuple[tuple[str, ServerProcess], ...]
    wires: tuple[str, ...] = _WIRES
    connections: tuple[int, ...] = CONNECTIONS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long and how often."""

    rounds: int
    seconds: float


def main() -> int:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    plan = (
        Plan(rounds=1, seconds=1.0)
        if asked.quick
        else Plan(rounds=asked.rounds, seconds=asked.seconds)
    )
    try:
        require_tools()
        with tempfile.TemporaryDirectory() as folder:
            beside, alone, streamed = _measure(plan, pathlib.Path(folder))
    except LoadError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    texts = {
        "beside": f"{_where(plan)}\n\n{table(beside)}",
        "alone": table(alone),
        "streams": streams.table(streamed),
        "engine": engine_cost.table(engine_cost.measure(pairs=10 if asked.quick else 200)),
        "startup": startup.table(startup.measure(starts=1 if asked.quick else 7)),
        "handover": process_handover.table(
            process_handover.measure(rounds=2 if asked.quick else 20)
        ),
        "instances": instances.table(instances.measure(seconds=plan.seconds, rounds=plan.rounds)),
        "cycles": cycles.table(cycles.measure(cycles=3 if asked.quick else 50)),
        "profile": loop_profile.table(loop_profile.measure(rounds=50 if asked.quick else 500)),
    }
    print("\n" + "\n\n".join(texts.values()))
    if not asked.quick:
        _write(beside, alone, texts)
    return 0


def _measure(
    plan: Plan, folder: pathlib.Path
) -> tuple[list[Row], list[Row], list[streams.StreamRow]]:
    """Rows beside Triton, rows of ours alone, and streams beside Triton's."""
    shared, own = folder / "shared", folder / "own"
    models.python_models(shared)
    streams.counting_model(shared)
    models.python_model_in_a_thread(shared)
    models.tiny_onnx(own)
    models.magika(own)
    with contextlib.ExitStack() as servers:
        theirs, ours, onnx = (
            servers.enter_context(ServerProcess(program, [repository], log=folder / f"{name}.log"))
            for name, program, repository in (
                ("triton", reference_program(install()), shared),
                ("naiad", naiad_program(), shared),
                ("onnx", naiad_program(), own),
            )
        )
        both = (("triton", theirs), ("naiad", ours))
        contests = [
            Contest("python identity", small("identity"), both),
            Contest("python in a thread", small("threaded"), both),
            Contest("python, 1 MB", wide(1), both, _LARGE, _FEW),
            Contest("python, 16 MB", wide(16), both, _LARGE, _FEW),
            Contest("tiny ONNX", small("tiny"), (("naiad", onnx),)),
            Contest("magika", file_bytes(), (("naiad", onnx),)),
        ]
        for contest in contests:
            for _, server in contest.servers:
                _warm(server, contest)
        rates: dict[tuple[str, Key], list[Rate]] = collections.defaultdict(list)
        for turn in range(plan.rounds):
            for contest in contests:
                _round(contest, rates, turn=turn, seconds=plan.seconds)
        streamed = streams.measure(
            (("triton", theirs), ("naiad", ours)), rounds=plan.rounds, seconds=plan.seconds
        )
    rows = [
        _row(key, rates["naiad", key], rates.get(("triton", key)))
        for name, key in rates
        if name == "naiad"
    ]
    beside = [row for row in rows if row.theirs]
    return beside, [row for row in rows if not row.theirs], streamed


def _round(
    contest: Contest, rates: dict[tuple[str, Key], list[Rate]], *, turn: int, seconds: float
) -> None:
    """Every wire and number of connections once; who goes first changes from round to round."""
    servers = contest.servers if turn % 2 == 0 else contest.servers[::-1]
    for wire in contest.wires:
        for connections in contest.connections:
            for name, server in servers:
                rate = _load(server, contest.sample, wire, connections, seconds)
                rates[name, (wire, contest.title, connections)].append(rate)
                print(
                    f"round {turn + 1}  {contest.title:<15} {wire:<11} {connections:>2}  {name:<6} "
                    f"{rate.per_second:>9,.0f}/s  p99 {rate.p99_ms:>7.2f} ms",
                    flush=True,
                )


def _load(
    server: ServerProcess, sample: Sample, wire: str, connections: int, seconds: float
) -> Rate:
    if wire == "gRPC":
        return h2load(
            address=server.grpc, path=GRPC_INFER, message=sample.message(), connections=connections, seconds=seconds,
        )  # fmt: skip
    request = sample.json(server.http) if wire == "HTTP JSON" else sample.binary(server.http)
    return wrk(request, connections=connections, seconds=seconds)


def _warm(server: ServerProcess, contest: Contest) -> None:
    """One right answer over gRPC (h2load does not look into answers), and a little load over each wire."""
    import tritonclient.grpc as client  # noqa: PLC0415 - 47 MB that only this process needs

    sample = contest.sample
    tensor = client.InferInput(sample.tensor, sample.values.shape, sample.datatype)
    tensor.set_data_from_numpy(sample.values)
    with contextlib.closing(client.InferenceServerClient(server.grpc)) as asked:
        answer = asked.infer(sample.model, [tensor]).as_numpy(sample.output)
    if answer is None or answer.shape[0] != 1:
        raise LoadError(f"{server.program.name} gave a wrong answer for {sample.model}")
    for wire in contest.wires:
        _load(server, sample, wire, 4, 1.0)


def _row(
    key: Key, ours: collections.abc.Sequence[Rate], theirs: collections.abc.Sequence[Rate] | None
) -> Row:
    wire, model, connections = key
    return Row(
        wire=wire,
        model=model,
        connections=connections,
        ours=_medians(ours),
        theirs=_medians(theirs) if theirs else None,
    )


def _medians(rates: collections.abc.Sequence[Rate]) -> tuple[float, float, float]:
    return (
        statistics.median(rate.per_second for rate in rates),
        statistics.median(rate.p50_ms for rate in rates),
        statistics.median(rate.p99_ms for rate in rates),
    )


def _where(plan: Plan) -> str:
    return (
        f"Medians of {plan.rounds} interleaved rounds of {plan.seconds:g} s; {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, the load generator on the same machine."
    )


def _write(beside: list[Row], alone: list[Row], texts: dict[str, str]) -> None:
    _RESULTS.mkdir(exist_ok=True)
    write_csv([*beside, *alone], _RESULTS / "http_grpc.csv")
    plot(beside, _RESULTS / "beside_triton.png")
    for marker, text in texts.items():
        put_into(_DOCUMENT, marker=marker, text=text)
    print(f"\nwritten: {_RESULTS.relative_to(_ROOT)}/ and {_DOCUMENT.relative_to(_ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
