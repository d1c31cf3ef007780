"""Builds the parts of a server that serve models, without ports, signals and settings of the process.

A program that embeds a server, or a test, builds as many as it wants, each on an event loop of its own, also in a thread. It loads models with
`repository` and sends requests to `engine`. What belongs to the whole process (signals, the collector, malloc, the exit) is in `server.py`.
"""

import asyncio
import collections.abc
import contextlib
import functools
import pathlib

from naiad import __version__, logs
from naiad.backends.catalog import Catalog
from naiad.backends.registry import Registry
from naiad.config.checks.features import ServerFeatures
from naiad.core.clock import Clock
from naiad.core.regions import Regions
from naiad.core.timeouts import timeout
from naiad.engine.bls.model_calls import ModelCalls
from naiad.engine.bls.rpc_handlers import rpc_handlers_of
from naiad.engine.bls.server_api import ServerApi
from naiad.engine.engine import ServingEngine
from naiad.engine.loader import Loader
from naiad.engine.memory.evicted import EvictedModels
from naiad.engine.model import Model
from naiad.extras import install
from naiad.hosts.cuda_regions.memory import CudaMemory
from naiad.hosts.worker.placement import fault
from naiad.metrics.custom import CustomMetrics
from naiad.metrics.device_memory import DeviceMemory
from naiad.metrics.devices import Gpu, GpuMonitor, SystemMetrics
from naiad.metrics.exposition import Series
from naiad.options.options import Options
from naiad.repository.agents.resolver import AgentResolver
from naiad.repository.manager import Repository, VersionState
from naiad.repository.requests.coordination import Coordination
from naiad.repository.requests.namespaces import Namespaces
from naiad.repository.store import open_store
from naiad.repository.stores.process import StoreProcess
from naiad.repository.unloads import Memory
from naiad.repository.version import LoadListener
from naiad.scheduling.factory import SchedulerFactory
from naiad.scheduling.instances.resources import Resources, UnlimitedResources
from naiad.serve.gpus import find_gpus
from naiad.serve.repositories import Pollers, RepositoryFactory, UnusedOverrides, eviction_series
from naiad.serve.shared_requirements import SharedRequirements
from naiad.tracing.tracer import Tracer

_MS_PER_SECOND = 1e3

_ABANDON_SECONDS = 1.0
"""How long what was cancelled may take to end, then threads and processes, and then the unloads that waited for these."""


class AssemblyError(Exception):
    """The parts cannot be built; the message says why and what to change."""


