"""A model with sequences in front of scripted hosts, with everything that its clients saw."""

import asyncio
import itertools

import msgspec

from naiad.config.model_config import TensorSpec
from naiad.config.sequence_batching import DirectStrategy, OldestStrategy, SequenceBatching
from naiad.config.sequence_states import SequenceState
from naiad.core.inference import Inference
from naiad.core.request import RequestedOutput
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import InferenceError
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.factory import SchedulerFactory
from naiad.scheduling.instances.resources import Resources, UnlimitedResources
from naiad.scheduling.sequence.scheduler import SequenceScheduler
from tests.server.scheduling.sequence.requests import request_of
from tests.support.clock import LoopClock
from tests.support.hosts import ScriptedHost, hosted
from tests.support.inferences import make_config, make_spec, make_tensor
from tests.support.scheduled import no_submit

DIRECT = DirectStrategy()
OLDEST = OldestStrategy(max_candidate_sequences=8)


class SequenceModel:
    """A scheduler, its hosts and everything that its clients saw."""

    def __init__(
        self,
        batching: SequenceBatching | None = None,
        *,
        instances: int = 1,
        takes_s: float | None = None,
        max_batch_size: int = 4,
        inputs: tuple[TensorSpec, ...] = (make_spec(),),
        resources: Resources | None = None,
        states: tuple[SequenceState, ...] = (),
    ) -> None:
        loop = asyncio.get_running_loop()
        self.clock = LoopClock(loop)
        self.hosts = [
            ScriptedHost(clock=self.clock, loop=loop, name=f"m_0_{k}", takes_s=takes_s)
            for k in range(instances)
        ]
        self.statistics = ModelStatistics()
        make = SchedulerFactory(resources=resources or UnlimitedResources(), clock=self.clock)
        config = make_config(
            sequences=batching or SequenceBatching(),
            max_batch_size=max_batch_size,
            inputs=inputs,
        )
        scheduler = make(
            msgspec.structs.replace(config, states=states),
            version=1,
            instances=hosted(self.hosts),
            submit=no_submit,
            statistics=self.statistics,
        )
        assert isinstance(scheduler, SequenceScheduler)
        self.scheduler = scheduler
        self.answers: dict[str, InferResponse] = {}
        self.order: list[str] = []
        self.at_ms: dict[str, float] = {}
        self._numbers = itertools.count()

    @property
    def host(self) -> ScriptedHost:
        return self.hosts[0]

    @property
    def now_ms(self) -> float:
        return self.clock.monotonic_ns() / 1e6

    def send(
        self,
        key: int | str,
        flags: str = "",
        *tensors: Tensor,
        name: str = "",
        rows: int = 1,
        timeout_us: int = 0,
        outputs: tuple[str, ...] = (),
        deadline_ms: float | None = None,
    ) -> Inference:
        """Send a request of a sequence, with flags "s" and "e"."""

        def on_response(response: InferResponse) -> None:
            assert response.id not in self.answers, "answered twice"
            self.order.append(response.id)
            if response.final:
                self.answers[response.id] = response
                self.at_ms[response.id] = self.now_ms

        inference = request_of(
            key,
            flags,
            *(tensors or (make_tensor("x", 1, 1),)),
            name=name or f"{key}{flags}#{next(self._numbers)}",
            timeout_us=timeout_us,
            now=self.clock.monotonic_ns(),
            on_response=on_response,
        )
        inference.batch_size = rows
        inference.request.requested_outputs.extend(map(RequestedOutput, outputs))
        if deadline_ms is not None:
            inference.request.parameters["naiad_deadline_ms"] = deadline_ms
        self.scheduler.submit(inference)
        return inference

    def error(self, inference: Inference) -> InferenceError | None:
        return self.answers[inference.request.id].error

    def names(self, host: int = 0) -> list[list[str]]:
        """The batches of a host: sequence and flags of each request, "-" for a null row."""
        return [
            [
                f"{each.request.correlation_id}{'s' * (each.request.flags & 1)}{'e' * (each.request.flags >> 1)}"
                if each.request.id
                else "-"
                for each in batch
            ]
            for batch in self.hosts[host].batches
        ]

    def nothing_left(self) -> None:
        assert self.statistics.pending == 0
        assert self.scheduler.inflight() == 0


def inputs_of(inference: Inference) -> dict[str, object]:
    """The values of one row's inputs, by name."""
    return {tensor.name: tensor.array.ravel().tolist()[0] for tensor in inference.request.inputs}
