"""From a model folder to a model in service: reads the config, picks the backend, makes instances, hosts and scheduler.

Everything that may block (reading, completing, loading, making instances) runs in the loader's own threads; hosts and
schedulers are made on the event loop, which owns them.
"""

import asyncio
import collections.abc
import concurrent.futures
import contextlib
import functools
import logging
import math
import pathlib
import typing

from naiad.backends.backend import Backend, CompletesApart, ModelSource
from naiad.backends.instance import Instance, LoadedModel
from naiad.backends.instances import instance_specs
from naiad.backends.plugin import HostKind
from naiad.backends.registry import Registry
from naiad.backends.visible_devices import beyond_a_thread
from naiad.config.backend_type import Completer
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem
from naiad.config.report import render
from naiad.config.resolve import Resolution, resolve
from naiad.core.clock import Clock
from naiad.engine.model import Model
from naiad.errors import InferenceError, internal, invalid
from naiad.hosts.host import Host
from naiad.hosts.limits import EXECUTE, LOAD, Limit, Limits
from naiad.hosts.local_instance import LocalInstance
from naiad.hosts.thread import ThreadHost
from naiad.metrics.statistics import ModelStatistics
from naiad.repository.plan import ModelPlan, VersionPlan
from naiad.scheduling.factory import make_scheduler
from naiad.scheduling.resources import Resources

if typing.TYPE_CHECKING:
    from naiad.engine.workers import Workers
    from naiad.hosts.worker_rpc import WorkerRpcHandler

log = logging.getLogger("naiad.loader")

HOST_PARAMETER = "naiad.host"

_NESTED = 256
"""Loads beside those that are allowed at once: each of them waits in its initialize for another one that it asked for (row 15.24)."""

COMPLETION_TIMEOUT_S = 120.0
"""How long a model may take to complete its config."""

_Argument = typing.TypeVar("_Argument")
_Result = typing.TypeVar("_Result")

BackendOptions = collections.abc.Mapping[str, collections.abc.Mapping[str, str]]


