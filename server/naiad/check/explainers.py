"""Checks that the models which configs name as explainers are there and can explain, in the words of the `:explain` that would fail. Pure.

The server loads and serves a model whose explainer is missing: a client may load it later. In a repository it never is.
"""

import collections.abc
import dataclasses
import difflib

from naiad.check.checked_model import Checked
from naiad.config.explainer import EXPLAINER, FIELD, decoupled, explainer_of, of_model
from naiad.config.problem import Problem
from naiad.repository.errors import unknown_model

_MOST_NAMES = 8


def check_explainers(models: list[Checked], *, is_repository: bool) -> list[Checked]:
    """The models that were checked, and what is wrong with the explainers that they name.

    Args:
        models: of all repositories.
        is_repository: whether these are all models; otherwise a note says that explainers are not checked.
    """
    by_name = {model.path.name: model for model in models}
    return [_checked(model, by_name, is_repository=is_repository) for model in models]


def _checked(
    model: Checked, by_name: collections.abc.Mapping[str, Checked], *, is_repository: bool
) -> Checked:
    document, config = model.resolution.document, model.resolution.draft
    if config is None or EXPLAINER not in config.parameters:
        return model
    name = explainer_of(config)
    if not is_repository and name not in by_name:
        note = f"its explainer '{name}' is not checked with it: check the model repository"
        return dataclasses.replace(model, notes=(*model.notes, note))
    found = _problem(model, name, by_name)
    if found is None:
        return model
    text, suggestion = found
    problem: Problem = document.problem(FIELD, text, suggestion)
    return dataclasses.replace(model, problems=(*model.problems, problem))


def _problem(
    model: Checked, name: str, by_name: collections.abc.Mapping[str, Checked]
) -> tuple[str, str] | None:
    own = model.path.name
    others = sorted(other for other in by_name if other != own)
    if not name:
        return (
            f"'{EXPLAINER}' names no model",
            f"write the name of the model that explains '{own}', or leave the parameter out",
        )
    explainer = by_name.get(name)
    if explainer is None:
        near = difflib.get_close_matches(name, others, n=1)
        listed = ", ".join(others[:_MOST_NAMES]) + (", …" if len(others) > _MOST_NAMES else "")
        return (
            of_model(own, unknown_model(name)),
            f"did you mean '{near[0]}'?"
            if near
            else f"add the model '{name}' to the repository, or name one that it has{f' ({listed})' if listed else ''}, or leave the parameter out",
        )
    config = explainer.resolution.draft
    if config is not None and config.decoupled:
        return (
            of_model(own, decoupled(name)),
            "name a model with one response to a request",
        )
    return None
