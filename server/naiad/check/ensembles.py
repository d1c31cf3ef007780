"""Checks ensembles against the models of their steps, as a load does after it has loaded these (rows 7.27, 14.2 to 14.5). Pure.

The words are those of `repository/loading/ensembles.py`.
"""

import collections.abc
import dataclasses
import pathlib

from naiad.check.checked_model import Checked
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem
from naiad.config.report import one_line
from naiad.config.resolving import composing


def check_ensembles(
    models: list[Checked], *, is_repository: bool, namespaces: bool = False
) -> list[Checked]:
    """The models that were checked, and what is wrong with ensembles among them.

    Args:
        models: of all repositories.
        is_repository: whether these are all models; otherwise a note says that steps are not checked.
        namespaces: whether models of several repositories may have the same name.
    """
    return _Ensembles(models, is_repository=is_repository, namespaces=namespaces).run()


class _Ensembles:
    """Models are known by their folders: their names may be the same."""

    def __init__(self, models: list[Checked], *, is_repository: bool, namespaces: bool) -> None:
        self._models = models
        self._is_repository = is_repository
        self._namespaces = namespaces
        self._by_name: dict[str, list[Checked]] = {}
        for model in models:
            self._by_name.setdefault(model.path.name, []).append(model)
        self._bound: dict[pathlib.Path, ModelConfig] = {}
        self._failed: dict[pathlib.Path, list[Problem]] = {}
        self._path: list[pathlib.Path] = []

    def run(self) -> list[Checked]:
        return [self._checked(model) for model in self._models]

    def _checked(self, model: Checked) -> Checked:
        config = model.resolution.config
        if config is None or config.ensemble is None or model.problems:
            return model
        if not self._is_repository:
            note = "the models of its steps are not checked with it: check the model repository"
            return dataclasses.replace(model, notes=(*model.notes, note))
        self._resolve(model)
        return dataclasses.replace(model, problems=tuple(self._failed.get(model.path, ())))

    def _of_step(self, name: str, ensemble: Checked) -> Checked | None:
        """The model of a step: with namespaces that of the ensemble's own repository, else of the only one that has it (row 7.37)."""
        found = self._by_name.get(name, [])
        if self._namespaces and len(found) > 1:
            found = [each for each in found if each.path.parent == ensemble.path.parent]
        return found[0] if len(found) == 1 else None

    def _resolve(self, model: Checked) -> None:
        """Find the config that a model has once it is loaded, or why it is not."""
        path, config = model.path, model.resolution.config
        if path in self._bound or path in self._failed:
            return
        if model.problems or config is None:
            self._failed[path] = list(model.problems)
        elif config.ensemble is None:
            self._bound[path] = config
        else:
            self._path.append(path)
            self._bind(model, config)
            self._path.pop()

    def _bind(self, model: Checked, config: ModelConfig) -> None:
        assert config.ensemble is not None, "it is an ensemble"
        name, steps = config.name, config.ensemble.models
        found = {step: self._of_step(step, model) for step in steps}
        missing = sorted(step for step, of_step in found.items() if of_step is None)
        if missing:
            self._fail(model, [composing.not_available(name, missing)])
            return
        loaded: dict[str, collections.abc.Mapping[int, ModelConfig]] = {}
        for step, of_step in found.items():
            assert of_step is not None, "none is missing"
            if of_step.path in self._path:
                cycle = [each.name for each in self._path[self._path.index(of_step.path) :]]
                self._fail(model, [composing.circular(cycle, name, step)])
                return
            self._resolve(of_step)
            if model.path in self._failed:
                return
            if of_step.path in self._failed:
                reason = "; ".join(map(one_line, self._failed[of_step.path]))
                self._fail(model, [composing.not_loaded(name, step, reason)])
                return
            versions = of_step.resolution.versions
            loaded[step] = dict.fromkeys(versions, self._bound[of_step.path])
        bound, wrong = composing.bound(config, loaded)
        if not wrong:
            self._bound[model.path] = bound
            return
        document = model.resolution.document
        self._failed[model.path] = [document.problem(each.path, each.text) for each in wrong]

    def _fail(self, model: Checked, texts: collections.abc.Iterable[str]) -> None:
        document = model.resolution.document
        path = ("ensemble_scheduling",)
        self._failed[model.path] = [document.problem(path, text) for text in texts]
