"""Loads models as the server does, one after the other, and unloads them: `naiad check --load`. Runs their code.

A model's `initialize` can call no other model here. Whether one that tries would load is not known.
"""

import asyncio
import collections.abc
import functools
import pathlib
import typing

import msgspec

from naiad.backends.catalog import Catalog
from naiad.backends.registry import Registry
from naiad.config.backend_type import Completer
from naiad.config.checks.features import ServerFeatures
from naiad.config.problem import Problem
from naiad.config.refused import problem_of
from naiad.config.resolving.resolve import Resolution
from naiad.core.clock import SystemClock
from naiad.engine.bls.model_calls import ModelCalls
from naiad.engine.bls.rpc_handlers import rpc_handlers_of
from naiad.engine.bls.server_api import STOPPING, ServerApi
from naiad.engine.loader import Loader
from naiad.errors import InferenceError
from naiad.metrics.custom import CustomMetrics
from naiad.repository.plan import VersionPlan
from naiad.scheduling.factory import SchedulerFactory
from naiad.scheduling.instances.resources import UnlimitedResources


class Outcome(msgspec.Struct, frozen=True):
    """What a load has said."""

    problems: list[Problem] = []
    notes: list[str] = []


class TrialLoader:
    """Loads models. Use it as a context: its end ends what runs.

    Args:
        backends: those that there are.
        backend_options: `--backend-config` by backend name, "" for all.
        gpus: the device ids of this machine.
        auto_complete: whether models complete their configs.
        features: what the server's options switch on.
    """

    def __init__(
        self,
        *,
        backends: Catalog,
        backend_options: collections.abc.Mapping[str, collections.abc.Mapping[str, str]],
        gpus: collections.abc.Sequence[int],
        auto_complete: bool,
        features: ServerFeatures,
    ) -> None:
        clock = SystemClock()
        calls = ModelCalls(clock=clock)
        api = ServerApi(calls, CustomMetrics())
        self._runner = asyncio.Runner()
        self._loader = Loader(
            registry=Registry(clock=clock, server=api, catalog=backends),
            backend_options=backend_options,
            config_name="",
            auto_complete=auto_complete,
            gpus=gpus,
            threads=1,
            clock=clock,
            make_scheduler=SchedulerFactory(resources=UnlimitedResources(), clock=clock),
            submit=calls.submit,
            rpc_handler_of=rpc_handlers_of(api),
            features=features,
        )

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._loader.interrupt()
        self._runner.run(self._loader.finish())
        self._runner.close()

    def completer(
        self, model_dir: pathlib.Path
    ) -> collections.abc.Callable[[str], Completer | None]:
        """Gives a backend's completion for a model, which may run its code; as `resolve` takes it."""
        return functools.partial(self._loader.completer, model_dir=model_dir)

    def load(self, folder: pathlib.Path, resolution: Resolution) -> Outcome:
        """Load every version of a model and unload it."""
        return self._runner.run(self._load(folder, resolution))

    async def _load(self, folder: pathlib.Path, resolution: Resolution) -> Outcome:
        outcome = Outcome([], [])
        config = resolution.config
        assert config is not None, "a model without problems has a config"
        for version in resolution.versions:
            plan = VersionPlan(config=config, version=version, model_dir=folder)
            try:
                model = await self._loader.load(plan)
            except InferenceError as error:
                if STOPPING in error.message:
                    outcome.notes.append(
                        f"version {version} was not loaded: its initialize calls the server, which does not run here"
                    )
                    continue
                path = plan.version_dir / config.default_model_filename
                outcome.problems.append(problem_of(error, resolution.document, path=path))
            else:
                await model.stop()
        return outcome
