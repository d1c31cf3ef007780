"""What sequences cost: loop time per request with few and with many requests queued, and requests per second beside Triton.

`python -m benchmarks.server.sequences` prints both; with `cost` only the first, which needs no other server; a number is how
often both servers are loaded in turn (5). The second runs 64 sequences on 64
connections, each with its next request when it has its response, against the same Python models in both servers, loaded in turn.
"""

import asyncio
import collections.abc
import json
import pathlib
import statistics
import sys
import tempfile
import time
import typing

import numpy as np
import uvloop
from typing_extensions import override

from naiad.backends.instance import Execution, InstanceSpec
from naiad.config.model_config import (
    InstanceGroup,
    InstanceKind,
    ModelConfig,
    Optimization,
    TensorSpec,
)
from naiad.config.sequence_batching import (
    ControlKind,
    DirectStrategy,
    OldestStrategy,
    SequenceBatching,
    SequenceControl,
)
from naiad.core import datatypes
from naiad.core.clock import SystemClock
from naiad.core.inference import Inference
from naiad.core.request import LATEST, SEQUENCE_START, InferRequest
from naiad.core.response import NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.hosts.host import BatchOutcome, HostedInstance, OnDeferred, OnOutcome
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.factory import SchedulerFactory
from naiad.scheduling.resources import UnlimitedResources
from naiad.scheduling.scheduler import Scheduler
from tests.reference.install import install
from tests.reference.process import ServerProcess, naiad_program, reference_program

_ROWS = 64
_QUEUED = (10, 10_000)
_COUNTED = 50_000
_SEQUENCES = 64
_SLICE_S = 2.0
_SPEC = TensorSpec(name="x", datatype=datatypes.FP32, dims=(1,))
_CONTROLS = (
    SequenceControl(kind=ControlKind.START, name="START", datatype=datatypes.INT32, true=1),
    SequenceControl(kind=ControlKind.READY, name="READY", datatype=datatypes.INT32, true=1),
    SequenceControl(kind=ControlKind.CORRID, name="CORRID", datatype=datatypes.UINT64),
)
_STRATEGIES: dict[str, DirectStrategy | OldestStrategy] = {
    "direct": DirectStrategy(),
    "oldest": OldestStrategy(max_candidate_sequences=_ROWS),
}


class _Host:
    """A host whose batches are over at once: the time is the scheduler's."""

    prefetches = False

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def submit(self, batch: list[Inference], on_outcome: OnOutcome) -> None:
        now = time.monotonic_ns()
        responses = [
            InferResponse("m", 1, "", each.request.inputs, NO_PARAMETERS) for each in batch
        ]
        outcome = BatchOutcome(batch, Execution(responses, now, now), None, now, now, now)
        self._loop.call_soon(on_outcome, outcome)

    def deferred_to(self, on_deferred: OnDeferred) -> None:
        """No responses are deferred."""

    def watch(self, usable: collections.abc.Callable[[bool], None]) -> None:
        """It is always usable."""

    def ready_now(self) -> bool:
        return True

    async def ready(self) -> bool:
        return True

    def abort(self, why: str) -> None:
        """Nothing runs."""

    async def close(self) -> None:
        """Nothing to close."""


def _scheduler(strategy: DirectStrategy | OldestStrategy) -> Scheduler:
    config = ModelConfig(
        name="m",
        platform="",
        backend="none",
        default_model_filename="",
        max_batch_size=_ROWS,
        inputs=(_SPEC,),
        outputs=(_SPEC,),
        instance_groups=(InstanceGroup(name="m_0", kind=InstanceKind.CPU, count=1),),
        dynamic_batching=None,
        optimization=Optimization(),
        decoupled=False,
        parameters={},
        metric_tags={},
        op_library_filenames=(),
        message=None,
        sequence_batching=SequenceBatching(
            controls=_CONTROLS, strategy=strategy, max_sequence_idle_us=10**9
        ),
    )
    make = SchedulerFactory(resources=UnlimitedResources(), clock=SystemClock())
    host = _Host(asyncio.get_running_loop())
    return make(
        config,
        version=1,
        instances=[HostedInstance(InstanceSpec("m_0_0", InstanceKind.CPU, 0), host)],
        submit=lambda *_arguments, **_named: None,  # never called
        statistics=ModelStatistics(),
    )


