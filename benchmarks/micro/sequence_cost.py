"""What the scheduler of sequences costs: time of the event loop per request with few and with many requests queued (`python -m benchmarks.micro.sequence_cost`)."""

import asyncio
import collections.abc
import time

import numpy as np
import uvloop

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
from naiad.scheduling.instances.resources import UnlimitedResources
from naiad.scheduling.scheduler import Scheduler

_ROWS = 64
_QUEUED = (10, 10_000)
_COUNTED = 50_000
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

    async def close_late(self, why: str) -> None:
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


def table(rounds: int = 5) -> str:
    """As Markdown: the least of so many runs."""
    lines = [
        "| strategy | queued | µs of the loop per request | ratio to 10 |",
        "|---|---|---|---|",
    ]
    for name, strategy in _STRATEGIES.items():
        first = 0.0
        for queued in _QUEUED:
            found = min(uvloop.run(_cost(strategy, queued)) for _ in range(rounds))
            first = first or found
            lines.append(f"| {name} | {queued:,} | {found:.1f} | {found / first:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