class Assembly:
    """The parts of one server. On the loop that `assembled` runs on.

    Attributes:
        gpus: those that models may use.
        pollers: look for changes of the model repository, once they are started.
        unused: options for models that do not exist.
    """

    def __init__(
        self,
        *,
        gpus: tuple[Gpu, ...],
        engine: ServingEngine,
        calls: ModelCalls,
        repository: Repository[Model] | Namespaces[Model],
        pollers: Pollers,
        unused: UnusedOverrides,
        loader: Loader,
        agents: AgentResolver,
        system_metrics: SystemMetrics,
        custom: CustomMetrics,
    ) -> None:
        self.gpus = gpus
        self.engine = engine
        self.calls = calls
        self.repository = repository
        self.pollers = pollers
        self.unused = unused
        self._loader = loader
        self._agents = agents
        self._system_metrics = system_metrics
        self._custom = custom
        self._is_interrupted = False

    def states(self) -> list[VersionState]:
        """The states of all versions, and of models that only an option names."""
        return [*self.repository.states(), *self.unused.states()]

    def series(self) -> list[Series]:
        """The metrics of the parts, without those of each model."""
        return [
            *self._custom.series(),
            *self.pollers.series(),
            *eviction_series(self.repository),
            *self._system_metrics.series(),
        ]

    async def interrupt(self) -> None:
        """Begin to stop: end the pollers, and the workers of loads in progress, which fail. The caller calls `unload` then."""
        self._is_interrupted = True
        await self.pollers.aclose()
        self._loader.interrupt()
        self._agents.interrupt()

    async def unload(self) -> None:
        """Unload all models; requests in flight are finished first."""
        await self.repository.unload_all()
        await self._agents.join()
        await self._loader.finish()

    async def aclose(self, seconds: float) -> None:
        """Interrupt and unload within this time, unless `interrupt` was called before; a cancel ends the time."""
        if self._is_interrupted:
            return
        try:
            async with timeout(seconds):
                await self.interrupt()
                await self.unload()
        except TimeoutError:
            await self.abandon()
        except asyncio.CancelledError:
            await self.abandon()
            raise

    async def abandon(self) -> None:
        """The time for the stop is over, and the process goes on: kill every worker process, have every thread end that can. Waits for three seconds at most.

        Threads of instances end after the batch that they have; one whose model does not return is left behind, which keeps no process from ending.
        """
        await self._unload_soon()
        if await self._loader.abandon(_ABANDON_SECONDS):
            await self._unload_soon()
        self.repository.close()

    async def _unload_soon(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with timeout(_ABANDON_SECONDS):
                await self.unload()


@contextlib.asynccontextmanager
async def assembled(
    options: Options,
    *,
    stores: StoreProcess,
    progress: LoadListener,
    environ: collections.abc.MutableMapping[str, str],
    clock: Clock,
    memory: Memory | None = None,
    imported: collections.abc.Callable[[], None] = lambda: None,
    tracer: Tracer | None = None,
) -> collections.abc.AsyncIterator[Assembly]:
    """Build the parts; at the end unload the models within `--exit-timeout-secs`, and close them. No model is loaded yet.

    Args:
        options: those about ports and logs are not read.
        stores: reads the repositories that are not local folders; closed at the end.
        progress: gets every change of a model's state.
        environ: the variables that choose GPUs; CUDA_VISIBLE_DEVICES is set where there are MIG slices.
        clock: measures everything.
        memory: see `Unloads`.
        imported: called when a framework has been imported while no model is loaded.
        tracer: closed at the end; None: one of the options.

    Raises:
        AssemblyError, InferenceError: an option cannot be used.
    """
    async with contextlib.AsyncExitStack() as undo:
        _check_host_policies(options)
        monitor = GpuMonitor()
        undo.callback(monitor.close)
        undo.push_async_callback(asyncio.to_thread, stores.close)
        gpus = await asyncio.to_thread(
            find_gpus, monitor, options.min_supported_compute_capability, environ
        )
        try:
            requirements = SharedRequirements(options.python_requirement)
        except OSError as error:
            raise AssemblyError(
                f"--python-requirement: no temporary file can be written: {error}; set TMPDIR"
            ) from None
        undo.callback(requirements.close)
        devices = DeviceMemory(monitor, {gpu.index: gpu.uuid for gpu in gpus})
        calls, custom = ModelCalls(clock=clock), CustomMetrics()
        api = ServerApi(calls, custom)
        resources = _resources(options)
        cache = None
        if options.cache is not None:
            from naiad.response_cache.cache import make_cache  # noqa: PLC0415 - only for servers with a cache

            cache = make_cache(options.cache, clock=clock)
            undo.push_async_callback(cache.store.close)
            await cache.store.start()

        def unloading() -> list[Model]:
            return repository.unloading()

        loader = Loader(
            unloading=unloading,
            registry=Registry(
                clock=clock,
                server=api,
                catalog=Catalog(pathlib.Path(options.backend_directory)),
                imported=imported,
            ),
            backend_options=requirements.added_to(options.backend_config),
            config_name=options.model_config_name,
            auto_complete=not options.disable_auto_complete_config,
            gpus=tuple(gpu.index for gpu in gpus),
            slices=frozenset(gpu.index for gpu in gpus if gpu.is_slice),
            threads=options.model_load_thread_count,
            clock=clock,
            make_scheduler=SchedulerFactory(resources=resources, clock=clock),
            submit=calls.submit,
            rpc_handler_of=rpc_handlers_of(api),
            devices=devices,
            gpu_limits=options.model_load_gpu_limit,
            config_overrides=options.model_config_override,
            resources=resources,
            features=ServerFeatures(
                rate_limiter=options.rate_limit,
                response_cache=cache is not None,
                gpu_fallback=options.gpu_fallback == "cpu",
                host_policies=frozenset(options.host_policy),
                first_response_histogram=options.metrics.histogram_latencies,
                strategy_libraries=options.batch_strategy_libraries,
            ),
            metrics=options.metrics,
            cache=cache,
            host_policies=options.host_policy,
        )
        undo.callback(loader.close)
        coordination = Coordination(options.model_load_thread_count)
        agents = AgentResolver(
            pathlib.Path(options.repoagent_directory),
            read=loader.read,
            plan=loader.plan,
            slots=coordination.slots,
            at_once=options.model_load_thread_count,
        )
        repository, pollers = RepositoryFactory(
            options,
            loader=loader,
            agents=agents,
            coordination=coordination,
            progress=progress,
            clock=clock,
            memory=memory,
            gpu_memory=devices.used,
        ).make([open_store(location, remote=stores.open) for location in options.model_repository])
        gpu_memory = None
        if gpus and options.allow_client_shm:
            gpu_memory = CudaMemory(asyncio.get_running_loop())
            undo.push_async_callback(gpu_memory.close)
        regions = Regions(
            allowed=options.allow_client_shm,
            same_owner=options.client_shm_owner == "same",
            gpu_memory=gpu_memory,
        )
        if tracer is None:
            tracer = tracer_of(options, clock)
        tracer.open()
        undo.push_async_callback(tracer.aclose)
        engine = _engine(options, repository, clock, regions, tracer)
        system_metrics = SystemMetrics(
            gpus=monitor if gpus and options.allow_gpu_metrics else None,
            cpu=options.allow_cpu_metrics,
            interval_seconds=options.metrics_interval_ms / _MS_PER_SECOND,
        )
        undo.push_async_callback(system_metrics.stop)
        await system_metrics.start()
        loop = asyncio.get_running_loop()
        calls.open(engine.called_model, loop)
        undo.callback(calls.close)
        api.open(engine, loop)
        undo.callback(api.close)
        assembly = Assembly(
            gpus=gpus,
            engine=engine,
            calls=calls,
            repository=repository,
            pollers=pollers,
            unused=UnusedOverrides(options.model_config_override, repository),
            loader=loader,
            agents=agents,
            system_metrics=system_metrics,
            custom=custom,
        )
        undo.push_async_callback(assembly.aclose, options.exit_timeout_secs)
        yield assembly


def tracer_of(options: Options, clock: Clock) -> Tracer:
    """The tracer that options ask for, not open yet.

    Raises:
        AssemblyError: a package is missing.
    """
    collector = options.trace.collector
    if collector is None:
        return Tracer(options.trace, clock=clock)
    try:
        from naiad.tracing.opentelemetry import SpanSender  # noqa: PLC0415 - few servers need it
    except ImportError as error:
        raise AssemblyError(
            f"--trace-config=mode=opentelemetry needs OpenTelemetry's packages ({error}): {install('tracing')}"
        ) from None
    return Tracer(options.trace, clock=clock, sink=functools.partial(SpanSender, collector))


def _check_host_policies(options: Options) -> None:
    """Check that this machine has what they name; raises AssemblyError."""
    for name, policy in options.host_policy.items():
        if wrong := fault(policy):
            raise AssemblyError(f"--host-policy={name}: {wrong}")


def _resources(options: Options) -> Resources:
    if not options.rate_limit:
        return UnlimitedResources()
    from naiad.scheduling.rate_limiter.limiter import RateLimiter  # noqa: PLC0415 - few servers need it

    return RateLimiter(options.rate_limit_resource)


def _engine(
    options: Options,
    repository: Repository[Model] | Namespaces[Model],
    clock: Clock,
    regions: Regions,
    tracer: Tracer,
) -> ServingEngine:
    evicted = None
    if options.evicted_model_wait_secs:
        evicted = EvictedModels(
            repository, wait_seconds=options.evicted_model_wait_secs, clock=clock
        )
    return ServingEngine(
        repository=repository,
        server_id=options.id,
        version=__version__,
        strict_readiness=options.strict_readiness,
        readiness_policy=options.readiness_policy,
        control_mode=options.model_control_mode,
        evicted=evicted,
        regions=regions,
        tracer=tracer,
        logs=logs.of_process(),
    )
