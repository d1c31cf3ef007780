"""The load of `make bench-against`: each wire, the same request or changing ones, an integer number of seconds at a time.

A slice is a second of HTTP, because wrk knows whole seconds only, and a quarter of that over gRPC, where it is a number of calls: of 64
streams in flight at the end of a time, none would be counted.

wrk sends HTTP and makes changing requests itself; h2load sends gRPC, a stream being one body with many messages. A
unary gRPC call that changes comes from grpc.aio in this process, as h2load repeats one body.
"""

import asyncio
import dataclasses
import itertools
import json
import time

import grpc
import numpy as np

from benchmarks.against.ratios import Cell
from benchmarks.changing import NUMBER, TRACE, changing, new_connections
from benchmarks.load import HttpRequest, LoadError, h2load, wrk
from benchmarks.requests import GRPC_INFER, Sample, small, strings
from benchmarks.server.streams import STREAM_INFER
from naiad.core.messages import service_pb2
from tests.reference.process import ServerProcess

JSON, BINARY, UNARY, STREAM = WIRES = ("HTTP JSON", "HTTP binary", "gRPC", "gRPC stream")
MODELS = {"tiny": "tiny ONNX", "identity": "python", "threaded": "python in a thread"}
"""By name, as tables show them."""

STRINGS = "strings"
"""1,000 strings of 20 bytes to a Python model in a worker process."""

CHANGING, SAME, IDS, TRACED, SHAPES, NEW_CONNECTIONS = (
    "changing",
    "same",
    "ids",
    "traceparent",
    "shapes",
    "new connections",
)
MESSAGES = 32
"""Requests in one gRPC stream."""

_PARTS = 4
"""Slices of a round over gRPC: short ones, as a machine's speed changes from one second to the next."""

_ROWS = (1, 2, 3, 4, 5, 6, 7, 8)
_TIMEOUT_S = 30.0


