"""The server: creates all parts, starts them in order, waits for a signal, and stops them in order. It reads as a plan of the process.

Start: find GPUs -> bind the ports, serve the metrics port -> load models -> accept HTTP and gRPC -> ready. The ports come first, so that a port
that is in use is reported before any load, and so that `/status` responds while large models load. Stop: see `drain.py`. A second signal ends the
process at once.
"""

import asyncio
import concurrent.futures
import logging
import os
import pathlib
import signal
import threading
import typing

from typing_extensions import override

from naiad import __version__
from naiad.backends.catalog import Catalog
from naiad.backends.registry import Registry
from naiad.core.clock import SystemClock
from naiad.engine.bls.model_calls import ModelCalls
from naiad.engine.bls.server_api import ServerApi
from naiad.engine.engine import Phase, ServingEngine
from naiad.engine.loader import Loader
from naiad.engine.memory.evicted import EvictedModels
from naiad.engine.model import Model
from naiad.errors import InferenceError
from naiad.log_text import Lines
from naiad.metrics.custom import CustomMetrics
from naiad.metrics.device_memory import DeviceMemory
from naiad.metrics.devices import GpuMonitor, SystemMetrics
from naiad.options.options import Options
from naiad.repository.agents.resolver import AgentResolver
from naiad.repository.lifecycle import State
from naiad.repository.manager import Repository, VersionState
from naiad.repository.requests.coordination import Coordination
from naiad.repository.requests.namespaces import Namespaces
from naiad.repository.store import open_store
from naiad.repository.stores.process import StoreProcess
from naiad.repository.temporary import remove_leftovers
from naiad.scheduling.factory import SchedulerFactory
from naiad.scheduling.resources import UnlimitedResources
from naiad.serve import interpreter
from naiad.serve.console import LoadingLines, show_addresses, show_models
from naiad.serve.drain import drain
from naiad.serve.frontends import FrontEndError, Frontends
from naiad.serve.gpus import find_gpus
from naiad.serve.loop_lag import LoopLag
from naiad.serve.repositories import Pollers, RepositoryFactory, UnusedOverrides, eviction_series
from naiad.serve.shared_requirements import SharedRequirements
from naiad.serve.signals import EARLY, to_watch
from naiad.serve.stall_watchdog import StallWatchdog

if typing.TYPE_CHECKING:
    from rich.console import Console

log = logging.getLogger("naiad.serve")

_MS_PER_SECOND = 1e3


