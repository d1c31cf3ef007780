"""The whole benchmark: the models of `models.py` on Naiad and, where it can serve them, on Triton; the tables of docs/performance.md."""

import collections.abc
import contextlib
import pathlib
import tempfile

from benchmarks import models
from benchmarks.micro import engine_cost, loop_profile, process_handover, sequence_cost
from benchmarks.report import Row, plot, put_into, table, write_csv
from benchmarks.requests import file_bytes, small, strings, wide
from benchmarks.server import (
    cache,
    cycles,
    ensembles,
    instances,
    sequences,
    small_requests,
    startup,
    streams,
)
from benchmarks.server.contest import (
    ALL_WIRES,
    CHANGING_BINARY,
    GRPC,
    GRPCIO,
    HTTP_BINARY,
    Contest,
    Plan,
    play,
)
from benchmarks.server.parts import Parts, Texts
from tests.reference.install import install
from tests.reference.process import (
    ServerProcess,
    grpcio_program,
    naiad_program,
    reference_program,
)

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_RESULTS = _ROOT / "benchmarks" / "results"
_DOCUMENT = _ROOT / "docs" / "performance.md"
_LARGE = (HTTP_BINARY,)
"""Clients do not send megabytes as JSON, and h2load does not get them through in time."""

_FEW = (1, 4)
"""Connections for large tensors: more of them only measure memory."""


BESIDE, SMALL = "beside", "small"
PARTS = (
    BESIDE, SMALL, "cache", "ensembles", "sequences", "sequence-cost", "engine", "startup", "handover", "instances", "cycles", "profile",
)  # fmt: skip
"""What can be measured alone: models and wires, the cells of these that have an aim, and what else docs/performance.md has a table of."""


def run(
    plan: Plan, *, quick: bool, write: bool, only: collections.abc.Collection[str] = ()
) -> None:
    """Measure and print.

    Args:
        plan: how long and how often.
        quick: also keep the smaller measurements short.
        write: put the results into benchmarks/results and docs/performance.md.
        only: the parts to measure, of `PARTS`; none for all.

    Raises:
        LoadError: a part could not be measured; all others were printed.
    """
    beside: list[Row] = []
    alone: list[Row] = []

    def contests() -> Texts:
        with tempfile.TemporaryDirectory() as folder:
            beside[:], alone[:], streamed = _measure(plan, pathlib.Path(folder))
        return {
            "beside": f"{plan.text}\n\n{table(beside)}",
            "alone": table(alone),
            "streams": streams.table(streamed),
            SMALL: _small(plan, small_requests.of(beside, streamed)),
        }

    rounds, seconds = plan.rounds, plan.seconds
    tables: dict[str, collections.abc.Callable[[], str]] = {
        SMALL: lambda: _small(plan, small_requests.measure(plan)),
        "cache": lambda: cache.table(cache.measure(rounds=rounds, seconds=seconds)),
        "ensembles": lambda: ensembles.table(ensembles.measure(rounds=rounds, seconds=seconds)),
        "sequences": lambda: sequences.table(sequences.measure(rounds=rounds, seconds=seconds)),
        "sequence-cost": lambda: sequence_cost.table(rounds=1 if quick else 5),
        "engine": lambda: engine_cost.table(engine_cost.measure(pairs=10 if quick else 200)),
        "startup": lambda: startup.table(startup.measure(starts=1 if quick else 7)),
        "handover": lambda: process_handover.table(process_handover.measure(rounds=2 if quick else 20)),
        "instances": lambda: instances.table(instances.measure(seconds=seconds, rounds=rounds)),
        "cycles": lambda: cycles.table(cycles.measure(cycles=3 if quick else 50)),
        "profile": lambda: loop_profile.table(loop_profile.measure(rounds=50 if quick else 500)),
    }  # fmt: skip
    parts = Parts()
    chosen = only or [part for part in PARTS if part != SMALL]  # which are among `BESIDE`
    for name in chosen:
        if name == BESIDE:
            parts.measure("models and wires", contests)
        else:
            parts.measure(name, lambda name=name: {name: tables[name]()})  # type: ignore[misc]
    print("\n" + "\n\n".join(parts.texts.values()))
    if write:
        _write(beside, alone, parts.texts)
    parts.check()


def _small(plan: Plan, rows: list[Row]) -> str:
    return f"{plan.text}\n\n{small_requests.table(rows)}"


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
        theirs, ours, by_grpcio, onnx = (
            servers.enter_context(ServerProcess(program, [repository], log=folder / f"{name}.log"))
            for name, program, repository in (
                ("triton", reference_program(install()), shared),
                ("naiad", naiad_program(), shared),
                ("grpcio", grpcio_program(), shared),
                ("onnx", naiad_program(), own),
            )
        )
        both = (("triton", theirs), ("naiad", ours))
        beside = (("triton", theirs), ("naiad", by_grpcio))
        alone = (("naiad", onnx),)
        contests = [
            Contest("python identity", small("identity"), both, ALL_WIRES),
            Contest("python in a thread", small("threaded"), both, ALL_WIRES),
            Contest("python identity", small("identity"), beside, (GRPCIO,)),
            Contest("python in a thread", small("threaded"), beside, (GRPCIO,)),
            Contest("python, 1 MB", wide(1), both, (GRPC,), _FEW),
            Contest(
                "python, 1,000 strings", strings(1000), both, (CHANGING_BINARY, HTTP_BINARY), (1, 8)
            ),
            Contest("python, 1 MB", wide(1), both, _LARGE, _FEW),
            Contest("python, 16 MB", wide(16), both, _LARGE, _FEW),
            Contest("tiny ONNX", small("tiny"), alone, ALL_WIRES),
            Contest("magika", file_bytes(), alone),
        ]
        rows = play(contests, plan)
        streamed = streams.measure(both, rounds=plan.rounds, seconds=plan.seconds)
        streamed += streams.measure(
            beside, rounds=plan.rounds, seconds=plan.seconds, wires=(streams.GRPCIO,)
        )
    return [row for row in rows if row.theirs], [row for row in rows if not row.theirs], streamed


def _write(beside: list[Row], alone: list[Row], texts: dict[str, str]) -> None:
    if beside:
        _RESULTS.mkdir(exist_ok=True)
        write_csv([*beside, *alone], _RESULTS / "http_grpc.csv")
        plot(beside, _RESULTS / "beside_triton.png")
    for marker, text in texts.items():
        put_into(_DOCUMENT, marker=marker, text=text)
    results = f"{_RESULTS.relative_to(_ROOT)}/ and " if beside else ""
    print(f"\nwritten: {results}{_DOCUMENT.relative_to(_ROOT)}")
