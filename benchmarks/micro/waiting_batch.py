"""Loop time per request of a dynamic batcher whose batch waits for more requests, by how many wait and what their inputs are like.

The scheduler, its queue and its decisions run on a real loop; the instance is a stand-in that does nothing. Requests arrive a few iterations of
the loop apart, so that they are not considered together: with a fixed shape no arrival needs a decision; with a variable dimension, or optional
inputs, each one does.
`python -m benchmarks.micro.waiting_batch` prints the table.
"""

import argparse
import asyncio
import collections.abc
import gc
import statistics
import time
import typing

import numpy as np
import uvloop

from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import (
    DynamicBatching,
    InstanceGroup,
    InstanceKind,
    ModelConfig,
    Optimization,
    TensorSpec,
)
from naiad.core.clock import SystemClock
from naiad.core.datatypes import FP32
from naiad.core.inference import Inference
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.hosts.host import BatchOutcome, HostedInstance, OnDeferred, OnOutcome
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.factory import SchedulerFactory
from naiad.scheduling.instances.resources import UnlimitedResources

_KINDS = {
    "fixed shape": TensorSpec(name="x", datatype=FP32, dims=(16,)),
    "variable dim": TensorSpec(name="x", datatype=FP32, dims=(-1,)),
    "optional input": TensorSpec(name="x", datatype=FP32, dims=(16,), optional=True),
}
_NS_PER_US = 1e3
_APART = 3
"""Iterations of the loop from one request to the next: a scheduler that gathers requests waits for one without a request."""


class _Idle:
    """A `Host` whose batches end at once, in the next iteration of the loop."""

    prefetches = False

    def submit(self, batch: list[Inference], on_outcome: OnOutcome) -> None:
        now = time.monotonic_ns()
        outcome = BatchOutcome(batch, None, None, now, now, now)
        asyncio.get_running_loop().call_soon(on_outcome, outcome)

    def deferred_to(self, on_deferred: OnDeferred) -> None:
        """Every response is in its batch."""

    def watch(self, usable: collections.abc.Callable[[bool], None]) -> None:
        """It is always usable."""


def _no_calls(*_arguments: object, **_named: object) -> typing.NoReturn:
    raise AssertionError("a queue in front of instances calls no model")


def measure(waiting: int, spec: TensorSpec, *, rounds: int) -> float:
    """Microseconds of loop time per request, the median of the rounds, of batches of so many requests."""
    return uvloop.run(_measure(waiting, spec, rounds))


async def _measure(waiting: int, spec: TensorSpec, rounds: int) -> float:
    idle: typing.Any = _Idle()  # it has what the scheduler calls
    make = SchedulerFactory(resources=UnlimitedResources(), clock=SystemClock())
    scheduler = make(
        _config(spec, waiting),
        version=1,
        instances=[HostedInstance(InstanceSpec("idle", InstanceKind.CPU, 0), idle)],
        submit=_no_calls,
        statistics=ModelStatistics(),
    )
    array = np.zeros((1, 16), np.float32)
    tensor = Tensor(spec.name, FP32, (1, 16), array)
    request = InferRequest(spec.name, LATEST, "", [tensor], [], {})

    def ignore(_response: InferResponse) -> None:
        """It is the time before that counts."""

    times = []
    gc.disable()
    for _ in range(rounds):
        inferences = [Inference(request, ignore, batch_size=1, received_ns=0) for _ in range(waiting)]  # fmt: skip
        started = time.thread_time_ns()
        for inference in inferences:
            scheduler.submit(inference)
            for _ in range(_APART):
                await asyncio.sleep(0)
        times.append((time.thread_time_ns() - started) / waiting / _NS_PER_US)
        for _ in range(4):
            await asyncio.sleep(0)
    gc.enable()
    return statistics.median(times)


def _config(spec: TensorSpec, waiting: int) -> ModelConfig:
    return ModelConfig(
        name="m", platform="", backend="", default_model_filename="", max_batch_size=waiting, inputs=(spec,), outputs=(),
        instance_groups=(InstanceGroup(name="m_0", kind=InstanceKind.CPU, count=1),),
        dynamic_batching=DynamicBatching(max_queue_delay_us=60_000_000), optimization=Optimization(), decoupled=False, parameters={},
        metric_tags={}, op_library_filenames=(), message=None,
    )  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.micro.waiting_batch", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=15, help="batches of each kind (default 15)")
    parser.add_argument("--waiting", type=int, nargs="+", default=[64, 256, 1024])
    arguments = parser.parse_args()
    print("| µs of the loop per request | " + " | ".join(f"{count} waiting" for count in arguments.waiting) + " |")  # fmt: skip
    print("|---|" + "---|" * len(arguments.waiting))
    for kind, spec in _KINDS.items():
        cells = [measure(count, spec, rounds=arguments.rounds) for count in arguments.waiting]
        print(f"| {kind} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")


if __name__ == "__main__":
    main()
