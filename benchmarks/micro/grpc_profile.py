"""Where a unary gRPC call's loop time goes on the native engine: HTTP/2, codec, engine, scheduler and model, without sockets and threads.

The calls are what h2load sends: a header block that every call repeats, and one frame of data. `--changing` gives each call an id, a deadline and a
traceparent of its own. `python -m benchmarks.micro.grpc_profile` prints microseconds by package; `--lines` adds the functions that take most.
"""

import argparse
import asyncio
import cProfile
import dataclasses
import gc
import pathlib
import pstats
import struct
import tempfile
import time
import typing

import hpack
import uvloop

from benchmarks import models
from benchmarks.grpc_load import Message
from benchmarks.micro.in_place import CountingTransport, loaded_engine
from benchmarks.requests import GRPC_INFER, small
from naiad.core.clock import SystemClock
from naiad.protocol.grpc.methods import Methods
from naiad.protocol.grpc.settings import GrpcSettings
from naiad.protocol.grpc.transport.native.connection import GrpcConnection
from naiad.protocol.grpc.transport.native.service import GrpcService
from naiad.protocol.transport.connection_registry import ConnectionRegistry
from naiad.protocol.transport.http2 import frames
from naiad.protocol.transport.http2.frames import Kind
from naiad.protocol.transport.sockets import TransportSettings

_FIELDS = (
    (":method", "POST"), (":scheme", "http"), (":path", GRPC_INFER), (":authority", "127.0.0.1:8001"), ("te", "trailers"),
    ("content-type", "application/grpc"), ("user-agent", "h2load nghttp2/1.52.0"),
)  # fmt: skip
"""Of every call, as h2load sends them."""

_CONNECTIONS = 16
_GROUPS = (
    ("HTTP/2", ("transport/http2",)),
    ("gRPC calls", ("grpc/transport", "grpc/methods", "grpc/call")),
    ("gRPC codec", ("grpc/codec", "grpc/infer", "protocol/raw_tensors")),
    ("engine: look-up, rules", ("naiad/engine", "naiad/repository", "naiad/core")),
    ("scheduler, answers, statistics", ("naiad/scheduling", "naiad/metrics")),
    ("backend and model", ("naiad/backends", "naiad/hosts", "/model.py", "in_place")),
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """A group of modules and its part of a call, in microseconds."""

    what: str
    microseconds: float


class Client:
    """What a client sends for one call after the other on a connection; its header blocks need no dynamic table."""

    def __init__(self, *, changing: bool) -> None:
        self._encoder = hpack.Encoder()
        self._changing = changing
        self._message = small("threaded").message()
        self._before, self._after = Message(self._message).turns()[0]
        self._calls = 0

    def preface(self) -> bytes:
        """The first bytes: a window that no response fills, and the acknowledgement of both SETTINGS of the server."""
        return (
            frames.PREFACE
            + frames.settings({})
            + frames.window_update(0, 1 << 30)
            + 2 * frames.SETTINGS_ACK
        )

    def call(self) -> bytes:
        """The next call."""
        number, message = self._calls, self._message
        self._calls += 1
        fields = list(_FIELDS)
        if self._changing:
            fields += [
                ("grpc-timeout", f"{90_000_000 - number}u"),
                ("traceparent", f"00-{number:032x}-{number:016x}-01"),
            ]
            message = b"%b%012d%b" % (self._before, number, self._after)
        block = self._encoder.encode([(name, value, True) for name, value in fields])
        if not number:
            block = b"\x20" + block  # the table holds nothing from here on
        data = struct.pack(">BI", 0, len(message)) + message
        stream = 2 * number + 1
        return (
            frames.head(len(block), Kind.HEADERS, frames.END_HEADERS, stream) + block
            + frames.head(len(data), Kind.DATA, frames.END_STREAM, stream) + data
        )  # fmt: skip


def measure(*, rounds: int, changing: bool, lines: int = 0) -> list[Share]:
    """Profile calls of the Python identity model, sixteen at a time; print so many of the functions that take most."""
    return uvloop.run(_measure(rounds, changing=changing, lines=lines))


def table(shares: list[Share]) -> str:
    """As Markdown."""
    total = sum(share.microseconds for share in shares)
    rows = [f"| {share.what} | {share.microseconds:.1f} |" for share in shares]
    return "\n".join(
        ("| part | µs per call |", "|---|---|", *rows, f"| **together** | **{total:.1f}** |")
    )


async def _measure(rounds: int, *, changing: bool, lines: int) -> list[Share]:
    with tempfile.TemporaryDirectory() as folder:
        models.python_model_in_a_thread(pathlib.Path(folder))
        connections, clients = await _connections(pathlib.Path(folder), changing=changing)
        await _run(connections, _prepared(clients, min(200, rounds)))
        gc.freeze()
        times = []
        for _ in range(9):
            prepared = _prepared(clients, rounds)
            started = time.process_time()
            await _run(connections, prepared)
            times.append((time.process_time() - started) / (rounds * _CONNECTIONS))
        prepared = _prepared(clients, rounds)
        profiler = cProfile.Profile()
        profiler.enable()
        await _run(connections, prepared)
        profiler.disable()
    stats = pstats.Stats(profiler)
    if lines:
        stats.sort_stats("tottime").print_stats(lines)
    return _shares(stats, min(times) * 1e6)


async def _connections(
    folder: pathlib.Path, *, changing: bool
) -> tuple[list[GrpcConnection], list[Client]]:
    settings = GrpcSettings()
    registry = ConnectionRegistry(asyncio.get_running_loop(), tick=3_600)
    methods = Methods(await loaded_engine(folder, SystemClock()), settings)
    service = GrpcService(methods, settings, registry, TransportSettings(tick=3_600))
    connections = [GrpcConnection(service) for _ in range(_CONNECTIONS)]
    clients = [Client(changing=changing) for _ in connections]
    for connection, client in zip(connections, clients, strict=True):
        connection.connection_made(CountingTransport())
        connection.data_received(client.preface())
    return connections, clients


def _prepared(clients: list[Client], rounds: int) -> list[list[bytes]]:
    return [[client.call() for client in clients] for _ in range(rounds)]


async def _run(connections: list[GrpcConnection], prepared: list[list[bytes]]) -> None:
    for calls in prepared:
        for connection, call in zip(connections, calls, strict=True):
            connection.data_received(call)
        while any(connection.h2.streams.by_id for connection in connections):  # noqa: ASYNC110 - turns of the loop are what is measured
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # the responses are written


def _shares(stats: pstats.Stats, microseconds: float) -> list[Share]:
    spent = dict.fromkeys([what for what, _ in _GROUPS] + ["the rest: builtins, loop"], 0.0)
    functions: typing.Any = stats
    for (file, _, name), (_, _, own, _, _) in functions.stats.items():
        place = f"{file} {name}"
        group = next(
            (what for what, parts in _GROUPS if any(part in place for part in parts)),
            "the rest: builtins, loop",
        )
        spent[group] += own
    scale = microseconds / sum(spent.values())
    return [Share(what, own * scale) for what, own in spent.items()]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.micro.grpc_profile", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=500, help="of sixteen calls (default 500)")
    parser.add_argument(
        "--changing",
        action="store_true",
        help="an id, a deadline and a traceparent of its own for each call",
    )
    parser.add_argument("--lines", type=int, default=0, help="so many functions that take most")
    arguments = parser.parse_args()
    print(
        table(measure(rounds=arguments.rounds, changing=arguments.changing, lines=arguments.lines))
    )


if __name__ == "__main__":
    main()
