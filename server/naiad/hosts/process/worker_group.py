"""The instances of a model version in one worker process, and how they become more. They become fewer when their hosts are closed."""

import asyncio
import collections.abc
import itertools

from naiad.backends.backend import WorkerPlan
from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import ModelConfig
from naiad.core.clock import Clock
from naiad.hosts.host import Limits, WorkerRpcHandler
from naiad.hosts.process.output_log import Identity
from naiad.hosts.process.process_host import ProcessHost
from naiad.hosts.process.supervisor import WorkerSupervisor
from naiad.hosts.unpacking import ResponseReader
from naiad.hosts.warmup import Warmup
from naiad.metrics.statistics import RestartReason


class WorkerGroup:
    """One worker process and a host for each of its instances. `supervisor.start` comes first.

    Args:
        model: the model's name, for the log and messages.
        version: its version.
        plan: what runs in the process, with its instances at first.
        config: the model's.
        limits: time limits of a batch and of a load.
        on_restart: called with the reason each time the process is restarted.
        rpc_handler: handles the requests of the model to the server.
        clock: gives the times at which a batch began and ended.
        loop: the event loop in which every method is called.
        warmup: what each instance runs first; None for nothing.

    Attributes:
        supervisor: of the process.
        hosts: those of the instances at first, in their order.
    """

    def __init__(
        self,
        model: str,
        version: int,
        plan: WorkerPlan,
        *,
        config: ModelConfig,
        limits: Limits,
        on_restart: collections.abc.Callable[[RestartReason], None],
        rpc_handler: WorkerRpcHandler,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        warmup: Warmup | None = None,
    ) -> None:
        self._model = model
        self._version = version
        self._config = config
        self._limits = limits
        self._clock = clock
        self._loop = loop
        self.supervisor = WorkerSupervisor(
            Identity(model, version, "").of_all(plan.instances),
            plan,
            warmup=warmup,
            load_limit=limits.load,
            on_restart=on_restart,
            rpc_handler=rpc_handler,
            clock=clock,
            loop=loop,
        )
        self.hosts: list[ProcessHost] = []
        for place, spec in enumerate(plan.instances):
            host = self._host(place, spec)
            self.supervisor.instances[place] = spec, host
            self.hosts.append(host)

    async def add(self, plan: WorkerPlan) -> list[ProcessHost]:
        """Add the instances of a plan, which differs from that of the process in nothing else; the others serve on.

        Raises:
            InferenceError: one of them cannot be made; none is added then.
        """
        supervisor = self.supervisor
        places = self._free_places(len(plan.instances))
        hosts = [
            self._host(place, spec) for place, spec in zip(places, plan.instances, strict=True)
        ]
        try:
            async with asyncio.TaskGroup() as adding:
                for place, spec, host in zip(places, plan.instances, hosts, strict=True):
                    adding.create_task(supervisor.add(place, spec, host))
        except BaseException as failed:
            await asyncio.gather(*(host.close() for host in hosts))
            if isinstance(failed, BaseExceptionGroup):
                raise failed.exceptions[0] from None
            raise
        supervisor.plan = plan
        return hosts

    def _free_places(self, count: int) -> list[int]:
        """The lowest places at which nothing is, is being made, or is being closed."""
        supervisor = self.supervisor
        links = () if supervisor.worker is None else supervisor.worker.links
        taken = {*supervisor.instances, *supervisor.loads.places, *links}
        free = (place for place in itertools.count() if place not in taken)
        return list(itertools.islice(free, count))

    def _host(self, place: int, spec: InstanceSpec) -> ProcessHost:
        config = self._config
        return ProcessHost(
            Identity(self._model, self._version, spec.name),
            place,
            self.supervisor,
            responses=ResponseReader(config, self._version),
            limits=self._limits,
            clock=self._clock,
            loop=self._loop,
            shares=config.sequence_batching is None,
            places=not (config.response_cache or any(state.is_output for state in config.states)),
        )
