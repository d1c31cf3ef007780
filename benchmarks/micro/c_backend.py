"""What a call of a backend in C costs beside the same in Python: identity, each in a worker process, the hand-over included.

Three workers take turns, so that all see the same machine: the library of `examples/backends/identity`, a Python backend as a package makes one
(`naiad.backends.instance`), and a `model.py`. Medians of µs per batch are shown, on the clock / of processor time of the server's loop and the worker
together, and the aim: a call of the library costs at most 1.2 times the processor time of one of the package. `python -m benchmarks.micro.c_backend [ROUNDS]`, with a C compiler.
"""

import asyncio
import collections.abc
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import typing

import msgspec
import numpy as np
import uvloop
from typing_extensions import override

from naiad.backends import batch as batches
from naiad.backends.backend import ModelSource, WorkerPlan
from naiad.backends.c.backend import CBackend
from naiad.backends.instance import Call, Execution, Instance, InstanceSpec, LoadedModel, Response
from naiad.backends.python.backend import PythonBackend
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.config.typed import typed
from naiad.core import datatypes
from naiad.core.clock import SystemClock
from naiad.core.inference import Inference
from naiad.core.messages import model_config_pb2
from naiad.core.request import LATEST, InferRequest
from naiad.core.tensor import Tensor
from naiad.hosts.host import BatchOutcome, ClosedRpcHandler, Limits
from naiad.hosts.process.worker_group import WorkerGroup

_EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "backends" / "identity"
_MODEL = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", np.copy(request.inputs()[0].as_numpy()))])
            for request in requests
        ]
"""
_SHAPES = ((4, 1), (4, 8), (25_000, 1), (262_144, 1), (262_144, 8))
"""Elements of FP32 per request, and requests per batch."""

_ROUNDS = 15
_TURN_S = 0.04
_US = 1e6
_AIM = 1.2


class Package(LoadedModel):
    """The backend of a package."""

    def __init__(self, _settings: object) -> None:
        """Nothing is shared."""

    @override
    def make_instance(self, spec: InstanceSpec) -> Instance:
        return PackageInstance()

    @override
    def close(self) -> None:
        """Nothing is shared."""


class PackageInstance(Instance):
    """Merges, copies and splits, as the example of a package does."""

    @override
    def execute(self, batch: collections.abc.Sequence[Call]) -> Execution[Response]:
        x = batches.merge([call.request.inputs for call in batch])["INPUT0"]
        begun_ns = time.monotonic_ns()
        y = np.copy(x)
        ended_ns = time.monotonic_ns()
        ends = np.cumsum([call.batch_size for call in batch])
        responses = [Response([("OUTPUT0", "FP32", rows)], {}) for rows in np.split(y, ends[:-1])]
        return Execution(responses, begun_ns, ended_ns)


def _config() -> ModelConfig:
    message = model_config_pb2.ModelConfig(name="echo", backend="identity", max_batch_size=8)
    for kind, name in ((message.input, "INPUT0"), (message.output, "OUTPUT0")):
        kind.add(name=name, dims=[-1], data_type=model_config_pb2.TYPE_FP32)
    return typed(message)


def _inference(elements: int) -> Inference:
    values = np.ones((1, elements), np.float32)
    tensor = Tensor("INPUT0", datatypes.FP32, values.shape, values)
    request = InferRequest("echo", LATEST, "", [tensor], [], {})
    return Inference(request, lambda _: None, batch_size=1, received_ns=0)


def _plans(folder: pathlib.Path, config: ModelConfig) -> dict[str, WorkerPlan]:
    source = ModelSource(config=config, version=1, model_dir=folder, options={})
    spec = InstanceSpec(name="echo_0", kind=InstanceKind.CPU, device_id=0)
    plan = CBackend(name="identity", backend_dir=folder).worker_plan(source, spec)
    path = os.pathsep.join((str(_EXAMPLE.parents[2]), *sys.path))
    return {
        "library": plan,
        "package": msgspec.structs.replace(
            plan, load="benchmarks.micro.c_backend:Package", environ={"PYTHONPATH": path}
        ),
        "model.py": PythonBackend(clock=SystemClock()).worker_plan(source, spec),
    }


def _worker_s(host: typing.Any) -> float:
    """Seconds of processor time of a worker process so far."""
    tasks = pathlib.Path(f"/proc/{host.pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


async def _turn(host: typing.Any, batch: list[Inference]) -> tuple[float, float]:
    """Seconds per batch, one after the other: on the clock, and of the processors that the loop and the worker use."""
    loop = asyncio.get_running_loop()
    used = time.thread_time() + _worker_s(host)
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < _TURN_S:
        done: asyncio.Future[BatchOutcome] = loop.create_future()
        host.submit(batch, done.set_result)
        outcome = await done
        assert outcome.error is None
        count += 1
    took = (time.perf_counter() - started) / count
    return took, (time.thread_time() + _worker_s(host) - used) / count


async def _run(folder: pathlib.Path, rounds: int) -> list[str]:
    config = _config()
    hosts: dict[str, typing.Any] = {}
    for name, plan in _plans(folder, config).items():
        group = WorkerGroup(
            "echo", 1, plan, config=config, limits=Limits(), on_restart=lambda _: None, rpc_handler=ClosedRpcHandler(),
            clock=SystemClock(), loop=asyncio.get_running_loop(),
        )  # fmt: skip
        await group.supervisor.start()
        (hosts[name],) = group.hosts
    lines = [
        f"| bytes per request | requests | {' | '.join(f'{name} µs' for name in hosts)} | library / package |",
        "|---|---|---|---|---|---|",
    ]
    for elements, requests in _SHAPES:
        batch = [_inference(elements) for _ in range(requests)]
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in hosts}
        for turn in range(rounds + 1):
            for name, host in hosts.items():
                took = await _turn(host, batch)
                if turn:  # the first one is the way there
                    times[name].append(took)
        ratio = statistics.median(
            mine / theirs
            for (_, mine), (_, theirs) in zip(times["library"], times["package"], strict=True)
        )
        shown = " | ".join(
            " / ".join(f"{statistics.median(part) * _US:,.0f}" for part in zip(*each, strict=True))
            for each in times.values()
        )
        lines.append(f"| {4 * elements:,} | {requests} | {shown} | {ratio:.2f} (aim {_AIM}) |")
    for host in hosts.values():
        await host.close()
    return lines


def main(rounds: int) -> None:
    """Print the comparison."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copytree(_EXAMPLE, folder, dirs_exist_ok=True)
        subprocess.run(  # noqa: S603 - the example's Makefile
            ["make", "-B", "-C", name, f"PYTHON={sys.executable}"],  # noqa: S607
            check=True,
            stdout=sys.stderr,
        )
        (folder / "1").mkdir()
        (folder / "1" / "model.py").write_text(_MODEL)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            print("\n".join(runner.run(_run(folder, rounds))))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else _ROUNDS)
