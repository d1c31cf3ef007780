"""Loads models: makes of a plan a served version with its instances and its scheduler. The plan of a folder is made by `planner`.

Everything that may block (reading and completing configs, loading, making instances) runs in the loader's own threads; hosts and
schedulers are made on the event loop, which owns them.
"""

import asyncio
import collections.abc
import concurrent.futures
import contextlib
import functools
import logging
import pathlib
import types
import typing

from naiad.backends.backend import instance_specs
from naiad.backends.registry import Registry
from naiad.config.backend_type import Completer
from naiad.config.checks.features import ServerFeatures
from naiad.config.document import Document
from naiad.config.model_config import ModelConfig
from naiad.core.clock import Clock
from naiad.core.processes.threads import start_all
from naiad.engine.instances.factory import BackendOptions, InstanceFactory
from naiad.engine.instances.host_policies import NO_POLICIES, HostPolicies
from naiad.engine.instances.update import scheduled
from naiad.engine.memory.gpu_limit import GpuLoadLimit
from naiad.engine.memory.load_meter import LoadMeter, Measurement
from naiad.engine.model import Model
from naiad.engine.planner import Planner
from naiad.engine.sequence_model import Unloading, make_model
from naiad.errors import internal, invalid
from naiad.hosts.host import HostedInstance, InProcess, WorkerRpcHandler
from naiad.metrics.device_memory import DeviceMemory
from naiad.metrics.devices import GpuMonitor
from naiad.metrics.options import MetricsOptions
from naiad.metrics.statistics import ModelStatistics
from naiad.repository.plan import ModelPlan, VersionPlan
from naiad.repository.requests.overrides import Value
from naiad.scheduling.instances.resources import Resources, UnlimitedResources
from naiad.scheduling.relays.calls import Submit
from naiad.scheduling.scheduler import MakeScheduler, Scheduler
from naiad.scheduling.strategy import Strategy

if typing.TYPE_CHECKING:
    from naiad.response_cache.cache import ResponseCache
    from naiad.response_cache.scheduler import CachingScheduler

log = logging.getLogger("naiad.loader")

_NESTED = 256
"""Threads for models that wait in their initialize for the load of another model (row 15.24), beside those of the allowed loads."""

_Argument = typing.TypeVar("_Argument")
_Result = typing.TypeVar("_Result")


