"""Makes the scheduler of a model version from its config."""

import asyncio
import collections.abc
import os

from naiad.config.model_config import ModelConfig
from naiad.core.clock import Clock
from naiad.hosts.host import Host
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.batching import plan_batching
from naiad.scheduling.dynamic import DynamicScheduler
from naiad.scheduling.queue import InferenceQueue
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from naiad.scheduling.scheduler import Scheduler

HOLD_VARIABLE = "TRITONSERVER_DELAY_SCHEDULER"
"""Triton's test hook (row 12.19): a dynamic batcher sends nothing before this many requests have come."""


def make_scheduler(
    *,
    config: ModelConfig,
    version: int,
    hosts: collections.abc.Sequence[Host],
    statistics: ModelStatistics,
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
) -> Scheduler:
    """Make the scheduler of a model version.

    Args:
        config: normalised.
        version: the version.
        hosts: the instances, at least one; the scheduler closes them when it stops.
        statistics: its counters.
        clock: gives the time.
        loop: the event loop in which all methods are called.
    """
    batching = config.dynamic_batching
    return DynamicScheduler(
        model=config.name,
        queue=InferenceQueue(model=config.name, batching=batching),
        policy=plan_batching(config),
        dispatcher=ResponseDispatcher(
            model=config.name, version=version, statistics=statistics, clock=clock
        ),
        preserve_ordering=batching is not None and batching.preserve_ordering,
        hold=0 if batching is None else _hold_of_environment(),
        hosts=hosts,
        statistics=statistics,
        clock=clock,
        loop=loop,
    )


def _hold_of_environment() -> int:
    text = os.environ.get(HOLD_VARIABLE, "")
    return int(text) if text.isdecimal() else 0
