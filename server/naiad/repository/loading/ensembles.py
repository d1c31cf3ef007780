"""Loads the models of an ensemble's steps with it, and gives the ensemble what follows from them (rows 7.27, 7.28, 14.2 to 14.5).

For every load of an ensemble, also by a poll or for an evicted one. The ensemble depends on these models from then on, whether its load succeeds or not: it is loaded
again when one of them changes, unloaded before one of them, and none of them makes room for other models.
"""

import collections.abc
import typing

import msgspec

from naiad.config.model_config import ModelConfig
from naiad.config.resolving import composing
from naiad.errors import InferenceError, invalid
from naiad.repository.dependencies import DependencyCycleError, DependencyGraph
from naiad.repository.model_table import ModelTable
from naiad.repository.plan import DUPLICATE, ModelPlan, VersionPlan
from naiad.repository.version import S


class Home(typing.Protocol[S]):
    """The repository of a model that an ensemble needs.

    Attributes:
        namespace: "" without namespaces.
        table: of its models.
    """

    @property
    def namespace(self) -> str:
        """See above."""
        ...

    @property
    def table(self) -> ModelTable[S]:
        """See above."""
        ...

    async def load_needed(self, ensemble: str, name: str, *, again: bool) -> None:
        """Load a model that an ensemble needs; `again`: also if it is loaded, but its files have changed."""
        ...


class EnsembleLoads(typing.Generic[S]):
    """The loads of ensembles.

    Args:
        table: of the repository's models.
        dependencies: which models need which others.
        home_of: the repository whose model of a name an ensemble of this one uses.
        homes: all of them, by namespace.
    """

    def __init__(
        self,
        *,
        table: ModelTable[S],
        dependencies: DependencyGraph,
        home_of: collections.abc.Callable[[str], collections.abc.Awaitable[Home[S]]],
        homes: collections.abc.Callable[[], collections.abc.Mapping[str, Home[S]]],
    ) -> None:
        self._table = table
        self._dependencies = dependencies
        self._home_of = home_of
        self._homes = homes

    async def bind(self, plan: ModelPlan, *, again: bool) -> ModelPlan:
        """The plan of a model; that of an ensemble with what follows from the models of its steps, which are loaded then, or with the reason why not.

        Args:
            plan: with versions.
            again: whether models of steps are loaded again whose files have changed.
        """
        config = plan.versions[0].config
        if config.ensemble is None:
            return plan
        try:
            config = self._bound(await self._load_steps(config, again=again))
        except InferenceError as error:
            return ModelPlan(
                name=plan.name, reason=error.message, with_models=True, agents=plan.agents
            )
        versions = tuple(msgspec.structs.replace(each, config=config) for each in plan.versions)
        return msgspec.structs.replace(plan, versions=versions)

    async def load_steps_again(self, name: str) -> None:
        """Load models of an ensemble's steps again whose files have changed; no effect on other models.

        Raises:
            InferenceError: one cannot be loaded.
        """
        for version in self._table.ready(name).values():
            if version.plan.config.ensemble is not None:
                await self._load_steps(version.plan.config, again=True)
            return

    def check(self, plans: collections.abc.Iterable[VersionPlan]) -> None:
        """See that no model or version of a step was unloaded while the ensemble was loaded.

        Raises:
            InferenceError: one was.
        """
        for plan in plans:
            config = plan.config
            if config.ensemble is None:
                continue
            loaded = self._loaded(config)
            for name in config.ensemble.models:
                if not loaded[name]:
                    raise _unloaded(config.name, name)
            for missing in composing.missing_versions(config, loaded):
                raise invalid(missing.text)

    async def _load_steps(self, config: ModelConfig, *, again: bool) -> ModelConfig:
        """Load the models of the steps; the config with their namespaces."""
        assert config.ensemble is not None, "it is an ensemble"
        name, models = config.name, config.ensemble.models
        self._depend(name, models)
        missing: list[str] = []
        failures: dict[str, str] = {}
        namespaces: dict[str, str] = {}
        for needed in models:
            home = await self._home_of(needed)
            namespaces[needed] = home.namespace
            try:
                await home.load_needed(name, needed, again=again)
            except InferenceError as error:
                if _is_missing(home.table, needed):
                    missing.append(needed)
                elif not home.table.ready(needed):  # else what it had before serves on
                    failures[needed] = error.message
        if missing:
            raise invalid(composing.not_available(name, missing))
        for needed, reason in failures.items():
            raise invalid(composing.not_loaded(name, needed, reason))
        steps = tuple(
            msgspec.structs.replace(step, namespace=namespaces[step.model])
            for step in config.ensemble.steps
        )
        return msgspec.structs.replace(
            config, ensemble=msgspec.structs.replace(config.ensemble, steps=steps)
        )

    def _depend(self, name: str, models: collections.abc.Sequence[str]) -> None:
        """An ensemble depends on just these models from now on."""
        for needed in set(self._dependencies.needs(name)) - set(models):
            self._dependencies.discard(name, needed)
        for needed in models:
            if needed in self._dependencies.needs(name):
                continue
            try:
                self._dependencies.add(name, needed)
            except DependencyCycleError as error:
                raise invalid(composing.circular(error.cycle, name, needed)) from None

    def _bound(self, config: ModelConfig) -> ModelConfig:
        loaded = self._loaded(config)
        for name, versions in loaded.items():
            if not versions:  # it was unloaded while the others were loaded
                raise _unloaded(config.name, name)
        bound, wrong = composing.bound(config, loaded)
        if wrong:
            raise invalid("; ".join(each.text for each in wrong))
        return bound

    def _loaded(self, config: ModelConfig) -> composing.Loaded:
        assert config.ensemble is not None, "it is an ensemble"
        homes = self._homes()
        return {
            name: {
                number: version.plan.config
                for number, version in homes[namespace].table.ready(name).items()
            }
            for name, namespace in config.ensemble.identities
        }


def _is_missing(table: ModelTable[S], name: str) -> bool:
    """Whether a model that could not be loaded is in no repository, or in several."""
    plan = table.failed_plan(name)
    if plan is not None:
        return plan.reason == DUPLICATE
    return not table.versions(name)


def _unloaded(ensemble: str, model: str) -> InferenceError:
    return invalid(
        f"ensemble '{ensemble}' depends on '{model}' which has no loaded version. It was unloaded meanwhile: load '{ensemble}' again"
    )
