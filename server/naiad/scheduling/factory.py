"""Makes the scheduler that a model's config asks for: the place where each kind of scheduler is chosen."""

import asyncio
import collections.abc
import os

from naiad.config.model_config import ModelConfig
from naiad.core.clock import Clock
from naiad.hosts.host import HostedInstance
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.batching import plan_batching
from naiad.scheduling.dynamic import DynamicScheduler
from naiad.scheduling.ensemble.scheduler import EnsembleScheduler
from naiad.scheduling.instances.pool import InstancePool
from naiad.scheduling.instances.resources import Resources
from naiad.scheduling.queue import InferenceQueue
from naiad.scheduling.relays.calls import Submit
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from naiad.scheduling.scheduler import Scheduler
from naiad.scheduling.sequence.scheduler import SequenceScheduler
from naiad.scheduling.strategy import Strategy
from naiad.scheduling.timers.timer import Timers

HOLD_VARIABLE = "TRITONSERVER_DELAY_SCHEDULER"
"""Triton's test hook (row 12.19): a dynamic batcher sends nothing before this many requests have arrived, and a sequence batcher before so many wait in slots."""

HOLD_BACKLOG_VARIABLE = "TRITONSERVER_BACKLOG_DELAY_SCHEDULER"
"""The same for the requests of sequences that wait for a slot."""


class SchedulerFactory:
    """Implements `MakeScheduler`, on the event loop of its first call.

    Args:
        resources: what instances share with those of other models.
        clock: gives the time.
    """

    def __init__(self, *, resources: Resources, clock: Clock) -> None:
        self._resources = resources
        self._clock = clock
        self._timers: Timers | None = None

    def __call__(
        self,
        config: ModelConfig,
        *,
        version: int,
        instances: collections.abc.Sequence[HostedInstance],
        submit: Submit,
        statistics: ModelStatistics,
        strategy: Strategy | None = None,
    ) -> Scheduler:
        """See `MakeScheduler`. A queue in front of instances calls no other models and never uses `submit`."""
        if config.ensemble is not None:
            return EnsembleScheduler(
                config, version=version, submit=submit, statistics=statistics, clock=self._clock
            )
        loop = asyncio.get_running_loop()
        if self._timers is None:
            self._timers = Timers(loop=loop, clock=self._clock)
        batching = config.dynamic_batching
        dispatcher = ResponseDispatcher(
            model=config.name, version=version, statistics=statistics, clock=self._clock
        )

        def make_pool(
            instances: collections.abc.Sequence[HostedInstance], *, preserve_ordering: bool
        ) -> InstancePool:
            return InstancePool(
                model=config.name,
                instances=instances,
                resources=self._resources,
                dispatcher=dispatcher,
                preserve_ordering=preserve_ordering,
                clock=self._clock,
                loop=loop,
            )

        if config.sequence_batching is not None:
            return SequenceScheduler(
                config,
                instances=instances,
                make_pool=lambda instance: make_pool([instance], preserve_ordering=False),
                dispatcher=dispatcher,
                statistics=statistics,
                hold=(
                    _hold_of_environment(HOLD_VARIABLE),
                    _hold_of_environment(HOLD_BACKLOG_VARIABLE),
                ),
                timers=self._timers,
                clock=self._clock,
                loop=loop,
            )
        ordered = batching is not None and batching.preserve_ordering
        return DynamicScheduler(
            model=config.name,
            queue=InferenceQueue(model=config.name, batching=batching),
            policy=plan_batching(config, has_strategy=strategy is not None),
            strategy=strategy,
            dispatcher=dispatcher,
            hold=0 if batching is None else _hold_of_environment(HOLD_VARIABLE),
            pool=make_pool(instances, preserve_ordering=ordered),
            statistics=statistics,
            timers=self._timers,
            clock=self._clock,
            loop=loop,
        )


def _hold_of_environment(variable: str) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else 0