async def _cost(strategy: DirectStrategy | OldestStrategy, queued: int) -> float:
    """Microseconds of processor time of the loop per request, while so many are queued over as many sequences as there are slots."""
    scheduler = _scheduler(strategy)
    tensor = Tensor("x", datatypes.FP32, (1, 1), np.zeros((1, 1), np.float32))
    done = asyncio.get_running_loop().create_future()
    count = 0
    started = 0

    def send(key: int, flags: int = 0) -> None:
        request = InferRequest("m", LATEST, "", [tensor], [], {}, correlation_id=key, flags=flags)
        scheduler.submit(Inference(request, lambda _: answered(key), 1, time.monotonic_ns()))

    def answered(key: int) -> None:
        nonlocal count, started
        count += 1
        if count == _COUNTED // 10:
            started = time.process_time_ns()
        if count <= _COUNTED:
            send(key)
        elif not done.done():
            done.set_result(time.process_time_ns() - started)

    keys = range(1, min(queued, _ROWS) + 1)
    for number in range(queued):
        key = keys[number % len(keys)]
        send(key, SEQUENCE_START if number < len(keys) else 0)
    took: int = await done
    return took / (_COUNTED * 9 // 10) / 1_000


def cost() -> str:
    """As Markdown."""
    lines = [
        "| strategy | queued | µs of the loop per request | ratio to 10 |",
        "|---|---|---|---|",
    ]
    for name, strategy in _STRATEGIES.items():
        first = 0.0
        for queued in _QUEUED:
            found = min(uvloop.run(_cost(strategy, queued)) for _ in range(5))
            first = first or found
            lines.append(f"| {name} | {queued:,} | {found:.1f} | {found / first:.2f} |")
    return "\n".join(lines)


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
            raise RuntimeError(body.decode())
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


async def _rate(server: ServerProcess, model: str) -> float:
    """Requests per second of all sequences."""
    host, port = server.http.split(":")
    counts = [0]
    started = time.perf_counter()
    loop = asyncio.get_running_loop()
    clients: list[_Client] = []
    for key in range(1, _SEQUENCES + 1):
        _, client = await loop.create_connection(
            lambda key=key: _Client(model, key, counts, started + _SLICE_S),  # type: ignore[misc]
            host,
            int(port),
        )
        clients.append(client)
    await asyncio.gather(*(client.closed for client in clients))
    return counts[0] / (time.perf_counter() - started)


def contest(rounds: int) -> str:
    """As Markdown."""
    found: dict[tuple[str, str], list[float]] = {}
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
            for turn in range(rounds + 1):
                servers = [("triton", triton), ("naiad", naiad)]
                for model in _WRITTEN:
                    for which, server in servers if turn % 2 else servers[::-1]:
                        per_second = uvloop.run(_rate(server, model))
                        if turn:
                            found.setdefault((model, which), []).append(per_second)
    lines = ["| strategy | Triton req/s | Naiad req/s | ratio |", "|---|---|---|---|"]
    for model in _WRITTEN:
        theirs, ours = found[model, "triton"], found[model, "naiad"]
        ratio = statistics.median(mine / its for its, mine in zip(theirs, ours, strict=True))
        lines.append(
            f"| {model} | {statistics.median(theirs):,.0f} | {statistics.median(ours):,.0f} | **{ratio:.2f}** |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    given = sys.argv[1:]
    print(cost(), flush=True)
    if "cost" not in given:
        print()
        print(contest(int(given[0]) if given else 5))
