"""Sequences beside Triton: requests per second of 64 sequences on 64 connections over HTTP, each with its next request when it has its response.

The same Python model on both servers, in both strategies. Rounds of both servers take turns; medians are shown, and the medians of the ratios of pairs:
`python -m benchmarks.server.sequences [ROUNDS] [SECONDS]`.
"""

import asyncio
import collections
import dataclasses
import json
import pathlib
import statistics
import sys
import tempfile
import time
import typing

import uvloop
from typing_extensions import override

from benchmarks.load import LoadError
from benchmarks.pairs import ratio
from tests.reference.install import install
from tests.reference.process import ServerProcess, naiad_program, reference_program

_SEQUENCES = 64

_CODE = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "VALUE").as_numpy()
            key = int(pb_utils.get_input_tensor_by_name(request, "CORRID").as_numpy()[0][0])
            start = pb_utils.get_input_tensor_by_name(request, "START").as_numpy()[0][0]
            total = self.sums[key] = value if start else self.sums.get(key, 0) + value
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("SUM", total)]))
        return responses
"""

_CONFIG = """\
backend: "python"
max_batch_size: 64
input {{ name: "VALUE" data_type: TYPE_INT32 dims: 1 }}
output {{ name: "SUM" data_type: TYPE_INT32 dims: 1 }}
instance_group {{ kind: KIND_CPU count: 1 }}
sequence_batching {{
  {strategy}
  max_sequence_idle_microseconds: 60000000
  control_input [
    {{ name: "START" control {{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }} }},
    {{ name: "READY" control {{ kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] }} }},
    {{ name: "CORRID" control {{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 }} }}
  ]
}}
"""
_WRITTEN = {"direct": "direct { }", "oldest": "oldest { max_candidate_sequences: 64 }"}


class _Client(asyncio.Protocol):
    """One connection with one sequence: the next request goes out with each response."""

    def __init__(self, model: str, key: int, counts: list[int], until: float) -> None:
        self._first, self._next = (
            _request(model, key, start=True),
            _request(model, key, start=False),
        )
        self._counts = counts
        self._until = until
        self._buffer = b""
        self.closed = asyncio.get_running_loop().create_future()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = typing.cast("asyncio.Transport", transport)
        self._transport.write(self._first)

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        lower = head.lower()
        length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
        if len(body) < length:
            return
        if b" 200 " not in head[:16]:
            self.closed.set_exception(LoadError(f"a request of a sequence failed: {body.decode()}"))
            self._transport.abort()
            return
        self._buffer = b""
        self._counts[0] += 1
        if time.perf_counter() < self._until:
            self._transport.write(self._next)
        else:
            self._transport.close()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


def _request(model: str, key: int, *, start: bool) -> bytes:
    parameters: dict[str, int | bool] = {"sequence_id": key}
    if start:
        parameters["sequence_start"] = True
    tensor = {"name": "VALUE", "datatype": "INT32", "shape": [1, 1], "data": [1]}
    body = json.dumps({"parameters": parameters, "inputs": [tensor]}).encode()
    head = (
        f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _rate(server: ServerProcess, model: str, seconds: float) -> float:
    """Requests per second of all sequences."""
    host, port = server.http.split(":")
    counts = [0]
    started = time.perf_counter()
    loop = asyncio.get_running_loop()
    clients: list[_Client] = []
    for key in range(1, _SEQUENCES + 1):
        _, client = await loop.create_connection(
            lambda key=key: _Client(model, key, counts, started + seconds),  # type: ignore[misc]
            host,
            int(port),
        )
        clients.append(client)
    await asyncio.gather(*(client.closed for client in clients))
    return counts[0] / (time.perf_counter() - started)


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One strategy: medians of requests per second, Triton's first, and of the ratios of pairs."""

    strategy: str
    rates: tuple[float, float]
    faster: float


def measure(*, rounds: int, seconds: float) -> list[Cell]:
    """Run both servers side by side, loaded in turn; the first round warms them up.

    Raises:
        LoadError: a server did not answer as it should.
    """
    found: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model, strategy in _WRITTEN.items():
            version = folder / "models" / model / "1"
            version.mkdir(parents=True)
            (version / "model.py").write_text(_CODE)
            (version.parent / "config.pbtxt").write_text(_CONFIG.format(strategy=strategy))
        shared = [folder / "models"]
        with (
            ServerProcess(
                reference_program(install()), shared, log=folder / "triton.log"
            ) as triton,
            ServerProcess(naiad_program(), shared, log=folder / "naiad.log") as naiad,
        ):
            servers = [("triton", triton), ("naiad", naiad)]
            for turn in range(rounds + 1):
                for model in _WRITTEN:
                    for which, server in servers if turn % 2 else servers[::-1]:
                        per_second = uvloop.run(_rate(server, model, seconds if turn else 1.0))
                        if not turn:
                            continue
                        found[model, which].append(per_second)
                        print(
                            f"round {turn}  sequences, {model:<7} {which:<6} {per_second:>9,.0f}/s",
                            flush=True,
                        )
    return [_cell(model, found[model, "triton"], found[model, "naiad"]) for model in _WRITTEN]


def _cell(strategy: str, theirs: list[float], ours: list[float]) -> Cell:
    ratios = (ratio(mine, its) for its, mine in zip(theirs, ours, strict=True))
    return Cell(
        strategy,
        (statistics.median(theirs), statistics.median(ours)),
        statistics.median(ratios),
    )


def table(cells: list[Cell]) -> str:
    """As Markdown."""
    lines = ["| strategy | Triton req/s | Naiad req/s | ratio |", "|---|---|---|---|"]
    for cell in cells:
        theirs, ours = cell.rates
        lines.append(f"| {cell.strategy} | {theirs:,.0f} | {ours:,.0f} | **{cell.faster:.2f}** |")
    return "\n".join(lines)


if __name__ == "__main__":
    given = [float(each) for each in sys.argv[1:]]
    print(
        table(
            measure(
                rounds=int(given[0]) if given else 5, seconds=given[1] if len(given) > 1 else 2.0
            )
        )
    )
