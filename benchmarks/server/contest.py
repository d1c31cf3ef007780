"""Load on one model, on one or two servers, over several wires and numbers of connections, in interleaved rounds."""

import collections
import collections.abc
import dataclasses
import itertools
import os
import platform
import statistics
import typing

import grpc

from benchmarks.changing import changing, new_connections
from benchmarks.grpc_load import changing_calls
from benchmarks.load import HttpRequest, LoadError, Rate, h2load, wrk
from benchmarks.report import CONNECTIONS, Row
from benchmarks.requests import GRPC_INFER
from tests.reference.process import ServerProcess

HTTP_JSON, HTTP_BINARY, GRPC = "HTTP JSON", "HTTP binary", "gRPC"
WIRES = (HTTP_JSON, HTTP_BINARY, GRPC)
"""One request over and over."""

CHANGING_JSON, CHANGING_BINARY = "HTTP JSON, changing", "HTTP binary, changing"
NEW_CONNECTIONS = "HTTP JSON, new connections"
CHANGING_GRPC, GRPC_STREAMS = "gRPC, changing", "gRPC, 64 streams"
"""The first changes from call to call, as clients' calls do; the last has its calls on one connection."""

GRPCIO = "gRPC, grpcio"
"""Of a server with `--grpc-engine=grpcio`."""

ALL_WIRES = (
    CHANGING_JSON, NEW_CONNECTIONS, HTTP_JSON, CHANGING_BINARY, HTTP_BINARY, CHANGING_GRPC, GRPC, GRPC_STREAMS,
)  # fmt: skip
"""In the order of the tables: first what clients do."""

_STREAMS = 64

_FEW = (1, 8)
"""Connections that are opened for each request: more of them only fill the kernel's tables."""

Key = tuple[str, str, int]

_NUMBERS = itertools.count(1, 10_000_000)
"""The first numbers of requests that carry one; those of two measurements do not meet."""

_FIRST_CALL_S = 60.0
_LARGE_MESSAGES = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))


class Request(typing.Protocol):
    """What is sent again and again, on each wire."""

    def json(self, address: str) -> HttpRequest:
        """JSON in, JSON out."""
        ...

    def binary(self, address: str) -> HttpRequest:
        """Binary in, binary out."""
        ...

    def message(self) -> bytes:
        """A serialised ModelInferRequest."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Contest:
    """One model under load, on the servers that have it: "naiad", and "triton" or nothing beside it."""

    title: str
    request: Request
    servers: tuple[tuple[str, ServerProcess], ...]
    wires: tuple[str, ...] = WIRES
    connections: tuple[int, ...] = CONNECTIONS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long and how often."""

    rounds: int
    seconds: float

    @property
    def text(self) -> str:
        """One sentence for above the table."""
        return (
            f"Medians of {self.rounds} interleaved rounds of {self.seconds:g} s; {os.cpu_count()} cores, "
            f"Python {platform.python_version()}, the load generator on the same machine."
        )


def play(contests: collections.abc.Sequence[Contest], plan: Plan) -> list[Row]:
    """Every round of every contest.

    Raises:
        LoadError: a server did not answer as it should.
    """
    for contest in contests:
        for _, server in contest.servers:
            _check(server, contest.request)
            for wire in contest.wires:
                send(server, contest.request, wire, connections=4, seconds=1.0)
    rates: dict[tuple[str, Key], list[Rate]] = collections.defaultdict(list)
    for turn in range(plan.rounds):
        for contest in contests:
            _round(contest, rates, turn=turn, seconds=plan.seconds)
    return [
        _row(key, rates["naiad", key], rates.get(("triton", key)))
        for name, key in rates
        if name == "naiad"
    ]


def _check(server: ServerProcess, request: Request) -> None:
    """One call over gRPC must be answered with OK: h2load does not look at gRPC's own status."""
    with grpc.insecure_channel(server.grpc, options=_LARGE_MESSAGES) as channel:
        call = channel.unary_unary(GRPC_INFER)
        try:
            call(request.message(), timeout=_FIRST_CALL_S)
        except grpc.RpcError as error:
            raise LoadError(
                f"{server.program.name} answers with {error.code().name}: {error.details()}"
            ) from None


def _round(
    contest: Contest, rates: dict[tuple[str, Key], list[Rate]], *, turn: int, seconds: float
) -> None:
    """Every wire and number of connections once; who goes first changes from round to round."""
    servers = contest.servers if turn % 2 == 0 else contest.servers[::-1]
    for wire in contest.wires:
        for connections in _connections(contest, wire):
            for name, server in servers:
                rate = send(server, contest.request, wire, connections=connections, seconds=seconds)
                rates[name, (wire, contest.title, connections)].append(rate)
                print(
                    f"round {turn + 1}  {contest.title:<18} {wire:<26} {connections:>2}  {name:<6} "
                    f"{rate.per_second:>9,.0f}/s  p99 {rate.p99_ms:>7.2f} ms",
                    flush=True,
                )


def _connections(contest: Contest, wire: str) -> tuple[int, ...]:
    if wire == GRPC_STREAMS:
        return (1,)
    return _FEW if wire == NEW_CONNECTIONS else contest.connections


def send(
    server: ServerProcess, request: Request, wire: str, *, connections: int, seconds: float
) -> Rate:
    """Load on one server over one wire.

    Raises:
        LoadError: it did not answer as it should.
    """
    if wire == CHANGING_GRPC:
        return changing_calls(
            address=server.grpc, path=GRPC_INFER, message=request.message(), connections=connections, seconds=seconds, first=next(_NUMBERS),
        )  # fmt: skip
    if wire in {GRPC, GRPCIO, GRPC_STREAMS}:
        streams = _STREAMS if wire == GRPC_STREAMS else 1
        return h2load(
            address=server.grpc, path=GRPC_INFER, messages=[request.message()], connections=1 if streams > 1 else connections,
            seconds=seconds, streams=streams,
        )  # fmt: skip
    binary = wire in {HTTP_BINARY, CHANGING_BINARY}
    message = request.binary(server.http) if binary else request.json(server.http)
    if wire in {CHANGING_JSON, CHANGING_BINARY}:
        message = changing(message)
    elif wire == NEW_CONNECTIONS:
        message = new_connections(message)
    first = next(_NUMBERS)
    return wrk(message, connections=connections, seconds=seconds, first=first)


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
