"""From a model folder to a model in service: reads the config, picks the backend, makes instances, hosts and scheduler.

Everything that may block (reading, completing, loading, making instances) runs in the loader's own threads; hosts and
schedulers are made on the event loop, which owns them.
"""

import asyncio
import collections.abc
import concurrent.futures
import contextlib
import logging
import pathlib

from naiad.backends.backend import Backend, Instance, LoadedModel, ModelSource
from naiad.backends.instances import instance_specs
from naiad.backends.registry import Registry
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem
from naiad.config.report import render
from naiad.config.resolve import Completer, Resolution, resolve
from naiad.core.clock import Clock
from naiad.engine.model import Model
from naiad.errors import InferenceError, invalid
from naiad.hosts.thread import ThreadHost
from naiad.metrics.statistics import ModelStatistics
from naiad.repository.plan import ModelPlan, VersionPlan
from naiad.scheduling.factory import make_scheduler

log = logging.getLogger("naiad.loader")

BackendOptions = collections.abc.Mapping[str, collections.abc.Mapping[str, str]]


class Loader:
    """Plans and loads models.

    Args:
        registry: the backends.
        backend_options: `--backend-config` by backend name; "" holds what is meant for all of them.
        config_name: `--model-config-name` (row 7.34).
        auto_complete: whether missing config fields are filled in (row 11.48).
        gpus: device ids that there are.
        threads: how many models are read or loaded at once.
        clock: for load and compute times.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        backend_options: BackendOptions,
        config_name: str,
        auto_complete: bool,
        gpus: collections.abc.Sequence[int],
        threads: int,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._backend_options = backend_options
        self._config_name = config_name
        self._auto_complete = auto_complete
        self._gpus = gpus
        self._clock = clock
        self._executor = concurrent.futures.ThreadPoolExecutor(
            max_workers=threads, thread_name_prefix="load"
        )

    async def plan(self, folder: pathlib.Path) -> ModelPlan:
        """Read a model folder: what to load, or why not."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._plan, folder)

    async def load(self, plan: VersionPlan) -> Model:
        """Load one version.

        Raises:
            InferenceError: it cannot be loaded; the message is for the index.
        """
        loop = asyncio.get_running_loop()
        started_ns = self._clock.monotonic_ns()
        loaded, instances = await loop.run_in_executor(self._executor, self._load, plan)
        hosts = [
            ThreadHost(name=name, instance=instance, clock=self._clock, loop=loop)
            for name, instance in instances
        ]
        statistics = ModelStatistics()
        statistics.load_ns = self._clock.monotonic_ns() - started_ns
        scheduler = make_scheduler(
            config=plan.config,
            version=plan.version,
            hosts=hosts,
            statistics=statistics,
            clock=self._clock,
            loop=loop,
        )
        return Model(
            config=plan.config,
            version=plan.version,
            scheduler=scheduler,
            hosts=hosts,
            statistics=statistics,
            release=loaded.close,
            clock=self._clock,
        )

    def close(self) -> None:
        """End the loader's threads; nothing can be loaded afterwards."""
        self._executor.shutdown(wait=False, cancel_futures=True)

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
            backends=self._registry.names,
        )
        for warning in resolution.warnings:
            log.warning("%s: %s", folder.name, warning)
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

    def _completer(self, backend: str) -> Completer | None:
        try:
            return self._registry.get(backend).complete
        except InferenceError:
            return None  # said again, with the backend's name, when the version is loaded

    def _load(self, plan: VersionPlan) -> tuple[LoadedModel, list[tuple[str, Instance]]]:
        config = plan.config
        backend = self._registry.get(config.backend)
        options = self.options_of(config.backend)
        _refuse_process_host(config, backend, options)
        source = ModelSource(
            config=config,
            version=plan.version,
            model_dir=plan.model_dir,
            version_dir=plan.version_dir,
            options=options,
        )
        loaded = backend.load(source)
        with contextlib.ExitStack() as undo:
            undo.callback(loaded.close)
            instances: list[tuple[str, Instance]] = []
            for spec in instance_specs(config):
                instance = loaded.make_instance(spec)
                undo.callback(instance.close)
                instances.append((spec.name, instance))
            undo.pop_all()
        return loaded, instances


def _refuse_process_host(
    config: ModelConfig, backend: Backend, options: collections.abc.Mapping[str, str]
) -> None:
    wanted = config.parameters.get("naiad.host") or options.get("host") or backend.default_host
    if wanted == "thread":
        return
    if wanted == "process":
        raise invalid(
            f"model '{config.name}' asks for host=process: worker processes are not there yet; "
            "take the parameter naiad.host, or --backend-config=<backend>,host=…, away or set it to thread"
        )
    raise invalid(f"model '{config.name}' asks for host={wanted}: the hosts are thread and process")


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
