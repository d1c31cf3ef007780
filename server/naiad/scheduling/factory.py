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
from naiad.scheduling.instance_pool import InstancePool
from naiad.scheduling.queue import InferenceQueue
from naiad.scheduling.resources import Resources
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from naiad.scheduling.scheduler import Scheduler

HOLD_VARIABLE = "TRITONSERVER_DELAY_SCHEDULER"
"""Triton's test hook (row 12.19): a dynamic batcher sends nothing before this many requests have arrived."""


def make_scheduler(
    *,
    config: ModelConfig,
    version: int,
    hosts: collections.abc.Sequence[Host],
    resources: Resources,
    statistics: ModelStatistics,
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
) -> Scheduler:
    """Make the scheduler of a model version.

    Args:
        config: normalised.
        version: the version.
        hosts: one per instance, at least one; the scheduler closes them when it stops.
        resources: what instances share with those of other models.
        statistics: its counters.
        clock: gives the time.
        loop: the event loop in which all methods are called.
    """
    batching = config.dynamic_batching
    dispatcher = ResponseDispatcher(
        model=config.name, version=version, statistics=statistics, clock=clock
    )
    pool = InstancePool(
        model=config.name,
        hosts=hosts,
        resources=resources,
        dispatcher=dispatcher,
        preserve_ordering=batching is not None and batching.preserve_ordering,
        clock=clock,
        loop=loop,
    )
    return DynamicScheduler(
        model=config.name,
        queue=InferenceQueue(model=config.name, batching=batching),
        policy=plan_batching(config),
        dispatcher=dispatcher,
        hold=0 if batching is None else _hold_of_environment(),
        pool=pool,
        statistics=statistics,
        clock=clock,
        loop=loop,
    )


def _hold_of_environment() -> int:
    text = os.environ.get(HOLD_VARIABLE, "")
    return int(text) if text.isdecimal() else 0
