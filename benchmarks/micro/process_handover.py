"""What a hand-over to a worker process and back costs, beside the bare least: one byte on a socket pair.

The same event loop does both: one request of an FP32 tensor through a `ProcessHost` whose model hands it back, and one byte to a
child that sends it back. Rounds take turns, so that all see the same machine; medians are shown. It means something on a quiet machine
only: `python -m benchmarks.micro.process_handover`.

A loop that does nothing else is moved by the kernel to whichever processor is idle when its worker wakes it, which a loop with clients seldom is.
So there are two columns: moved as the kernel likes, and kept on one processor, where the worker follows it.
"""

import asyncio
import collections.abc
import contextlib
import dataclasses
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import typing

import numpy as np
import uvloop

from naiad.backends.backend import ModelSource
from naiad.backends.instance import InstanceSpec
from naiad.backends.python.backend import PythonBackend
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.config.typed import typed
from naiad.core import datatypes
from naiad.core.clock import SystemClock
from naiad.core.inference import Inference
from naiad.core.messages import model_config_pb2
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.hosts.cpu_affinity import SAMPLE_INTERVAL, current_processor
from naiad.hosts.host import BatchOutcome, ClosedRpcHandler, Limits
from naiad.hosts.process.worker_group import WorkerGroup
from naiad.metrics.statistics import RestartReason

_MODEL = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUT", request.inputs()[0].as_numpy())])
            for request in requests
        ]
"""
_ECHO = """\
import socket, sys
s = socket.socket(fileno=int(sys.argv[1]))
while data := s.recv(1):
    s.send(data)
"""
_ROUNDS = 20
_TURNS = 300
_ELEMENTS = (4, 25_000, 262_144, 4_194_304)
_FEW_TURNS = 20
_SMALL_BYTES = 1 << 17
_US = 1e6


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """Medians of a size, in microseconds."""

    size: int
    host_us: float
    kept_us: float
    bare_us: float


Turn = typing.Callable[[typing.Callable[[], None]], None]


def _config() -> ModelConfig:
    message = model_config_pb2.ModelConfig(name="echo", backend="python", max_batch_size=8)
    for kind, name in ((message.input, "IN"), (message.output, "OUT")):
        kind.add(name=name, dims=[-1], data_type=model_config_pb2.TYPE_FP32)
    return typed(message)


def _inference(elements: int) -> Inference:
    values = np.ones((1, elements), np.float32)
    tensor = Tensor("IN", datatypes.FP32, values.shape, values)
    request = InferRequest("echo", LATEST, "", [tensor], [], {})
    return Inference(request, _ignore, batch_size=1, received_ns=0)


def _ignore(response: InferResponse) -> None:
    """The host's outcome is what counts here."""


def _no_restart(reason: RestartReason) -> None:
    raise RuntimeError(f"the worker ended: {reason}")


async def _measured(turn: Turn, turns: int) -> float:
    """Seconds a turn, one after the other, each begun by the end of the last."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    left = turns

    def again() -> None:
        nonlocal left
        if left:
            left -= 1
            turn(again)
        else:
            done.set_result(None)

    started = time.perf_counter()
    again()
    await done
    return (time.perf_counter() - started) / turns


async def _run(folder: pathlib.Path, rounds: int) -> list[Cost]:
    loop = asyncio.get_running_loop()
    ours, its = socket.socketpair()
    child = subprocess.Popen(  # noqa: S603, ASYNC220 - a child of this file's own, before anything runs
        [sys.executable, "-c", _ECHO, str(its.fileno())], pass_fds=[its.fileno()]
    )
    its.close()
    ours.setblocking(False)
    config = _config()
    source = ModelSource(config=config, version=1, model_dir=folder, options={})
    spec = InstanceSpec(name="echo_0", kind=InstanceKind.CPU, device_id=0)
    group = WorkerGroup(
        "echo",
        1,
        PythonBackend(clock=SystemClock()).worker_plan(source, spec),
        config=config,
        limits=Limits(),
        on_restart=_no_restart,
        rpc_handler=ClosedRpcHandler(),
        clock=SystemClock(),
        loop=loop,
    )
    worker, (host,) = group.supervisor, group.hosts
    await worker.start()
    call: list[typing.Callable[[], None]] = []

    def byte_came() -> None:
        ours.recv(1)
        call.pop()()

    def bare(then: typing.Callable[[], None]) -> None:
        call.append(then)
        ours.send(b"x")

    def through_the_host(inference: Inference) -> Turn:
        def turn(then: typing.Callable[[], None]) -> None:
            def came_back(outcome: BatchOutcome) -> None:
                if outcome.error is not None:
                    raise outcome.error
                then()

            host.submit([inference], came_back)

        return turn

    loop.add_reader(ours.fileno(), byte_came)
    costs: list[Cost] = []
    for elements in _ELEMENTS:
        turns = _TURNS if elements * 4 < _SMALL_BYTES else _FEW_TURNS
        turn = through_the_host(_inference(elements))
        await _measured(turn, turns)
        times: list[tuple[float, float, float]] = []
        for _ in range(rounds):
            free = await _measured(turn, turns)
            with _on_one_processor():
                await _measured(turn, SAMPLE_INTERVAL)  # until the worker has followed
                kept = await _measured(turn, turns)
            times.append((free, kept, await _measured(bare, _TURNS)))
        free, kept, least = (statistics.median(each) * _US for each in zip(*times, strict=True))
        costs.append(Cost(elements * 4, free, kept, least))
    loop.remove_reader(ours.fileno())
    ours.close()
    child.wait()
    await host.close()
    return costs


@contextlib.contextmanager
def _on_one_processor() -> collections.abc.Iterator[None]:
    """Keeps this thread, the loop's, where it is."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {current_processor()})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def measure(*, rounds: int) -> list[Cost]:
    """Through a worker, and beside it the bare pair."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "1").mkdir()
        (folder / "1" / "model.py").write_text(_MODEL)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(folder, rounds))


def table(costs: collections.abc.Iterable[Cost]) -> str:
    """As Markdown."""
    lines = [
        (
            "| bytes each way | through the host and back µs | the same, the loop kept on one processor µs "
            "| one byte on a socket pair and back µs |"
        ),
        "|---|---|---|---|",
    ]
    lines += [
        f"| {cost.size:,} | {cost.host_us:,.0f} | {cost.kept_us:,.0f} | {cost.bare_us:,.0f} |"
        for cost in costs
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(measure(rounds=_ROUNDS)))