class Loader:
    """Plans and loads models.

    Args:
        backend_options: `--backend-config` by backend name; "" holds what is meant for all of them.
        cache: gives each loaded version that asks for it the response cache; None for a server without one.
        config_overrides: fields in place of those of a model's own config, as JSON by the model's name.
        auto_complete: whether missing config fields are filled in (row 11.48).
        slices: those that are MIG slices.
        threads: how many models are read or loaded at the same time.
        make_scheduler: makes the scheduler of each version, or refuses.
        submit: what schedulers run requests of other models with.
        rpc_handler_of: makes the handler of the requests of an instance's workers, by names of model and instance.
        devices: the memory of the GPUs, to measure what loads take; None without any.
        gpu_limits: the fraction of each device's memory that may be in use (row 7.38).
        resources: what instances share with those of other models; the object that the schedulers have.
        features: what the server's options switch on.
        metrics: which of the metrics are kept that an option switches on.
        unloading: gives the versions that are being unloaded.
        host_policies: `--host-policy`.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        backend_options: BackendOptions,
        config_name: str,
        auto_complete: bool,
        gpus: collections.abc.Sequence[int],
        slices: frozenset[int] = frozenset(),
        threads: int,
        clock: Clock,
        make_scheduler: MakeScheduler,
        submit: Submit,
        rpc_handler_of: collections.abc.Callable[[str, str], WorkerRpcHandler],
        devices: DeviceMemory | None = None,
        gpu_limits: collections.abc.Mapping[int, float] = types.MappingProxyType({}),
        config_overrides: collections.abc.Mapping[str, str] = types.MappingProxyType({}),
        resources: Resources | None = None,
        features: ServerFeatures = ServerFeatures(),  # noqa: B008 - it is immutable
        metrics: MetricsOptions = MetricsOptions(),  # noqa: B008 - as above
        cache: "ResponseCache | None" = None,
        unloading: Unloading = tuple,
        host_policies: HostPolicies = NO_POLICIES,
    ) -> None:
        self._registry = registry
        self._unloading = unloading
        self._resources = UnlimitedResources() if resources is None else resources
        self._make_scheduler = make_scheduler
        self._submit = submit
        self._cache = cache
        self._planner = Planner(
            registry=registry,
            backend_options=backend_options,
            config_name=config_name,
            config_overrides=config_overrides,
            auto_complete=auto_complete,
            gpus=gpus,
            features=features,
        )
        self._clock = clock
        self._metrics = metrics
        self._executor = concurrent.futures.ThreadPoolExecutor(
            max_workers=threads + _NESTED, thread_name_prefix="load"
        )
        start_all(self._executor, threads)
        self._is_closed = False
        self._running: set[concurrent.futures.Future[typing.Any]] = set()
        self._instances = InstanceFactory(
            registry=registry,
            backend_options=backend_options,
            slices=slices,
            in_thread=self.in_thread,
            clock=clock,
            rpc_handler_of=rpc_handler_of,
            host_policies=host_policies,
        )
        devices = devices or DeviceMemory(GpuMonitor(), {})
        self._meter = LoadMeter(in_thread=self.in_thread, devices=devices)
        self._gpu_limit = GpuLoadLimit(gpu_limits, devices)
        self._measuring = set[asyncio.Future[None]]()

    async def read(self, folder: pathlib.Path, config: Value | None = None) -> Document:
        """Read the config of a model folder, or the one of a load request (JSON) in place of it (row 7.15).

        Raises:
            InferenceError: INVALID_ARG: that is not a ModelConfig.
        """
        return await self.in_thread(functools.partial(self._planner.read, config=config), folder)

    async def plan(self, folder: pathlib.Path, document: Document | None = None) -> ModelPlan:
        """Which versions of a model folder to load, or why the model cannot be served; `document`: a config in place of the folder's."""
        return await self.in_thread(functools.partial(self._planner.plan, document), folder)

    async def load(self, plan: VersionPlan) -> Model:
        """Load one version: all of it or, whatever refuses it, nothing.

        Raises:
            InferenceError: it cannot be loaded; the message is for the index.
        """
        if plan.fault:
            raise invalid(plan.fault)
        await self._check_gpus(plan.config)
        started_ns = self._clock.monotonic_ns()
        statistics = ModelStatistics(
            self._metrics, buckets=plan.config.histogram_buckets, clock=self._clock
        )
        statistics.streams = plan.config.decoupled
        measurement = await self._meter.begin(plan, statistics)
        async with contextlib.AsyncExitStack() as undo:
            undo.callback(self._meter.abandon, measurement)
            specs = instance_specs(plan.config)
            self._resources.register(specs)
            undo.callback(self._resources.unregister, specs)
            instances = await self._instances.make(plan, statistics)
            undo.push_async_callback(instances.close)
            statistics.load_ns = self._clock.monotonic_ns() - started_ns
            strategy = await self._strategy(plan, statistics)
            undo.callback(strategy.close if strategy is not None else _nothing)
            scheduler = self._make_scheduler(
                plan.config,
                version=plan.version,
                instances=scheduled(instances.hosted),
                submit=self._submit,
                statistics=statistics,
                strategy=strategy,
            )
            replies = None
            if self._cache is not None and plan.config.response_cache:
                scheduler = caching = await self._cached(self._cache, plan, scheduler)
                replies = caching.replies
            undo.push_async_callback(scheduler.stop)
            model = make_model(
                unloading=self._unloading,
                config=plan.config,
                version=plan.version,
                scheduler=scheduler,
                instances=instances,
                resources=self._resources,
                clock=self._clock,
                replies=replies,
            )
            await self._meter.end(measurement, _pids(instances.hosted))
            await self._check_gpus(plan.config)
            undo.pop_all()
        model.on_resize = functools.partial(self._measure_again, measurement)
        return model

    async def _cached(
        self, cache: "ResponseCache", plan: VersionPlan, scheduler: Scheduler
    ) -> "CachingScheduler":
        from naiad.response_cache.identity import identity_of  # noqa: PLC0415 - only for servers with a cache

        identity = b""
        if cache.store.shared:
            identity = await self.in_thread(identity_of, plan)
        return cache.in_front_of(
            scheduler, config=plan.config, version=plan.version, identity=identity
        )

    async def _strategy(self, plan: VersionPlan, statistics: ModelStatistics) -> Strategy | None:
        """The batching strategy of a version; None without one."""
        if plan.strategy is None:
            return None
        from naiad.engine.strategies import load_strategy  # noqa: PLC0415 - few models have one

        loaded = await self.in_thread(load_strategy, plan)
        statistics.has_strategy = True
        log.info("model '%s' forms its batches by %s", plan.config.name, plan.strategy)
        return Strategy(loaded.code, model=plan.config.name, statistics=statistics, forget=loaded.close)  # fmt: skip

    async def _check_gpus(self, config: ModelConfig) -> None:
        if self._gpu_limit.concerns(config):
            await self.in_thread(self._gpu_limit.check, config)

    def _measure_again(
        self, measurement: Measurement, instances: collections.abc.Iterable[HostedInstance]
    ) -> None:
        task = asyncio.ensure_future(self._meter.measure_again(measurement, _pids(instances)))
        self._measuring.add(task)
        task.add_done_callback(self._measuring.discard)

    def interrupt(self) -> None:
        """The server stops: end the creation of environments and the worker processes that are still loading; their loads fail.

        Either may take minutes, or for ever.
        """
        self._registry.close()
        self._instances.stop()

    async def abandon(self, seconds: float) -> bool:
        """See `InstanceFactory.abandon`."""
        return await self._instances.abandon(seconds)

    def close(self) -> None:
        """End the loader's threads and what they wait for; nothing can be loaded afterwards."""
        self._is_closed = True
        self._registry.close()
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def finish(self) -> None:
        """Close, and wait for reads and loads in progress: code of a model in a thread cannot be interrupted."""
        self.close()
        running = [asyncio.wrap_future(future) for future in tuple(self._running)]
        if running:
            log.info("waiting for %d models that are being loaded", len(running))
            await asyncio.wait(running)
        # Its threads are idle now: a program that goes on without this server does not keep them.
        await asyncio.to_thread(self._executor.shutdown)

    async def in_thread(
        self, work: collections.abc.Callable[[_Argument], _Result], argument: _Argument
    ) -> _Result:
        """See `InThread`: the loader's own threads, so that one that hangs stops nothing but loads."""
        if self._is_closed:  # what a model that ended late leaves behind
            return await asyncio.to_thread(_guarded, work, argument)
        future = self._executor.submit(_guarded, work, argument)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return await asyncio.wrap_future(future)

    def completer(self, name: str, *, model_dir: pathlib.Path) -> Completer | None:
        """See `Planner.completer`."""
        return self._planner.completer(name, model_dir=model_dir)


def _nothing() -> None:
    """There is nothing to undo."""


def _pids(instances: collections.abc.Iterable[HostedInstance]) -> set[int]:
    """The ids of the worker processes of instances; empty for threads."""
    return {host.pid for _, host in instances if isinstance(host, InProcess)}


def _guarded(work: collections.abc.Callable[[_Argument], _Result], argument: _Argument) -> _Result:
    """Call a function. A KeyboardInterrupt that a model's code raises is a failure of that model: on the loop it would end the server."""
    try:
        return work(argument)
    except Exception:
        raise
    except BaseException as error:
        raise internal(f"the model's code raised {type(error).__name__}: {error}") from error
