"""Where a small request's loop time goes: real connections, codecs, engine, scheduler and model, without sockets and threads.

Requests are fed to connections with a transport that only counts; batches run in place. The profiler says how the time is shared
among packages; the same rounds without it say how long a request takes. Sockets, wake-ups and the interpreter lock come on top.
`python -m benchmarks.micro.loop_profile` prints this alone, and with `--steps` each function and line that was counted.
"""

import argparse
import asyncio
import collections.abc
import cProfile
import dataclasses
import gc
import itertools
import pathlib
import pstats
import statistics
import sys
import tempfile
import time
import typing

import uvloop

from benchmarks import models
from benchmarks.changing import NUMBER, changing
from benchmarks.load import HttpRequest
from benchmarks.micro import request_steps
from benchmarks.micro.in_place import CountingTransport, http_connections, loaded_engine
from benchmarks.micro.request_steps import Steps
from benchmarks.requests import small
from naiad.core.clock import SystemClock
from naiad.protocol.http.transport.connection import Connection

_CONNECTIONS = 16
_TURNS = 6
_GROUPS = (
    ("HTTP transport", ("http/transport", "http/message")),
    ("JSON codec, orjson included", ("http/codec", "http/inference", "http/routes", "http/replies", "orjson")),
    ("engine: look-up, rules", ("naiad/engine", "naiad/repository")),
    ("scheduler, answers, statistics", ("naiad/scheduling", "naiad/metrics")),
    ("backend and model", ("naiad/backends", "/model.py")),
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """A group of modules and its part of a request, in microseconds."""

    what: str
    microseconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """Where the time goes, and what is done, for each kind of requests: by one request alone, and per request of many at once."""

    shares: list[Share]
    steps: dict[str, list[Steps]]


def measure(*, rounds: int, detail: typing.TextIO | None = None) -> Profile:
    """Profile a small JSON request to the Python identity model, sixteen at a time; write what was counted to `detail`."""
    return uvloop.run(_measure(rounds, detail))


def table(profile: Profile) -> str:
    """As Markdown."""
    shares = profile.shares
    total = sum(share.microseconds for share in shares)
    lines = ["| part | µs per request | share |", "|---|---|---|"]
    lines += [
        f"| {share.what} | {share.microseconds:.1f} | {100 * share.microseconds / total:.0f} % |"
        for share in shares
    ]
    lines += [
        f"| **together** | **{total:.1f}** | |",
        "",
        "| requests | at once | modules entered | Python calls per request | objects per request | allocating instructions per request | memory blocks per request |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {kind} | {step.at_once} | {step.modules} | {step.calls:.0f} | {step.objects:.0f} | {step.allocations:.0f} | {step.blocks:.0f} |"
        for kind, steps in profile.steps.items()
        for step in steps
    ]
    return "\n".join(lines)


async def _measure(rounds: int, detail: typing.TextIO | None) -> Profile:
    with tempfile.TemporaryDirectory() as folder:
        repository = pathlib.Path(folder)
        models.python_model_in_a_thread(repository)
        clock = SystemClock()
        engine = await loaded_engine(repository, clock)
        connections = http_connections(engine, clock, _CONNECTIONS)
        request = small("threaded").json("localhost")
        repeated = itertools.repeat(next(bytes_of(request)))
        kinds = {"repeated": repeated, "changing": bytes_of(changing(request))}
        for requests in kinds.values():
            await answered(connections, requests, 200)
        gc.freeze()
        times = []
        for _ in range(7):
            replies, started = CountingTransport.replies, time.process_time()
            await answered(connections, repeated, rounds)
            times.append((time.process_time() - started) / (CountingTransport.replies - replies))
        profiler = cProfile.Profile()
        profiler.enable()
        await answered(connections, repeated, rounds)
        profiler.disable()
        steps = {
            kind: [await _steps(some, requests, detail) for some in (connections[:1], connections)]
            for kind, requests in kinds.items()
        }
    return Profile(_shares(pstats.Stats(profiler), statistics.median(times) * 1e6), steps)


async def _steps(
    connections: list[Connection],
    requests: collections.abc.Iterator[bytes],
    detail: typing.TextIO | None,
) -> Steps:
    """What one request on each connection does."""
    await answered(connections, requests, 1)
    with request_steps.Calls() as calls:
        await answered(connections, requests, 1)
    with request_steps.Allocations() as allocations:
        await answered(connections, requests, 1)
    blocks, count = allocations.by_line(), len(connections)
    if detail is not None:
        print(f"\n{count} at once: calls, then blocks", file=detail)
        for counted in (calls.by_function, blocks):
            for (place, what), number in counted.most_common():
                print(f"{number / count:6.2f} {place} {what}", file=detail)
    return Steps(
        count,
        calls.modules,
        calls.by_function.total() / count,
        allocations.objects() / count,
        allocations.instructions() / count,
        blocks.total() / count,
    )


def bytes_of(request: HttpRequest) -> collections.abc.Iterator[bytes]:
    """The request again and again, or those that take turns, each with a number of its own."""
    texts = [
        b"POST /v2/models/threaded/infer HTTP/1.1\r\nHost: localhost\r\n%bContent-Length: %d\r\n\r\n%b"
        % ("".join(f"{name}: {value}\r\n" for name, value in headers).encode(), len(body), body)
        for body, headers in ((request.body, request.headers), *request.others)
    ]
    for number, text in enumerate(itertools.cycle(texts)):
        yield text.replace(NUMBER.encode(), b"%012d" % number)


async def answered(
    connections: list[Connection], requests: collections.abc.Iterator[bytes], rounds: int
) -> None:
    """Send a request on each connection and have all of them answered, so many times."""
    for _ in range(rounds):
        for connection in connections:
            connection.data_received(next(requests))
        for _ in range(_TURNS):
            await asyncio.sleep(0)


def _shares(stats: pstats.Stats, microseconds: float) -> list[Share]:
    spent = dict.fromkeys([what for what, _ in _GROUPS] + ["the rest: builtins, loop"], 0.0)
    functions: typing.Any = stats
    for (file, _, name), (_, _, own, _, _) in functions.stats.items():
        spent[_group_of(f"{file} {name}")] += own
    scale = microseconds / sum(spent.values())
    return [Share(what, own * scale) for what, own in spent.items()]


def _group_of(place: str) -> str:
    for what, fragments in _GROUPS:
        if any(fragment in place for fragment in fragments):
            return what
    return "the rest: builtins, loop"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.micro.loop_profile", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=500, help="of sixteen requests (default 500)")
    parser.add_argument("--steps", action="store_true", help="print each function that was called, and each line that allocated")  # fmt: skip
    arguments = parser.parse_args()
    print(table(measure(rounds=arguments.rounds, detail=sys.stdout if arguments.steps else None)))


if __name__ == "__main__":
    main()
