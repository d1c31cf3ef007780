"""Starts worker processes: one per instance of a model version, or one for a single call.

It is imported with the first model that needs a process, since it costs a tenth of the time of a start.
"""

import asyncio
import collections.abc
import typing

from naiad.backends.backend import WorkerPlan
from naiad.core.clock import Clock
from naiad.hosts.host import Host
from naiad.hosts.limits import Limits
from naiad.hosts.one_shot import run_one_shot
from naiad.hosts.output_log import Identity
from naiad.hosts.process import ProcessHost
from naiad.hosts.worker_rpc import WorkerRpcHandler
from naiad.metrics.statistics import ModelStatistics, RestartReason
from naiad.repository.plan import VersionPlan


class Workers:
    """The workers of a model version.

    Args:
        plan: the version.
        instances: name and plan of each instance.
        rpc_handler_of: makes the handler of the requests of an instance's workers, by names of model and instance.
        clock: for their hosts.
    """

    def __init__(
        self,
        plan: VersionPlan,
        instances: collections.abc.Sequence[tuple[str, WorkerPlan]],
        *,
        rpc_handler_of: collections.abc.Callable[[str, str], WorkerRpcHandler],
        clock: Clock,
    ) -> None:
        self._plan = plan
        self._instances = instances
        self._rpc_handler_of = rpc_handler_of
        self._clock = clock

    async def start(self, statistics: ModelStatistics, *, limits: Limits) -> list[Host]:
        """Start a worker process for every instance, all of them at the same time; on the event loop that owns them.

        Raises:
            InferenceError: one of them cannot load the model; the others are ended then.
        """
        config = self._plan.config
        statistics.worker_restarts = dict.fromkeys(RestartReason, 0)
        hosts = [
            ProcessHost(
                Identity(config.name, self._plan.version, name),
                worker_plan,
                config=config,
                limits=limits,
                on_restart=statistics.record_restart,
                rpc_handler=self._rpc_handler_of(config.name, name),
                clock=self._clock,
                loop=asyncio.get_running_loop(),
            )
            for name, worker_plan in self._instances
        ]
        try:
            outcomes = await asyncio.gather(
                *(host.start() for host in hosts), return_exceptions=True
            )
            _raise_first(outcomes)
        except BaseException:
            await asyncio.gather(*(host.close() for host in hosts))
            raise
        return list[Host](hosts)


def run_once(plan: WorkerPlan, *, model: str, version: int, timeout_s: float) -> typing.Any:
    """Call a function of the model in a process of its own, which ends afterwards; blocking. See `run_one_shot`."""
    return run_one_shot(Identity(model, version, "config"), plan, timeout_s=timeout_s)


def _raise_first(outcomes: collections.abc.Iterable[BaseException | None]) -> None:
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
