"""Makes the instances of a model version: in threads of the server, or in worker processes.

A model without a backend has no instances; the rest of the server takes an empty `ModelInstances` as any other one.
"""

import asyncio
import collections.abc
import contextlib
import functools
import logging
import typing
import weakref

import msgspec

from naiad.backends.backend import ModelSource, PlansWorkers, WorkerPlan, instance_specs
from naiad.backends.instance import Instance, InstanceSpec, LoadedModel
from naiad.backends.plugin import BackendPlugin
from naiad.backends.registry import Registry
from naiad.config.backend_type import HostKind
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.core.clock import Clock
from naiad.engine.instances.host_policies import NO_POLICIES, HostPolicies, policy_of
from naiad.engine.instances.placement import check_limits, host_of, limits_of, nice_of
from naiad.engine.instances.warming import Warming
from naiad.errors import InferenceError, unavailable
from naiad.hosts.host import Host, HostedInstance, InProcess
from naiad.hosts.local_instance import LocalInstance
from naiad.hosts.thread_host import DeviceState, ThreadHost
from naiad.hosts.warmup import Warmup, WarmupRequest
from naiad.hosts.worker.placement import placed
from naiad.metrics.statistics import ModelStatistics
from naiad.repository.plan import VersionPlan

if typing.TYPE_CHECKING:
    from naiad.engine.instances.workers import Process, Workers
    from naiad.hosts.host import WorkerRpcHandler

log = logging.getLogger("naiad.loader")

BackendOptions = collections.abc.Mapping[str, collections.abc.Mapping[str, str]]

_Argument = typing.TypeVar("_Argument")
_Result = typing.TypeVar("_Result")


class InThread(typing.Protocol):
    """Calls a function in a thread."""

    async def __call__(
        self, work: collections.abc.Callable[[_Argument], _Result], argument: _Argument
    ) -> _Result:
        """Return what the function returns, or raise what it raises."""
        ...


async def nothing() -> None:
    """For instances that share nothing: there is nothing to release."""


Specs = collections.abc.Sequence[InstanceSpec]
_Made = list[tuple[InstanceSpec, Instance]]
MoreInstances = collections.abc.Callable[
    [VersionPlan, Specs], collections.abc.Awaitable[collections.abc.Sequence[HostedInstance]]
]


async def no_more(_plan: VersionPlan, _specs: Specs) -> list[HostedInstance]:
    """For a model without instances."""
    return []


class ModelInstances(msgspec.Struct, frozen=True):
    """The instances of a model version.

    Attributes:
        hosted: those at first.
        more: makes further instances of the same version; its config may differ in `instance_group`.
        release: releases what the instances share; called once, after the hosts are closed.
        leaves_cycles: whether their objects form reference cycles after that.
    """

    hosted: collections.abc.Sequence[HostedInstance] = ()
    more: MoreInstances = no_more
    release: collections.abc.Callable[[], collections.abc.Awaitable[None]] = nothing
    leaves_cycles: bool = False

    async def close(self) -> None:
        """Close the hosts and release what they share, of instances that no model has."""
        try:
            await asyncio.gather(*(host.close() for _, host in self.hosted))
        finally:
            await self.release()