class Loader:
    """Plans and loads models.

    Args:
        registry: the backends.
        backend_options: `--backend-config` by backend name; "" holds what is meant for all of them.
        config_name: `--model-config-name` (row 7.34).
        auto_complete: whether missing config fields are filled in (row 11.48).
        gpus: the device ids of this machine.
        slices: those that are MIG slices.
        threads: how many models are read or loaded at once.
        clock: for load and compute times.
        resources: what the instances of all models share.
        rpc_handler_of: makes the handler of the requests of an instance's workers, by names of model and instance.
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
        resources: Resources,
        rpc_handler_of: collections.abc.Callable[[str, str], "WorkerRpcHandler"],
    ) -> None:
        self._registry = registry
        self._resources = resources
        self._rpc_handler_of = rpc_handler_of
        self._backend_options = backend_options
        self._config_name = config_name
        self._auto_complete = auto_complete
        self._gpus = gpus
        self._slices = slices
        self._clock = clock
        self._executor = concurrent.futures.ThreadPoolExecutor(
            max_workers=threads + _NESTED, thread_name_prefix="load"
        )
        self._under_way: set[concurrent.futures.Future[typing.Any]] = set()

    async def plan(self, folder: pathlib.Path) -> ModelPlan:
        """Read a model folder: what to load, or why not."""
        return await self._in_a_thread(self._plan, folder)

    async def load(self, plan: VersionPlan) -> Model:
        """Load one version.

        Raises:
            InferenceError: it cannot be loaded; the message is for the index.
        """
        loop = asyncio.get_running_loop()
        started_ns = self._clock.monotonic_ns()
        statistics = ModelStatistics()
        plugin = await self._in_a_thread(self._registry.plugin, plan.config.backend)
        options = self.options_of(plan.config.backend)
        hosts: list[Host]
        if host_of(plan.config, plugin.default_host, options, self._slices) == "process":
            hosts, release = await self._in_processes(plan, statistics)
            leaves_cycles = False
        else:
            limits = limits_of(plan.config)
            for limit in (limits.execute, limits.load):
                if limit.seconds:
                    raise _needs_a_process(plan.config, limit)
            loaded, instances = await self._in_a_thread(self._load, plan)
            release, leaves_cycles = loaded.close, loaded.leaves_cycles
            hosts = [
                ThreadHost(
                    name,
                    LocalInstance(instance, plan.config, plan.version),
                    clock=self._clock,
                    loop=loop,
                )
                for name, instance in instances
            ]
        statistics.load_ns = self._clock.monotonic_ns() - started_ns
        scheduler = make_scheduler(
            config=plan.config,
            version=plan.version,
            hosts=hosts,
            resources=self._resources,
            statistics=statistics,
            clock=self._clock,
            loop=loop,
        )
        return Model(
            config=plan.config,
            version=plan.version,
            scheduler=scheduler,
            release=release,
            leaves_cycles=leaves_cycles,
            clock=self._clock,
        )

    def interrupt(self) -> None:
        """The server stops: environments that are being made, which may take minutes, are given up, and their loads fail."""
        self._registry.close()

    def close(self) -> None:
        """End the loader's threads and what they wait for; nothing can be loaded afterwards."""
        self._registry.close()
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def finish(self) -> None:
        """Close, and wait for what is being read or loaded: a model's code cannot be stopped, and the process waits for it."""
        self.close()
        running = [asyncio.wrap_future(future) for future in tuple(self._under_way)]
        if running:
            log.info("waiting for %d models that are being loaded", len(running))
            await asyncio.wait(running)

    async def _in_a_thread(
        self, work: collections.abc.Callable[[_Argument], _Result], argument: _Argument
    ) -> _Result:
        future = self._executor.submit(_guarded, work, argument)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return await asyncio.wrap_future(future)

    def options_of(self, backend: str) -> dict[str, str]:
        """A backend's options: what is meant for all, overridden by what is meant for it (row 17.10)."""
        return {**self._backend_options.get("", {}), **self._backend_options.get(backend, {})}

    def _plan(self, folder: pathlib.Path) -> ModelPlan:
        resolution = resolve(
            folder,
            config_name=self._config_name,
            auto_complete=self._auto_complete,
            gpus=self._gpus,
            complete=self._completer,
            backend_options=self._backend_options,
            backends=self._registry.catalog,
        )
        for warning in resolution.warnings:
            log.warning("%s: %s", folder.name, warning)
        for note in resolution.notes:
            log.info("%s: %s", folder.name, note)
        config = resolution.config
        if config is None:
            return _refusal(folder, resolution)
        return ModelPlan(
            name=folder.name,
            versions=tuple(
                VersionPlan(config=config, version=version, model_dir=folder)
                for version in resolution.versions
            ),
        )

    def _completer(self, name: str) -> Completer | None:
        try:
            backend, default_host = (
                self._registry.get(name),
                self._registry.plugin(name).default_host,
            )
        except InferenceError:
            return None  # reported with the backend's name when the version is loaded
        if not isinstance(backend, CompletesApart):
            return backend.complete
        return functools.partial(_complete, backend, default_host)

    async def _in_processes(
        self, plan: VersionPlan, statistics: ModelStatistics
    ) -> tuple[list[Host], collections.abc.Callable[[], None]]:
        limits = limits_of(plan.config)
        workers = await self._in_a_thread(self._workers, plan)
        return await workers.start(statistics, limits=limits), _nothing

    def _workers(self, plan: VersionPlan) -> "Workers":
        # In a thread, with the first model that has workers: without any the server imports a tenth less at its start.
        from naiad.engine.workers import Workers  # noqa: PLC0415

        source = self._source(plan)
        backend = self._registry.get(plan.config.backend)
        return Workers(
            plan,
            [
                (spec.name, backend.worker_plan(source, spec))
                for spec in instance_specs(plan.config)
            ],
            rpc_handler_of=self._rpc_handler_of,
            clock=self._clock,
        )

    def _source(self, plan: VersionPlan) -> ModelSource:
        return ModelSource(
            config=plan.config,
            version=plan.version,
            model_dir=plan.model_dir,
            version_dir=plan.version_dir,
            options=self.options_of(plan.config.backend),
        )

    def _load(self, plan: VersionPlan) -> tuple[LoadedModel, list[tuple[str, Instance]]]:
        config = plan.config
        source = self._source(plan)
        loaded = self._registry.get(config.backend).load(source)
        with contextlib.ExitStack() as undo:
            undo.callback(loaded.close)
            instances: list[tuple[str, Instance]] = []
            for spec in instance_specs(config):
                instance = loaded.make_instance(spec)
                undo.callback(instance.close)
                instances.append((spec.name, instance))
            undo.pop_all()
        return loaded, instances


