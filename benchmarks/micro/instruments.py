"""What tracing and latency metrics cost a small request: processor time of the whole process, without sockets, each variant in turn with one that has neither.

Requests go through real connections, codecs, engine, scheduler and model, sixteen at a time (`loop_profile`); a batch runs in place. The time of the thread that
writes trace files is counted. Medians of the differences between neighbours: `python -m benchmarks.micro.instruments [PAIRS]`.
"""

import asyncio
import dataclasses
import gc
import itertools
import pathlib
import statistics
import sys
import tempfile
import time

import uvloop

from benchmarks import models
from benchmarks.micro.in_place import CountingTransport, loaded_engine
from benchmarks.micro.loop_profile import bytes_of, no_app, rounds
from benchmarks.requests import small
from naiad.core.clock import SystemClock
from naiad.engine.engine import ServingEngine
from naiad.protocol.http.routes import HttpOptions, Routes
from naiad.protocol.http.transport.connection import Connection
from naiad.protocol.http.transport.framing import ReplyFramer
from naiad.protocol.http.transport.head_cache import HeadCache
from naiad.protocol.http.transport.service import HttpService, HttpSettings
from naiad.protocol.observer import Observer
from naiad.protocol.trace_observer import TraceObserver
from naiad.protocol.transport.connection_registry import ConnectionRegistry
from naiad.tracing.settings import OPENTELEMETRY, TIMESTAMPS, TraceOptions, TraceSetting
from naiad.tracing.trace import RequestTrace
from naiad.tracing.tracer import Tracer

_CONNECTIONS = 16
_ROUNDS = 60
_NEVER = 2**31 - 1


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
        plain = _connections(engine, clock, None)
        found = []
        for what, options in variants.items():
            sink = None if options.file == file else _Nowhere
            engine.tracer = Tracer(options, clock=clock, sink=sink)
            engine.tracer.open()
            observer = TraceObserver(engine.tracer, protocol="HTTP", log=None, clock=clock)
            found.append(await _compare(what, plain, _connections(engine, clock, observer), pairs))
            await engine.tracer.aclose()
            print(f"{what}: {found[-1].more_us:+.2f} µs", file=sys.stderr, flush=True)
        return found


async def _compare(
    what: str, plain: list[Connection], observed: list[Connection], pairs: int
) -> Cost:
    request = itertools.repeat(next(bytes_of(small("threaded").json("localhost"))))
    for connections in (plain, observed):
        await rounds(connections, request, _ROUNDS)
    gc.collect()
    gc.freeze()
    without, more = [], []
    for pair in range(pairs):
        took = {}
        order = (plain, observed) if pair % 2 else (observed, plain)
        for connections in order:
            replies, started = CountingTransport.replies, time.process_time()
            await rounds(connections, request, _ROUNDS)
            if connections is observed:
                await asyncio.sleep(0.06)  # the thread that writes gathers that long
            spent = time.process_time() - started
            took[connections is observed] = 1e6 * spent / (CountingTransport.replies - replies)
        without.append(took[False])
        more.append(took[True] - took[False])
    return Cost(what, statistics.median(without), statistics.median(more))


def _connections(
    engine: ServingEngine, clock: SystemClock, observer: Observer | None
) -> list[Connection]:
    settings = HttpSettings(tick=3_600)
    routes = Routes(engine, HttpOptions())
    service = HttpService(
        routes=routes,
        app=no_app,
        settings=settings,
        registry=ConnectionRegistry(asyncio.get_running_loop(), tick=settings.tick),
        heads=HeadCache(
            routes, entries=settings.known_heads, entry_bytes=settings.known_head_bytes
        ),
        framer=ReplyFramer(join_bytes=settings.join_bytes),
        clock=clock,
        observer=observer,
    )
    connections = [Connection(service) for _ in range(_CONNECTIONS)]
    for connection in connections:
        connection.connection_made(CountingTransport())
    return connections


if __name__ == "__main__":
    given = sys.argv[1:]
    print(table(measure(pairs=int(given[0]) if given else 60)))