class InstanceFactory:
    """Makes instances with the registered backends.

    Args:
        backend_options: `--backend-config` by backend name; "" holds what is meant for all of them.
        slices: the device ids that are MIG slices.
        rpc_handler_of: makes the handler of the requests of an instance's workers, by names of model and instance.
        host_policies: `--host-policy`.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        backend_options: BackendOptions,
        slices: frozenset[int],
        in_thread: InThread,
        clock: Clock,
        rpc_handler_of: collections.abc.Callable[[str, str], "WorkerRpcHandler"],
        host_policies: HostPolicies = NO_POLICIES,
    ) -> None:
        self._registry = registry
        self._host_policies = host_policies
        self._backend_options = backend_options
        self._slices = slices
        self._in_thread = in_thread
        self._clock = clock
        self._rpc_handler_of = rpc_handler_of
        self._starting = set[asyncio.Task[list[HostedInstance]]]()
        self._stopping = False
        self._device = DeviceState()
        self._names = weakref.WeakKeyDictionary[Host, str]()  # of every host

    async def make(self, plan: VersionPlan, statistics: ModelStatistics) -> ModelInstances:
        """Make the instances of a version, each ready to run batches.

        Raises:
            InferenceError: the model cannot be loaded; nothing of it is left then.
        """
        specs = instance_specs(plan.config)
        if not specs:
            return ModelInstances()
        warmup = await self._warmup(plan, statistics)
        of_version = OfVersion(statistics, warmup)
        warming = Warming(plan, warmup, sum(not spec.passive for spec in specs))
        in_processes = functools.partial(self._in_processes, of_version)
        if await self._host_of(plan) == "process":
            with warming:
                return ModelInstances(await in_processes(plan, specs), in_processes)
        check_limits(plan.config, "thread")
        loaded, instances = await self._in_thread(self._load, plan)
        release = functools.partial(self._in_thread, _close, loaded)

        async def more(changed: VersionPlan, specs: Specs) -> list[HostedInstance]:
            if await self._host_of(changed) == "process":
                return await in_processes(changed, specs)
            made = await self._in_thread(functools.partial(self._make_instances, loaded), specs)
            return await self._warm(warmup, self._thread_hosts(changed, made))

        try:
            with warming:
                hosted = await self._warm(warmup, self._thread_hosts(plan, instances))
        except BaseException:
            await release()
            raise
        return ModelInstances(hosted, more, release, loaded.leaves_cycles)

    def stop(self) -> None:
        """The server stops: end the worker processes that are still loading their model, and start no more of them."""
        self._stopping = True
        for task in self._starting:
            task.cancel()

    async def abandon(self, seconds: float) -> bool:
        """The time for a stop is over: kill every worker process, have every thread of an instance end after the batch that it has, and wait no longer than this.

        Returns:
            Whether all of them have ended.
        """
        why = "the exit timeout of the server is over"
        closing = {asyncio.ensure_future(host.close_late(why)): host for host in self._names}
        if not closing:
            return True
        _, late = await asyncio.wait(closing, timeout=seconds)
        for task in late:
            task.cancel()
            host = closing[task]
            what = "worker process" if isinstance(host, InProcess) else "thread"
            log.error("instance '%s' does not end: its %s is abandoned", self._names[host], what)
        await asyncio.gather(*closing, return_exceptions=True)
        return not late

    def options_of(self, backend: str) -> dict[str, str]:
        """A backend's options: what is meant for all, overridden by what is meant for it (row 17.10)."""
        return {**self._backend_options.get("", {}), **self._backend_options.get(backend, {})}

    async def _warmup(self, plan: VersionPlan, statistics: ModelStatistics) -> Warmup:
        samples: list[WarmupRequest] = []
        if plan.config.warmup:
            from naiad.engine.instances.warmup import make_samples  # noqa: PLC0415 - few models have any

            samples = await self._in_thread(make_samples, plan)
        batched = plan.config.max_batch_size > 0
        return Warmup(samples, batched=batched, statistics=statistics, clock=self._clock)

    async def _warm(
        self,
        warmup: Warmup,
        hosted: collections.abc.Sequence[tuple[InstanceSpec, ThreadHost]],
    ) -> list[HostedInstance]:
        """Run the warmup samples on instances in threads, one after the other; if one fails, all are closed."""
        try:
            for spec, host in hosted if warmup else ():
                if spec.passive:
                    continue
                samples = warmup.in_thread(self._clock.monotonic_ns())
                warmup.ran(await host.warm_up(samples, warmup.advance))
        except BaseException:
            await asyncio.gather(*(host.close() for _, host in hosted))
            raise
        return [HostedInstance(spec, host) for spec, host in hosted]

    async def _host_of(self, plan: VersionPlan) -> HostKind:
        config = plan.config
        plugin = await self._in_thread(self._plugin, plan)
        return host_of(config, plugin.default_host, self.options_of(config.backend), self._slices)

    def _plugin(self, plan: VersionPlan) -> BackendPlugin:
        return self._registry.plugin(plan.config.backend, plan.model_dir)

    def _thread_hosts(
        self, plan: VersionPlan, instances: _Made
    ) -> list[tuple[InstanceSpec, ThreadHost]]:
        loop = asyncio.get_running_loop()
        hosted = [
            (
                spec,
                ThreadHost(
                    spec.name,
                    LocalInstance(instance, plan.config, plan.version),
                    clock=self._clock,
                    loop=loop,
                    state=self._device if spec.kind is InstanceKind.GPU else None,
                    host_policy=policy_of(spec, self._host_policies),
                ),
            )
            for spec, instance in instances
        ]
        self._names.update((host, spec.name) for spec, host in hosted)
        return hosted

    def _load(self, plan: VersionPlan) -> tuple[LoadedModel, _Made]:
        specs = instance_specs(plan.config)
        if self._device.lost and any(spec.kind is InstanceKind.GPU for spec in specs):
            raise self._device.refusal(f"model '{plan.config.name}' cannot be loaded")
        backend = self._registry.get(plan.config.backend, for_model=True, model_dir=plan.model_dir)
        with self._following(specs[0]):  # the threads of what instances share
            loaded = backend.load(self._source(plan))
        with contextlib.ExitStack() as undo:
            undo.callback(loaded.close)
            instances = self._make_instances(loaded, specs)
            undo.pop_all()
        return loaded, instances

    def _make_instances(self, loaded: LoadedModel, specs: Specs) -> _Made:
        """All of them or, after an error, none."""
        with contextlib.ExitStack() as undo:
            instances: _Made = []
            for spec in specs:
                with self._following(spec):
                    instance = loaded.make_instance(spec)
                undo.callback(instance.close)
                instances.append((spec, instance))
            undo.pop_all()
        return instances

    @contextlib.contextmanager
    def _following(self, spec: InstanceSpec) -> collections.abc.Iterator[None]:
        """The calling thread follows the host policy of an instance meanwhile."""
        with contextlib.ExitStack() as undo:
            try:
                undo.enter_context(placed(policy_of(spec, self._host_policies)))
            except OSError as error:
                raise unavailable(f"instance '{spec.name}': {error.strerror}") from error
            yield

    async def _in_processes(
        self, of_version: "OfVersion", plan: VersionPlan, specs: Specs
    ) -> list[HostedInstance]:
        if not specs:
            return []
        workers, processes = await self._in_thread(
            functools.partial(self._workers, of_version, plan), specs
        )
        if self._stopping:
            raise _server_stops(plan)
        starting = asyncio.get_running_loop().create_task(workers.start(processes))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        try:
            made = await starting
        except asyncio.CancelledError:
            if starting.done() and not starting.cancelled() and starting.exception() is None:
                # They became ready just before the load was cancelled.
                await asyncio.gather(*(host.close() for _, host in starting.result()))
            if _is_cancelled():
                raise
            raise _server_stops(plan) from None
        self._names.update((host, spec.name) for spec, host in made)
        return made

    def _workers(
        self, of_version: "OfVersion", plan: VersionPlan, specs: Specs
    ) -> "tuple[Workers, list[Process]]":
        # In a thread, with the first model that has workers: without any the server imports a tenth less at its start.
        from naiad.backends import backend_runner  # noqa: PLC0415
        from naiad.engine.instances.workers import Workers, processes_of  # noqa: PLC0415

        source = self._source(plan)
        plan_of = backend_runner.plan_of
        plugin = self._plugin(plan)
        if plugin.plans_workers:
            backend = self._registry.get(plan.config.backend, model_dir=plan.model_dir)
            assert isinstance(backend, PlansWorkers)
            plan_of = backend.worker_plan
        processes = processes_of(
            [(self._placed(plan_of(source, spec), spec, plan.config), [spec]) for spec in specs],
            shared=plugin.shares_processes,
        )
        if of_version.workers is None:
            of_version.workers = Workers(
                plan.config,
                plan.version,
                warmup=of_version.warmup,
                limits=limits_of(plan.config),
                shared=plugin.shares_processes,
                statistics=of_version.statistics,
                rpc_handler_of=self._rpc_handler_of,
                clock=self._clock,
            )
        return of_version.workers, processes

    def _placed(self, plan: WorkerPlan, spec: InstanceSpec, config: ModelConfig) -> WorkerPlan:
        """The plan of a worker process with the priority of its model and the host policy of its instance."""
        plan = msgspec.structs.replace(plan, nice=nice_of(config))
        policy = policy_of(spec, self._host_policies)
        return plan if policy is None else msgspec.structs.replace(plan, host_policy=policy)

    def _source(self, plan: VersionPlan) -> ModelSource:
        return ModelSource(
            config=plan.config,
            version=plan.version,
            model_dir=plan.model_dir,
            options=self.options_of(plan.config.backend),
        )


class OfVersion:
    """What the instances of a version have in common for as long as it is loaded.

    Attributes:
        statistics: of the version.
        warmup: what each of them runs first; None for nothing.
        workers: its worker processes; None before the first one.
    """

    def __init__(self, statistics: ModelStatistics, warmup: Warmup | None = None) -> None:
        self.statistics = statistics
        self.warmup = warmup
        self.workers: Workers | None = None


def _close(loaded: LoadedModel) -> None:
    loaded.close()


def _is_cancelled() -> bool:
    """Whether the current task was cancelled itself, and not only the one that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _server_stops(plan: VersionPlan) -> InferenceError:
    return unavailable(
        f"model '{plan.config.name}' is not loaded: the server is stopping; use another server"
    )
