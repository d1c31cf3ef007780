"""The scheduler of an ensemble: it has no instances; each inference is an `EnsembleRun`, whose steps other models run.

It implements `Scheduler`. What is executed when is in `run.py`, with decoupled steps in `streaming_run.py`, the graph in `plan.py`. All of it belongs to the event loop.
"""

import asyncio
import collections.abc

from naiad.config.model_config import Ensemble, ModelConfig
from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.errors import ErrorCode, FailureReason, InferenceError, unavailable
from naiad.hosts.host import HostedInstance
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.ensemble.chains import Chains
from naiad.scheduling.ensemble.context import RunContext
from naiad.scheduling.ensemble.plan import EnsemblePlan
from naiad.scheduling.ensemble.run import EnsembleRun
from naiad.scheduling.ensemble.steps import StepCalls
from naiad.scheduling.ensemble.streaming_run import StreamingRun
from naiad.scheduling.occupancy import Occupancy
from naiad.scheduling.relays.calls import Submit
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from naiad.scheduling.scheduler import drain


class EnsembleScheduler:
    """Implements `Scheduler` for an ensemble.

    Args:
        config: its steps have the configs of their models.
        version: the version.
        submit: runs requests by the models of the steps.
        statistics: its counters.
        clock: gives the time.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        version: int,
        submit: Submit,
        statistics: ModelStatistics,
        clock: Clock,
    ) -> None:
        assert isinstance(config.ensemble, Ensemble), "it is an ensemble"
        self.statistics = statistics
        self._config = config
        self._runs: dict[Inference, EnsembleRun] = {}
        self._now = clock.monotonic_ns
        plan = EnsemblePlan(config)
        streams = config.decoupled or any(step.decoupled for step in plan.steps)
        self.calls = StepCalls(
            models=[step.model for step in plan.steps],
            limit=config.ensemble.max_inflight_requests,
            submit=submit,
            clock=clock,
        )
        self._context = RunContext(
            config,
            version,
            plan,
            self.calls,
            ResponseDispatcher(
                model=config.name, version=version, statistics=statistics, clock=clock
            ),
            None
            if streams or self.calls.limit
            else Chains(self.calls, runs=self._runs, clock=clock),
            self._ended,
        )
        self._run = StreamingRun if streams else EnsembleRun
        statistics.steps = self.calls.times
        statistics.streams = streams
        self._stopping = False
        self._drained = asyncio.Event()

    def submit(self, inference: Inference) -> None:
        """See `Scheduler`."""
        if self._stopping:
            raise unavailable(
                f"{inference.request.label}ensemble '{self._config.name}' is being unloaded or loaded again: send the request again"
            )
        inference.queued_ns = self._now()
        inference.on_cancel = self._cancel
        run = self._runs[inference] = self._run(inference, self._context)
        run.start()

    def inflight(self) -> int:
        """See `Scheduler`."""
        return len(self._runs)

    def occupancy(self) -> Occupancy:
        """See `Scheduler`. An inference whose next steps all wait for others, because of `max_inflight_requests`, is in the queue for these."""
        runs = self._runs
        name = self._config.name
        return Occupancy(
            [(name, run.batch) for run in runs.values() if not run.is_waiting],
            lambda inference: inference in runs and runs[inference].is_waiting,
        )

    def ready_now(self) -> bool | None:
        """See `Scheduler`."""
        return not self._stopping

    async def ready(self) -> bool:
        """See `Scheduler`."""
        return not self._stopping

    def resize(
        self,
        added: collections.abc.Iterable[HostedInstance],
        removed: collections.abc.Iterable[HostedInstance],
    ) -> None:
        """See `Scheduler`: there are no instances, and no config can add any."""

    async def stop(self) -> None:
        """See `Scheduler`."""
        self._stopping = True
        self._check_drained()
        await drain(self._drained, abandoned=self._abandoned, abort=self._abort)

    def _ended(self, inference: Inference) -> None:
        self._runs.pop(inference, None)
        if self._stopping:
            self._check_drained()

    def _cancel(self, inference: Inference) -> None:
        run = self._runs.get(inference)
        if run is not None:
            run.cancel()

    def _abandoned(self) -> set[Inference]:
        left = set(self._runs)
        return left if all(inference.cancelled for inference in left) else set()

    def _abort(self, why: str, code: ErrorCode, reason: FailureReason) -> None:
        for run in tuple(self._runs.values()):
            message = f"ensemble '{self._config.name}' stopped before the request ended: {why}"
            run.abort(InferenceError(code, message, reason=reason))

    def _check_drained(self) -> None:
        if self._stopping and not self._runs:
            self._drained.set()
