"""Checks models: finds their folders, and collects everything that the server would refuse, in its words.

The rules are those of the server: `config.resolve` reads a config, `engine.preflight` calls what a load calls, `loading.py` loads a model.
"""

import collections
import collections.abc
import pathlib
import types
import typing

from naiad.backends.catalog import Catalog
from naiad.backends.plugin import BackendPlugin
from naiad.check.checked_model import Checked
from naiad.check.ensembles import check_ensembles
from naiad.check.explainers import check_explainers
from naiad.check.parameters import misspelled
from naiad.check.resources import check_resources
from naiad.config.checks.features import ServerFeatures
from naiad.config.findings import in_order
from naiad.config.problem import Problem, Scope
from naiad.config.resolving import versions
from naiad.config.resolving.resolve import Resolution, config_file, resolve
from naiad.engine.preflight import preflight
from naiad.options.usage import UsageError
from naiad.repository.agents.catalog import AgentCatalog
from naiad.repository.agents.checksum import CHECKSUM
from naiad.repository.agents.preflight import agent_error
from naiad.repository.plan import DUPLICATE
from naiad.repository.store import local_root, no_model, open_store
from naiad.scheduling.rate_limiter.keys import ExplicitAmounts

if typing.TYPE_CHECKING:
    from naiad.check.loading import TrialLoader

_NO_RESOURCES: ExplicitAmounts = types.MappingProxyType({})

BackendOptions = collections.abc.Mapping[str, collections.abc.Mapping[str, str]]


class Checker:
    """Checks models as a server with these settings would read them.

    Args:
        config_name: `--model-config-name`.
        auto_complete: whether configs are completed.
        gpus: the device ids of the serving machine.
        backends: those that there are.
        backend_options: `--backend-config` by backend name, "" for all.
        agents: the repository agents that there are.
        elsewhere: whether another machine serves, on which what this one lacks may be installed.
        trial: loads models without problems; None to load none.
        features: what the server's options switch on.
        resources: `--rate-limit-resource`.
        namespaces: `--model-namespacing`.
    """

    def __init__(
        self,
        *,
        config_name: str,
        auto_complete: bool,
        gpus: collections.abc.Sequence[int],
        backends: Catalog,
        backend_options: BackendOptions,
        agents: AgentCatalog,
        elsewhere: bool,
        trial: "TrialLoader | None",
        features: ServerFeatures = ServerFeatures(),  # noqa: B008 - it is immutable
        resources: ExplicitAmounts = _NO_RESOURCES,
        namespaces: bool = False,
    ) -> None:
        self._namespaces = namespaces
        self._config_name = config_name
        self._auto_complete = auto_complete
        self._gpus = gpus
        self._backends = backends
        self._backend_options = backend_options
        self._agents = agents
        self._elsewhere = elsewhere
        self._trial = trial
        self._features = features
        self._resources = resources

    def check(self, locations: collections.abc.Iterable[str]) -> list[Checked]:
        """Check every model of every location, in the order given.

        Raises:
            UsageError: a location has no models.
            InferenceError: it cannot be read, or is not a local folder.
        """
        given = list(dict.fromkeys(locations))
        folders = [
            model
            for location in given
            for model in _models(location, config_name=self._config_name)
        ]
        alone = any(folder == pathlib.Path(location) for folder in folders for location in given)
        by_name: dict[str, list[pathlib.Path]] = collections.defaultdict(list)
        for folder in folders:
            by_name[folder.name].append(folder)
        models = [self._model(folder, by_name[folder.name]) for folder in folders]
        if self._features.rate_limiter:
            models = check_resources(models, self._resources)
        models = check_ensembles(models, is_repository=not alone, namespaces=self._namespaces)
        # Behind it: a model without its explainer is loaded, and can be a step.
        return check_explainers(models, is_repository=not alone)

    def _model(
        self, folder: pathlib.Path, same_name: collections.abc.Sequence[pathlib.Path]
    ) -> Checked:
        complete = None if self._trial is None else self._trial.completer(folder)
        resolution = resolve(
            folder,
            config_name=self._config_name,
            auto_complete=self._auto_complete,
            gpus=self._gpus,
            complete=complete,
            backend_options=self._backend_options,
            backends=self._backends.for_model(folder),
            features=self._features,
        )
        changing = _changing_agents(resolution)
        found = [] if self._namespaces else _duplicates(folder, same_name)
        agent_problems = self._agent_problems(folder, resolution)
        found += agent_problems
        if reason := no_model(folder):
            found.append(Problem(path=folder, position=None, message=reason))
        elif changing:
            found += resolution.document.problems
        else:
            found += (*resolution.problems, *resolution.faults)
            found += self._preflight(folder, resolution)
        problems, notes = self._weighed(_ordered(found, resolution.document.path))
        config = resolution.config
        is_ensemble = config is not None and config.ensemble is not None  # which has no instances
        if self._trial is not None and not (problems or changing or is_ensemble):
            more = self._trial.load(folder, resolution)
            problems += more.problems
            notes += more.notes
        return Checked(
            path=folder,
            resolution=resolution,
            problems=tuple(problems),
            notes=(
                *notes,
                *resolution.warnings,
                *resolution.notes,
                *misspelled(resolution.document.message.parameters),
            ),
            agents=changing,
        )

    def _preflight(self, folder: pathlib.Path, resolution: Resolution) -> list[Problem]:
        """What a load would refuse, of a model that is complete enough to say so."""
        config = resolution.draft
        plugin = (
            self._backends.for_model(folder).find(config.backend) if config is not None else None
        )
        if config is None or not isinstance(plugin, BackendPlugin):
            return []
        options = self._backend_options
        return preflight(
            plugin,
            config,
            document=resolution.document,
            model_dir=folder,
            versions=resolution.versions,
            options={**options.get("", {}), **options.get(config.backend, {})},
        )

    def _agent_problems(self, folder: pathlib.Path, resolution: Resolution) -> list[Problem]:
        """The first agent that fails the load, as the server calls them one after the other; agents that run code are only looked for."""
        document = resolution.document
        for index, agent in enumerate(document.message.model_repository_agents.agents):
            text = agent_error(self._agents, agent.name, folder, dict(agent.parameters))
            if text:
                path = ("model_repository_agents", "agents", index)
                return [document.problem(path, text)]
        return []

    def _weighed(self, found: collections.abc.Iterable[Problem]) -> tuple[list[Problem], list[str]]:
        """Problems, and as notes those that may not be any on the machine that serves."""
        problems: list[Problem] = []
        notes: list[str] = []
        for problem in found:
            elsewhere = problem.scope is Scope.PATH or (
                problem.scope is Scope.HERE and self._elsewhere
            )
            if elsewhere:
                notes.append(f"on this machine: {problem.message}")
            else:
                problems.append(problem)
        return problems, notes