def cells(connections: "tuple[int, ...]" = (1, 8, 64)) -> list[Cell]:
    """All that is measured: first what clients do, then one request over and over, then one change at a time."""
    first = [Cell(JSON, model, CHANGING, count) for model in MODELS for count in connections]
    plain = [
        Cell(wire, model, SAME, count)
        for wire in WIRES
        for model in MODELS
        for count in connections
    ]
    middle = sorted(connections)[len(connections) // 2]
    changing = [
        *((wire, change) for wire in (JSON, BINARY) for change in (IDS, TRACED, SHAPES)),
        *((wire, change) for wire in (UNARY, STREAM) for change in (IDS, SHAPES)),
        (UNARY, TRACED),
        (BINARY, CHANGING),
        (JSON, NEW_CONNECTIONS),
    ]
    all_cells = [
        *first,
        Cell(JSON, "tiny", NEW_CONNECTIONS, min(connections)),
        *plain,
        *(Cell(wire, "tiny", change, middle) for wire, change in changing),
        Cell(BINARY, STRINGS, CHANGING, middle),
    ]
    # With one number of connections the least is the middle one.
    return list(dict.fromkeys(all_cells))


@dataclasses.dataclass(frozen=True, slots=True)
class Amount:
    """How much load one slice is.

    Attributes:
        slices: in a round.
        seconds: how long; an integer for HTTP.
        calls: so many in place of that; 0 goes by time.
    """

    slices: int
    seconds: float
    calls: int = 0


def amount(server: ServerProcess, cell: Cell, *, seconds: int) -> Amount:
    """What one slice of a cell is, the same for every server; one that sends calls by number tries how many one second takes.

    Args:
        server: any.
        cell: what is sent.
        seconds: of a round.

    Raises:
        LoadError: as `send`.
    """
    if cell.wire in {JSON, BINARY}:
        return Amount(1, seconds)
    part = seconds / _PARTS
    if cell.wire == UNARY and cell.requests != SAME:
        return Amount(_PARTS, part)
    _, per_second = send(server, cell, Amount(1, 1), first=0)
    calls = per_second / (MESSAGES if cell.wire == STREAM else 1) * part
    return Amount(_PARTS, part, max(1, round(calls / cell.connections)) * cell.connections)


def send(server: ServerProcess, cell: Cell, much: Amount, *, first: int) -> tuple[int, float]:
    """Load one server.

    Args:
        server: which.
        cell: what is sent.
        much: how much of it.
        first: the number in the first of requests that carry one; later ones count up.

    Returns:
        How many requests were answered, and how many per second.

    Raises:
        LoadError: not all of them were answered as they should.
    """
    if cell.wire in {JSON, BINARY}:
        rate = wrk(_http(server, cell), connections=cell.connections, seconds=much.seconds, first=first)  # fmt: skip
        return rate.requests, rate.per_second
    if cell.wire == STREAM:
        messages = _messages(cell, first, MESSAGES)
        rate = h2load(
            address=server.grpc, path=STREAM_INFER, messages=messages, connections=cell.connections, seconds=much.seconds,
            calls=much.calls,
        )  # fmt: skip
        return rate.requests * MESSAGES, rate.per_second * MESSAGES
    if cell.requests == SAME:
        messages = _messages(cell, first, 1)
        rate = h2load(
            address=server.grpc, path=GRPC_INFER, messages=messages, connections=cell.connections, seconds=much.seconds,
            calls=much.calls,
        )  # fmt: skip
        return rate.requests, rate.per_second
    return asyncio.run(_calls(server, cell, seconds=much.seconds, first=first))


def check(server: ServerProcess, model: str) -> None:
    """One call and one stream over gRPC must be answered with OK: h2load does not look at gRPC's own status.

    Raises:
        LoadError: they are not.
    """
    cell = Cell(STREAM, model, IDS, 1)
    with grpc.insecure_channel(server.grpc) as channel:
        stream = channel.stream_stream(STREAM_INFER)
        try:
            answers = [
                service_pb2.ModelStreamInferResponse.FromString(each)
                for each in stream(iter(_messages(cell, 0, MESSAGES)), timeout=_TIMEOUT_S)
            ]
            channel.unary_unary(GRPC_INFER)(*_messages(cell, 0, 1), timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            raise LoadError(f"{server.program.name}: {error.code().name}: {error.details()}") from None  # fmt: skip
    failed = [answer.error_message for answer in answers if answer.error_message]
    if failed or len(answers) != MESSAGES:
        raise LoadError(f"{server.program.name} gave {len(answers)} responses to {MESSAGES} requests in a stream: {failed[:1]}")  # fmt: skip


def _http(server: ServerProcess, cell: Cell) -> HttpRequest:
    """The requests of a cell as wrk sends them."""
    if cell.requests == CHANGING:
        form = Sample.json if cell.wire == JSON else Sample.binary
        return changing(form(_sample(cell.model, 1), server.http))
    samples = [_sample(cell.model, rows) for rows in (_ROWS if cell.requests == SHAPES else (1,))]
    form = Sample.json if cell.wire == JSON else Sample.binary
    made = [form(sample, server.http) for sample in samples]
    if cell.requests == IDS:
        made = [_with_id(each, binary=cell.wire == BINARY) for each in made]
    if cell.requests == NEW_CONNECTIONS:
        return new_connections(made[0])
    headers = (TRACE,) if cell.requests == TRACED else ()
    first, *others = [dataclasses.replace(each, headers=(*each.headers, *headers)) for each in made]
    return dataclasses.replace(
        first,
        others=tuple((other.body, other.headers) for other in others),
        number=NUMBER if cell.requests in {IDS, TRACED} else "",
    )


def _with_id(request: HttpRequest, *, binary: bool) -> HttpRequest:
    """The request with an id that grows; the JSON of a binary one stays as long as its header says."""
    start = json.dumps({"id": NUMBER}).encode()[:-1] + b", "
    headers = dict(request.headers)
    if binary:
        name = "Inference-Header-Content-Length"
        headers[name] = str(int(headers[name]) + len(start) - 1)
    return dataclasses.replace(request, body=start + request.body[1:], headers=tuple(headers.items()))  # fmt: skip


def _sample(model: str, rows: int) -> Sample:
    """`small`, with so many rows."""
    if model == STRINGS:
        return strings(1000)
    one = small(model)
    return dataclasses.replace(one, values=np.repeat(one.values, rows, axis=0))


def _messages(cell: Cell, first: int, count: int) -> list[bytes]:
    """So many serialised requests."""
    shapes = _ROWS if cell.requests == SHAPES else (1,)
    made = [service_pb2.ModelInferRequest.FromString(_sample(cell.model, rows).message()) for rows in shapes]  # fmt: skip
    found: list[bytes] = []
    for number, message in zip(range(first, first + count), itertools.cycle(made), strict=False):
        if cell.requests == IDS:
            message.id = f"{number:012d}"
        found.append(message.SerializeToString())
    return found


async def _calls(
    server: ServerProcess, cell: Cell, *, seconds: float, first: int
) -> tuple[int, float]:
    """Unary calls that change, one at a time on each of some channels."""
    numbers = itertools.count(first)
    started = time.perf_counter()
    end = started + seconds
    prepared = itertools.cycle(_messages(cell, first, len(_ROWS)))

    async def caller() -> int:
        done = 0
        async with grpc.aio.insecure_channel(server.grpc) as channel:
            call = channel.unary_unary(GRPC_INFER)
            while time.perf_counter() < end:
                number = next(numbers)
                message = _messages(cell, number, 1)[0] if cell.requests == IDS else next(prepared)
                metadata = ((TRACE[0], TRACE[1].replace(NUMBER, f"{number:012d}")),)
                await call(message, metadata=metadata if cell.requests == TRACED else None, timeout=_TIMEOUT_S)  # fmt: skip
                done += 1
        return done

    try:
        done = sum(await asyncio.gather(*(caller() for _ in range(cell.connections))))
    except grpc.RpcError as error:
        raise LoadError(f"{server.program.name}: {error.code().name}: {error.details()}") from None
    return done, done / (time.perf_counter() - started)