class Server:
    """One server process.

    Args:
        console: the terminal, if there is one.
        stores: reads the repositories that are not local folders.
    """

    def __init__(
        self, options: Options, *, console: "Console | None", stores: StoreProcess
    ) -> None:
        self._options = options
        self._console = console
        # A poll tries failed models again and again.
        self._lines = LoadingLines(console, repeats=not options.model_control_mode.polls)
        self._clock = SystemClock()
        self._lag = LoopLag(clock=self._clock)
        self._watchdog = StallWatchdog(lag=self._lag, clock=self._clock)
        self._stopping = asyncio.Event()
        self._stores = stores

    async def run(self) -> int:
        """Serve until a signal stops the server.

        Returns:
            The exit status: 0 after an orderly stop, else 1 (rows 7.32, 17.14).
        """
        asyncio.get_running_loop().set_default_executor(UnwaitedExecutor())
        self._watch_signals()
        if self._stopping.is_set():
            return 0
        threading.Thread(target=remove_leftovers, name="leftovers", daemon=True).start()
        options = self._options
        monitor = GpuMonitor()
        gpus = await asyncio.to_thread(
            find_gpus, monitor, options.min_supported_compute_capability, os.environ
        )
        try:
            requirements = SharedRequirements(options.python_requirement)
        except OSError as error:
            message = "--python-requirement: no temporary file can be written: %s; set TMPDIR"
            log.error(message, error)  # noqa: TRY400 - the message says all
            return 1
        calls, custom = ModelCalls(clock=self._clock), CustomMetrics()
        api = ServerApi(calls, custom)
        loader = Loader(
            registry=Registry(
                clock=self._clock,
                server=api,
                catalog=Catalog(pathlib.Path(options.backend_directory)),
                imported=interpreter.exempt,
            ),
            backend_options=requirements.added_to(options.backend_config),
            config_name=options.model_config_name,
            auto_complete=not options.disable_auto_complete_config,
            gpus=tuple(gpu.index for gpu in gpus),
            slices=frozenset(gpu.index for gpu in gpus if gpu.is_slice),
            threads=options.model_load_thread_count,
            clock=self._clock,
            make_scheduler=SchedulerFactory(resources=UnlimitedResources(), clock=self._clock),
            submit=calls.submit,
            rpc_handler_of=api.rpc_handler,
            devices=DeviceMemory(monitor, {gpu.index: gpu.uuid for gpu in gpus}),
            gpu_limits=options.model_load_gpu_limit,
            config_overrides=options.model_config_override,
        )
        system_metrics = SystemMetrics(
            gpus=monitor if gpus and options.allow_gpu_metrics else None,
            cpu=options.allow_cpu_metrics,
            interval_seconds=options.metrics_interval_ms / _MS_PER_SECOND,
        )
        try:
            coordination = Coordination(options.model_load_thread_count)
            agents = AgentResolver(
                pathlib.Path(options.repoagent_directory),
                read=loader.read,
                plan=loader.plan,
                slots=coordination.slots,
                at_once=options.model_load_thread_count,
            )
            stores = [
                open_store(location, remote=self._stores.open)
                for location in options.model_repository
            ]
            repository, pollers = RepositoryFactory(
                options,
                loader=loader,
                agents=agents,
                coordination=coordination,
                progress=self._lines,
                clock=self._clock,
            ).make(stores)
            engine = ServingEngine(
                repository=repository,
                server_id=options.id,
                version=__version__,
                strict_readiness=options.strict_readiness,
                readiness_policy=options.readiness_policy,
                control_mode=options.model_control_mode,
                evicted=EvictedModels(
                    repository, wait_seconds=options.evicted_model_wait_secs, clock=self._clock
                )
                if options.evicted_model_wait_secs
                else None,
            )
            unused = UnusedOverrides(options.model_config_override, repository)
            frontends = Frontends(
                options=options,
                engine=engine,
                states=lambda: [*repository.states(), *unused.states()],
                system_metrics=lambda: [
                    *custom.series(),
                    self._lag.series(),
                    *pollers.series(),
                    *eviction_series(repository),
                    *system_metrics.series(),
                ],
                gpu_uuids={gpu.index: gpu.uuid for gpu in gpus},
                clock=self._clock,
            )
            await system_metrics.start()
            calls.open(engine.called_model, asyncio.get_running_loop())
            api.open(engine, asyncio.get_running_loop())
            try:
                await frontends.open()
                interpreter.imported()
                self._lag.start(asyncio.get_running_loop())
                return await self._serve(
                    repository, loader, agents, engine, frontends, pollers=pollers, unused=unused
                )
            finally:
                await frontends.close_all()
                self._watchdog.stop()
                self._lag.stop()
                calls.close()
                api.close()
        except (InferenceError, FrontEndError) as error:
            log.error("%s", Lines(error))  # noqa: TRY400 - the message says all
            return 1
        finally:
            await system_metrics.stop()
            await asyncio.to_thread(self._stores.close)
            loader.close()
            requirements.close()
            monitor.close()

    async def _serve(
        self,
        repository: Repository[Model] | Namespaces[Model],
        loader: Loader,
        agents: AgentResolver,
        engine: ServingEngine,
        frontends: Frontends,
        *,
        pollers: Pollers,
        unused: UnusedOverrides,
    ) -> int:
        options = self._options
        at_start = options.model_control_mode.models_at_start(options.load_model)
        self._lines.show_bars(repository.load_progress)
        loading = asyncio.get_running_loop().create_task(repository.load_all(at_start))
        stopping = asyncio.get_running_loop().create_task(self._stopping.wait())
        try:
            await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._lines.hide_bars()
        stopping.cancel()
        failed = False
        states: list[VersionState] = []
        if loading.done():
            failed = not loading.result()
            states = repository.states()
            show_models(self._console, states)
            missing = set(options.readiness_policy.models) - {state.name for state in states}
            if missing:
                log.warning(
                    "not ready until these models are loaded, which --readiness-policy names and the start did not load: %s",
                    ", ".join(sorted(missing)),
                )
            if failed and options.exit_on_error:
                self._lines.hide_unloads()
                self._stopping.set()
            else:
                interpreter.settle()
                await frontends.accept()
                engine.phase = Phase.SERVING
                pollers.start()
                # Not before: imports and loads block the loop while there are no requests.
                self._lag.stalls.clear()
                self._watchdog.start()
                show_addresses(
                    self._console, frontends.addresses(), example=frontends.example(states)
                )
        looking = asyncio.get_running_loop().create_task(unused.find())
        await self._stopping.wait()
        looking.cancel()
        loading.cancel()
        await pollers.aclose()
        loader.interrupt()
        agents.interrupt()

        def lame_duck() -> None:
            engine.phase = Phase.DRAINING
            frontends.begin_drain()

        async def unload() -> None:
            await repository.unload_all()
            await agents.join()
            await loader.finish()

        in_time = await drain(
            lame_duck=lame_duck,
            close=frontends.close,
            unload=unload,
            inflight=engine.inflight,
            live_models=lambda: len(repository.served()) + len(repository.unloading()),
            delay_seconds=options.shutdown_delay_secs,
            timeout_seconds=options.exit_timeout_secs,
            clock=self._clock,
        )
        engine.phase = Phase.EXITING
        if failed and options.exit_on_error:
            # As the last line, after those of the stop.
            names = sorted({state.name for state in states if state.state is not State.READY})
            log.error(
                "failed to load all models: exiting with status 1, because --exit-on-error is true; failed: %s; the reasons are above",
                ", ".join(names) or "models that are not in the repository",
            )
            return 1
        return 0 if in_time else 1

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in to_watch():
            loop.add_signal_handler(number, self._on_signal, number)
        if EARLY.received is not None:
            self._on_signal(EARLY.received)

    def _on_signal(self, number: signal.Signals) -> None:
        if self._stopping.is_set():
            log.warning("%s again: exiting at once", number.name)
            self._lines.hide_bars()
            logging.shutdown()
            os._exit(1)
        log.info("%s: stopping (a second signal exits at once)", number.name)
        self._stopping.set()


class UnwaitedExecutor(concurrent.futures.ThreadPoolExecutor):
    """The event loop's threads for blocking work. Its shutdown returns at once: a call that hangs, in a driver, must not keep the loop open."""

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)