def _ordered(problems: collections.abc.Iterable[Problem], config: pathlib.Path) -> list[Problem]:
    """Those of the config first, in its order, then those of other files; each message once, where it has a position."""
    known: dict[str, Problem] = {}
    for problem in problems:
        before = known.get(problem.message)
        if before is None or (before.position is None and problem.position is not None):
            known[problem.message] = problem
    unique = list(known.values())
    return [
        *in_order(problem for problem in unique if problem.path == config),
        *(problem for problem in unique if problem.path != config),
    ]


def _models(location: str, *, config_name: str) -> list[pathlib.Path]:
    """The model folders in a repository; a single one when the location is a model itself.

    Raises:
        UsageError: there is no such folder, or no model in it.
        InferenceError: it cannot be read, or is not a local folder.
    """
    store = open_store(location, option="")
    folder = pathlib.Path(location)
    if not folder.is_dir() and "://" not in location:
        what = "is a file" if folder.exists() else "does not exist"
        raise UsageError(
            f"{location} {what}: give a model repository (a folder that holds one folder per model),"
            " or the folder of one model"
        )
    if _is_model(folder, config_name=config_name):
        return [folder if folder.name else folder.resolve()]
    root = pathlib.Path(local_root(location) or location)
    models = [root / name for name in store.names()]
    if not models:
        raise UsageError(
            f"{location} holds no model: a repository holds one folder per model, each with a config.pbtxt"
            " and version folders such as 1/"
        )
    return models


def _is_model(folder: pathlib.Path, *, config_name: str) -> bool:
    """Whether a folder is a model rather than a repository: it has a config, or models in version folders."""
    if config_file(folder, config_name).is_file():
        return True
    if not folder.is_dir():
        return False
    names = [entry.name for entry in folder.iterdir() if entry.is_dir()]
    numbers, _ = versions.present(names)
    return any(
        entry.name.startswith("model.")
        for number in numbers
        for entry in (folder / str(number)).iterdir()
    )


def _duplicates(
    folder: pathlib.Path, same_name: collections.abc.Sequence[pathlib.Path]
) -> list[Problem]:
    """Refuse two models of one name (row 7.6)."""
    others = [str(other) for other in same_name if other is not folder]
    if not others:
        return []
    return [
        Problem(
            path=folder,
            position=None,
            message=DUPLICATE,
            suggestion=f"'{folder.name}' is also {', '.join(others)}, and none of them is served: rename or remove all but one",
        )
    ]


def _changing_agents(resolution: Resolution) -> tuple[str, ...]:
    """The repository agents of a model that may change its files (row 14.35). They run in a server only."""
    agents = resolution.document.message.model_repository_agents.agents
    return tuple(agent.name for agent in agents if agent.name != CHECKSUM)