def host_of(
    config: ModelConfig,
    default: HostKind,
    options: collections.abc.Mapping[str, str],
    slices: frozenset[int] = frozenset(),
) -> HostKind:
    """Where a model's instances run: the model's setting, else `--backend-config`, else the backend's default.

    Instances on MIG slices run in processes by default, since a thread of the server reaches one slice only.

    Args:
        config: the model's.
        default: the backend's.
        options: of the backend.
        slices: the device ids that are MIG slices.

    Raises:
        InferenceError: INVALID_ARG: the host is not a valid one, or cannot reach the GPUs of the model's instances.
    """
    chosen = config.parameters.get(HOST_PARAMETER) or options.get("host")
    beyond = beyond_a_thread(instance_specs(config), slices)
    if not chosen and beyond:
        return "process"
    host = _known_host(chosen or default, config.name, config.backend)
    if host == "thread" and beyond:
        raise invalid(
            f"model '{config.name}' has instances on GPU {', '.join(map(str, beyond))} and host=thread: CUDA opens one MIG slice per process, "
            f"and the server's is GPU 0: take host=thread out (parameter {HOST_PARAMETER}, or --backend-config), or write gpus: [ 0 ]"
        )
    return host


def _known_host(wanted: str, model: str, backend: str) -> HostKind:
    if wanted == "thread":
        return "thread"
    if wanted == "process":
        return "process"
    raise invalid(
        f"model '{model}' asks for host={wanted}: the hosts are thread and process (parameter {HOST_PARAMETER}, or "
        f"--backend-config={backend},host=…)"
    )


def _guarded(work: collections.abc.Callable[[_Argument], _Result], argument: _Argument) -> _Result:
    """Do it. A KeyboardInterrupt that a model's code raises is that model's failure: on the loop it would end the server."""
    try:
        return work(argument)
    except Exception:
        raise
    except BaseException as error:
        raise internal(f"the model's code raised {type(error).__name__}: {error}") from error


def _complete(
    backend: Backend,
    default_host: HostKind,
    message: typing.Any,
    *,
    model_dir: pathlib.Path,
    version_dir: pathlib.Path,
    options: collections.abc.Mapping[str, str],
) -> None:
    """Have a model complete its config where its instances will run, so that its code stays out of the server's process."""
    chosen = message.parameters.get(HOST_PARAMETER)
    wanted = (chosen and chosen.string_value) or options.get("host") or default_host
    if _known_host(wanted, message.name, message.backend) == "thread":
        backend.complete(message, model_dir=model_dir, version_dir=version_dir, options=options)
        return
    assert isinstance(backend, CompletesApart)
    plan = backend.completion_plan(
        message, model_dir=model_dir, version_dir=version_dir, options=options
    )
    if plan is not None:
        from naiad.engine import workers  # noqa: PLC0415 - as in `Loader`

        result = workers.run_once(
            plan, model=message.name, version=int(version_dir.name), timeout_s=COMPLETION_TIMEOUT_S
        )
        backend.take_completion(message, result)


def limits_of(config: ModelConfig) -> Limits:
    """How long a batch and a load may take in a worker process.

    Raises:
        InferenceError: INVALID_ARG: one of them is no number of seconds.
    """
    return Limits(execute=_limit(config, EXECUTE), load=_limit(config, LOAD))


def _limit(config: ModelConfig, parameter: str) -> Limit:
    text = config.parameters.get(parameter) or "0"
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise invalid(
            f"model '{config.name}': parameter {parameter} is '{text}': it must be a number of seconds, e.g. 2.5"
        )
    return Limit(parameter, seconds)


def _needs_a_process(config: ModelConfig, limit: Limit) -> InferenceError:
    return invalid(
        f"model '{config.name}' sets {limit.parameter} and runs in a thread of the server, which cannot be ended: let it run in a "
        f'process (parameter {HOST_PARAMETER} "process", or --backend-config={config.backend},host=process), or take the limit away'
    )


def _nothing() -> None:
    """Worker processes share nothing that would have to be given back."""


def _refusal(folder: pathlib.Path, resolution: Resolution) -> ModelPlan:
    return ModelPlan(
        name=folder.name,
        reason="; ".join(_one_line(problem) for problem in resolution.problems),
        details=render(resolution.problems, colour=False),
        failed_version=_version_at_fault(resolution.problems),
    )


def _version_at_fault(problems: collections.abc.Iterable[Problem]) -> int | None:
    """The highest one, if every problem is in a version's folder."""
    folders = [problem.path.parent.name for problem in problems]
    return max(map(int, folders)) if folders and all(name.isdecimal() for name in folders) else None


def _one_line(problem: Problem) -> str:
    place = problem.path.name
    if problem.position is not None:
        place = f"{place}:{problem.position.line}:{problem.position.column}"
    help_text = f" ({problem.suggestion})" if problem.suggestion else ""
    return f"{place}: {problem.message}{help_text}"
