"""What tracing and latency metrics cost a small request: processor time of the whole process, without sockets, each variant in turn with one that has neither.

Requests go through real connections, codecs, engine, scheduler and model, sixteen at a time (`loop_profile`); a batch runs in place. The time of the thread that
writes trace files is counted. The best of many short turns: `python -m benchmarks.micro.instruments [PAIRS]`.
"""

import asyncio
import collections.abc
import dataclasses
import functools
import itertools
import pathlib
import sys
import tempfile
import time
import timeit

import uvloop

from benchmarks import models
from benchmarks.micro.in_place import CountingTransport, http_connections, loaded_engine
from benchmarks.micro.loop_profile import answered, bytes_of
from benchmarks.requests import small
from naiad.core.clock import SystemClock
from naiad.protocol.http.transport.connection import Connection
from naiad.protocol.trace_observer import TraceObserver
from naiad.serve import interpreter
from naiad.tracing.settings import OPENTELEMETRY, TIMESTAMPS, TraceOptions, TraceSetting
from naiad.tracing.trace import RequestTrace
from naiad.tracing.tracer import Tracer
from naiad.tracing.usual import SentTrace

_CONNECTIONS = 16
_ROUNDS = 20
_NEVER = 2**31 - 1
_LOOKS = 2_000
_HEADERS = {b"host": b"localhost", b"content-length": b"100"}


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """Of a variant.

    Attributes:
        plain_us: a request without instruments.
        more_us: what it costs in addition.
    """

    what: str
    plain_us: float
    more_us: float


class _Nowhere:
    """A `TraceSink` that keeps nothing."""

    lost = 0

    def sent(self, traces: collections.abc.Sequence[SentTrace]) -> None:
        for trace in traces:
            assert trace.inference is not None, "it was executed"
            trace.inference.traced = None

    def collected(self, trace: RequestTrace) -> None:
        trace.parts.clear()

    def replaced(self, setting: TraceSetting) -> None:
        pass

    def stop(self) -> None:
        pass

    def close(self, seconds: float) -> None:
        pass


def table(costs: list[Cost]) -> str:
    """As Markdown."""
    lines = ["| tracing | µs per request without | in addition |", "|---|---|---|"]
    lines += [f"| {cost.what} | {cost.plain_us:.1f} | {cost.more_us:+.2f} µs |" for cost in costs]
    return "\n".join(lines)


def looks() -> str:
    """What a request pays that is not traced, alone: the clock, the look whether it is followed, and the count; the best of many turns, as Markdown."""
    lines = ["| tracing | µs |", "|---|---|"]
    for what, options in {
        "off, with a file": TraceOptions(file="t.json"),
        "on, to a file": TraceOptions(TIMESTAMPS, _NEVER, file="t.json"),
        "on, as spans": TraceOptions(TIMESTAMPS, _NEVER, mode=OPENTELEMETRY),
    }.items():
        clock = SystemClock()
        tracer = Tracer(options, clock=clock, sink=_Nowhere)
        tracer.open()
        observer = TraceObserver(tracer, protocol="HTTP", log=None, clock=clock)
        best = min(
            timeit.repeat(functools.partial(_look, tracer, observer), number=_LOOKS, repeat=50)
        )
        bare = min(
            timeit.repeat(functools.partial(_nothing, tracer, observer), number=_LOOKS, repeat=50)
        )
        lines.append(f"| {what} | {1e6 * (best - bare) / _LOOKS:.2f} |")
    return "\n".join(lines)


def _look(tracer: Tracer, observer: TraceObserver) -> None:
    observer.now_ns()
    if not observer.follows(_HEADERS.get) and tracer.active:
        tracer.passed("threaded")


def _nothing(tracer: Tracer, observer: TraceObserver) -> None:
    pass


def measure(*, pairs: int) -> list[Cost]:
    """Each variant in turn with the request that nothing follows."""
    return uvloop.run(_measure(pairs))


async def _measure(pairs: int) -> list[Cost]:
    with tempfile.TemporaryDirectory() as folder:
        repository = pathlib.Path(folder) / "models"
        repository.mkdir()
        models.python_model_in_a_thread(repository)
        file = str(pathlib.Path(folder) / "trace.json")
        variants: dict[str, TraceOptions] = {
            "off, with a file": TraceOptions(file=file),
            "on, to a file, the request is not sampled": TraceOptions(TIMESTAMPS, _NEVER, file=file),
            "on, as spans, the request is not sampled": TraceOptions(TIMESTAMPS, _NEVER, mode=OPENTELEMETRY),
            "every request, to a file": TraceOptions(TIMESTAMPS, 1, file=file),
            "every request, nothing is written": TraceOptions(TIMESTAMPS, 1, file="none"),
        }  # fmt: skip
        clock = SystemClock()
        engine = await loaded_engine(repository, clock)
        plain = http_connections(engine, clock, _CONNECTIONS)
        found = []
        for what, options in variants.items():
            sink = None if options.file == file else _Nowhere
            engine.tracer = Tracer(options, clock=clock, sink=sink)
            engine.tracer.open()
            observer = TraceObserver(engine.tracer, protocol="HTTP", log=None, clock=clock)
            observed = http_connections(engine, clock, _CONNECTIONS, observer=observer)
            found.append(await _compare(what, plain, observed, pairs))
            await engine.tracer.aclose()
            print(f"{what}: {found[-1].more_us:+.2f} µs", file=sys.stderr, flush=True)
        return found


async def _compare(
    what: str, plain: list[Connection], observed: list[Connection], pairs: int
) -> Cost:
    request = itertools.repeat(next(bytes_of(small("threaded").json("localhost"))))
    for connections in (plain, observed):
        await answered(connections, request, _ROUNDS)
    interpreter.imported()
    interpreter.settle()
    without, with_it = [], []
    for pair in range(pairs):
        took = {}
        order = (plain, observed) if pair % 2 else (observed, plain)
        for connections in order:
            replies, started = CountingTransport.replies, time.process_time()
            await answered(connections, request, _ROUNDS)
            if connections is observed:
                await asyncio.sleep(0.25)  # the thread that writes gathers for 0.2 s
            spent = time.process_time() - started
            took[connections is observed] = 1e6 * spent / (CountingTransport.replies - replies)
        without.append(took[False])
        with_it.append(took[True])
    # Other work on the machine only adds: what is left without it shows in the best of many short turns.
    return Cost(what, min(without), min(with_it) - min(without))


if __name__ == "__main__":
    given = sys.argv[1:]
    print(looks(), end="\n\n")
    print(table(measure(pairs=int(given[0]) if given else 60)))
