"""Makes a plan of a model folder: reads its config, completes it, and says which versions to load or why the model cannot be served.

Everything here blocks, and a completion may run a model's code: it is called in the loader's threads.
"""

import collections
import collections.abc
import functools
import logging
import pathlib
import typing

from naiad.backends.backend import ModelsComplete
from naiad.backends.plugin import BackendPlugin
from naiad.backends.registry import Registry
from naiad.config.backend_type import Completer, HostKind
from naiad.config.checks.features import ServerFeatures
from naiad.config.document import Document
from naiad.config.pbtxt import parser as pbtxt
from naiad.config.problem import Problem
from naiad.config.report import one_line, render
from naiad.config.resolving.resolve import NO_VERSION, Resolution, config_file, resolve
from naiad.engine.instances.factory import BackendOptions
from naiad.engine.instances.placement import HOST_PARAMETER, completion_limit, known_host
from naiad.errors import InferenceError
from naiad.repository.plan import ModelPlan, VersionPlan
from naiad.repository.requests.overrides import Value

log = logging.getLogger("naiad.loader")


class Planner:
    """Makes plans.

    Args:
        backend_options: `--backend-config` by backend name; "" holds what is meant for all of them.
        config_name: `--model-config-name`.
        config_overrides: fields in place of those of a model's own config, as JSON by the model's name.
        auto_complete: whether missing config fields are filled in (row 11.48).
        gpus: the ids of the devices.
        features: what the server's options switch on.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        backend_options: BackendOptions,
        config_name: str,
        config_overrides: collections.abc.Mapping[str, str],
        auto_complete: bool,
        gpus: collections.abc.Sequence[int],
        features: ServerFeatures,
    ) -> None:
        self._registry = registry
        self._backend_options = backend_options
        self._config_name = config_name
        self._config_overrides = config_overrides
        self._auto_complete = auto_complete
        self._gpus = gpus
        self._features = features

    def read(self, folder: pathlib.Path, *, config: Value | None) -> Document:
        """The config of a model folder, with the fields of `--model-config-override`, or the one of a load request in place of both.

        Raises:
            InferenceError: INVALID_ARG: that is not a ModelConfig.
        """
        fields = self._config_overrides.get(folder.name)
        if config is None and fields is None:
            return pbtxt.read(config_file(folder, self._config_name))
        from naiad.config.resolving import override  # noqa: PLC0415 - few servers need it

        if config is not None:
            return override.read(config, folder)
        assert fields is not None
        return override.with_fields(pbtxt.read(config_file(folder, self._config_name)), fields)

    def plan(self, document: Document | None, folder: pathlib.Path) -> ModelPlan:
        """Which versions of a folder to load, or why the model cannot be served; `document`: a config in place of the folder's."""
        resolution = resolve(
            folder,
            config_name=self._config_name,
            document=document,
            auto_complete=self._auto_complete,
            gpus=self._gpus,
            complete=functools.partial(self.completer, model_dir=folder),
            backend_options=self._backend_options,
            backends=self._registry.catalog.for_model(folder),
            features=self._features,
        )
        for warning in resolution.warnings:
            log.warning("%s: %s", folder.name, warning)
        for note in resolution.notes:
            log.info("%s: %s", folder.name, note)
        config = resolution.config
        if config is None:
            return _failed_plan(folder, resolution)
        return ModelPlan(
            name=folder.name,
            versions=tuple(
                VersionPlan(
                    config=config,
                    version=version,
                    model_dir=folder,
                    remark=resolution.remark,
                    strategy=resolution.strategies.get(version),
                    fault="; ".join(
                        one_line(fault) for fault in resolution.faults if fault.version == version
                    ),
                )
                for version in resolution.versions
            ),
        )

    def completer(self, name: str, *, model_dir: pathlib.Path) -> Completer | None:
        """A backend's completion of configs, which may run a model's code; None if it has none. Blocking, from any thread.

        Args:
            name: the backend's.
            model_dir: the folder of the model, which may hold its backend's library.
        """
        try:
            plugin = self._registry.plugin(name, model_dir)
            if plugin.complete is not None:
                if plugin.completes_by_loading is None:
                    return plugin.complete
                return functools.partial(_complete_one_way, self._registry, plugin)
            backend = self._registry.get(name, model_dir=model_dir)
        except InferenceError:
            return None  # reported with the backend's name when the version is loaded
        if isinstance(backend, ModelsComplete):
            return functools.partial(_complete, backend, plugin.default_host)
        return None


def _complete_one_way(
    registry: Registry,
    plugin: BackendPlugin,
    message: typing.Any,
    version_dir: pathlib.Path,
    options: collections.abc.Mapping[str, str],
) -> None:
    """Complete a config by its model's file or, where that is not enough, by loading the model."""
    assert plugin.complete is not None
    assert plugin.completes_by_loading is not None
    if plugin.completes_by_loading(message, version_dir):
        backend = registry.get(plugin.name)
        if isinstance(backend, ModelsComplete):
            _complete(backend, plugin.default_host, message, version_dir, options)
            return
    plugin.complete(message, version_dir, options)


def _complete(
    backend: ModelsComplete,
    default_host: HostKind,
    message: typing.Any,
    version_dir: pathlib.Path,
    options: collections.abc.Mapping[str, str],
) -> None:
    """Complete a config where the model's instances will run, so that its code stays out of the server's process."""
    chosen = message.parameters.get(HOST_PARAMETER)
    wanted = (chosen and chosen.string_value) or options.get("host") or default_host
    if known_host(wanted, message.name, message.backend) == "thread":
        backend.complete(message, version_dir, options)
        return
    plan = backend.completion_plan(message, version_dir, options)
    if plan is not None:
        from naiad.engine.instances import workers  # noqa: PLC0415 - as in `InstanceFactory`

        result = workers.run_once(
            plan, model=message.name, version=int(version_dir.name), limit=completion_limit(message)
        )
        backend.take_completion(message, result)


def _failed_plan(folder: pathlib.Path, resolution: Resolution) -> ModelPlan:
    return ModelPlan(
        name=folder.name,
        reason="; ".join(one_line(problem) for problem in resolution.problems),
        details=render(resolution.problems, colour=False),
        failed_versions=_failed_versions(resolution.problems),
        without_version=all(
            problem.message.startswith(NO_VERSION) for problem in resolution.problems
        ),
    )


def _failed_versions(problems: collections.abc.Sequence[Problem]) -> dict[int, str]:
    """Why each version would fail to load, if every problem is about a version; otherwise empty."""
    by_version = collections.defaultdict[int, list[str]](list)
    for problem in problems:
        if problem.version is None:
            return {}
        by_version[problem.version].append(one_line(problem))
    return {version: "; ".join(lines) for version, lines in sorted(by_version.items())}
