"""Checks ensembles against the models of their steps, as a load does after it has loaded these (rows 7.27, 14.2 to 14.5). Pure.

The words are those of `repository/loading/ensembles.py`.
"""

import collections.abc
import dataclasses

from naiad.check.checked_model import Checked
from naiad.config import composing
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem
from naiad.config.report import one_line


def check_ensembles(models: list[Checked], *, is_repository: bool) -> list[Checked]:
    """The models that were checked, and what is wrong with ensembles among them.

    Args:
        models: of all repositories.
        is_repository: whether these are all models; otherwise a note says that steps are not checked.
    """
    return _Ensembles(models, is_repository=is_repository).run()


class _Ensembles:
    def __init__(self, models: list[Checked], *, is_repository: bool) -> None:
        self._models = models
        self._is_repository = is_repository
        self._by_name: dict[str, list[Checked]] = {}
        for model in models:
            self._by_name.setdefault(model.path.name, []).append(model)
        self._bound: dict[str, ModelConfig] = {}
        self._failed: dict[str, list[Problem]] = {}
        self._path: list[str] = []

    def run(self) -> list[Checked]:
        return [self._checked(model) for model in self._models]

    def _checked(self, model: Checked) -> Checked:
        config = model.resolution.config
        if config is None or config.ensemble is None or model.problems:
            return model
        if not self._is_repository:
            note = "the models of its steps are not checked with it: check the model repository"
            return dataclasses.replace(model, notes=(*model.notes, note))
        self._resolve(config.name)
        return dataclasses.replace(model, problems=tuple(self._failed.get(config.name, ())))

    def _resolve(self, name: str) -> None:
        """Find the config that a model has once it is loaded, or why it is not."""
        if name in self._bound or name in self._failed:
            return
        (model,) = self._by_name[name]
        config = model.resolution.config
        if model.problems or config is None:
            self._failed[name] = list(model.problems)
        elif config.ensemble is None:
            self._bound[name] = config
        else:
            self._path.append(name)
            self._bind(model, config)
            self._path.pop()

    def _bind(self, model: Checked, config: ModelConfig) -> None:
        assert config.ensemble is not None, "it is an ensemble"
        name, steps = config.name, config.ensemble.models
        missing = sorted(step for step in steps if len(self._by_name.get(step, ())) != 1)
        if missing:
            self._fail(model, [composing.not_available(name, missing)])
            return
        for step in steps:
            if step in self._path:
                cycle = self._path[self._path.index(step) :]
                self._fail(model, [composing.circular(cycle, name, step)])
                return
            self._resolve(step)
            if name in self._failed:
                return
            if step in self._failed:
                reason = "; ".join(map(one_line, self._failed[step]))
                self._fail(model, [composing.not_loaded(name, step, reason)])
                return
        loaded = {step: self._versions(step) for step in steps}
        bound, wrong = composing.bound(config, loaded)
        if not wrong:
            self._bound[name] = bound
            return
        document = model.resolution.document
        self._failed[name] = [document.problem(each.path, each.text) for each in wrong]

    def _versions(self, step: str) -> collections.abc.Mapping[int, ModelConfig]:
        (model,) = self._by_name[step]
        return dict.fromkeys(model.resolution.versions, self._bound[step])

    def _fail(self, model: Checked, texts: collections.abc.Iterable[str]) -> None:
        document = model.resolution.document
        path = ("ensemble_scheduling",)
        self._failed[model.path.name] = [document.problem(path, text) for text in texts]
