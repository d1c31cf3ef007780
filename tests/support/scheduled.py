"""A model's scheduler in front of scripted hosts, with everything that its clients saw."""

import asyncio
import collections.abc
import typing

from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import DynamicBatching, TensorSpec
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts.host import HostedInstance
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.factory import SchedulerFactory
from naiad.scheduling.instances.resources import Resources, UnlimitedResources
from naiad.scheduling.strategy import Strategy
from tests.support.clock import LoopClock
from tests.support.hosts import ScriptedHost, hosted
from tests.support.inferences import (
    make_config,
    make_inference,
    make_spec,
)

MS = 1_000_000
BACKEND_FAILED = InferenceError(ErrorCode.INTERNAL, "broken", reason=FailureReason.BACKEND)


class ScheduledModel:
    """A scheduler, its hosts and everything that its clients saw."""

    def __init__(
        self,
        batching: DynamicBatching | None = None,
        *,
        instances: int = 1,
        takes_s: float | None = None,
        max_batch_size: int = 8,
        inputs: collections.abc.Sequence[TensorSpec] = (make_spec(),),
        name: str = "m",
        resources: Resources | None = None,
        prefetches: bool = False,
        specs: collections.abc.Sequence[InstanceSpec] = (),
        strategy: typing.Any = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.clock = LoopClock(loop)
        self.hosts = [
            ScriptedHost(
                clock=self.clock,
                loop=loop,
                name=f"{name}_0_{k}",
                takes_s=takes_s,
                prefetches=prefetches,
            )
            for k in range(len(specs) or instances)
        ]
        self.statistics = ModelStatistics()
        make = SchedulerFactory(
            resources=UnlimitedResources() if resources is None else resources, clock=self.clock
        )
        self.scheduler = make(
            make_config(batching=batching, max_batch_size=max_batch_size, inputs=inputs),
            version=1,
            instances=list(map(HostedInstance, specs, self.hosts)) if specs else hosted(self.hosts),
            submit=no_submit,
            statistics=self.statistics,
            strategy=None
            if strategy is None
            else Strategy(strategy, model=name, statistics=self.statistics),
        )
        self.answered: list[tuple[str, float, InferResponse]] = []

    @property
    def host(self) -> ScriptedHost:
        return self.hosts[0]

    def send(
        self,
        *tensors: Tensor,
        rows: int = 1,
        priority: int = 0,
        timeout_us: int = 0,
        parameters: collections.abc.Mapping[str, typing.Any] | None = None,
    ) -> Inference:
        def on_response(response: InferResponse) -> None:
            self.answered.append((response.id, self.now_ms, response))

        inference = make_inference(
            *tensors,
            rows=rows,
            priority=priority,
            timeout_us=timeout_us,
            received_ns=self.clock.monotonic_ns(),
            on_response=on_response,
        )
        inference.request.parameters.update(parameters or {})
        self.scheduler.submit(inference)
        return inference

    @property
    def now_ms(self) -> float:
        return self.clock.monotonic_ns() / MS

    def when(self, inference: Inference) -> float:
        """When it was answered, in milliseconds; exactly once."""
        times = [at for request_id, at, _ in self.answered if request_id == inference.request.id]
        assert len(times) == 1
        return times[0]

    def error(self, inference: Inference) -> InferenceError | None:
        responses = [each for request_id, _, each in self.answered if request_id == inference.request.id]  # fmt: skip
        assert len(responses) == 1
        return responses[0].error

    def reason(self, inference: Inference) -> FailureReason | None:
        error = self.error(inference)
        return None if error is None else error.reason

    def nothing_left(self) -> None:
        assert self.statistics.pending == 0
        assert self.scheduler.inflight() == 0


def no_submit(*_arguments: object, **_named: object) -> typing.NoReturn:
    """For schedulers that call no other models."""
    raise AssertionError("a call of another model")


async def turn() -> None:
    """Let the loop run what is due now."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def ids(*inferences: Inference) -> list[str]:
    return [inference.request.id for inference in inferences]
