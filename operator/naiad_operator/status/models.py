"""The ModelsLoaded condition and the list of models, from a pod's response to /status."""

import collections.abc
import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.status.conditions import MODELS_LOADED, Condition, shortened
from naiad_operator.status.observed import ModelState, Observed

_FIELDS = ("models", "modelCount")
_MOST_LISTED = 64
_MOST_NAMED = 3
_EVICTED = "evicted"
"""The server's reason of a version that made room for another one, and is loaded again when a request needs it."""
_UNLOADED_REASONS = frozenset(("", "unloaded", _EVICTED))
"""The reasons of versions that are UNAVAILABLE on purpose: never loaded, retired by a newer version, unloaded by a client, or evicted."""


def loaded(
    service: InferenceService, observed: Observed, newest: collections.abc.Container[str]
) -> Condition:
    """The condition that says whether every model that should serve does.

    Args:
        service: the resource.
        observed: with the report of one pod.
        newest: the names of the pods of the newest template.
    """
    report = observed.models
    if report.models is None:
        message = report.problem or "no pod reports its models"
        reason: typing.Literal["Pending", "NoPodReachable"] = (
            "Pending" if report.is_starting else "NoPodReachable"
        )
        return Condition(MODELS_LOADED, "Unknown", reason, message)
    load = service.spec.predictor.model.load
    loads_all = load.mode != "explicit" or "*" in (load.models or ())
    if not report.models and loads_all:
        return Condition(MODELS_LOADED, "False", "RepositoryEmpty", _EMPTY)
    failed = [model for model in report.models if has_failed(model)]
    if failed:
        message = _listed([f"{_who(model)}: {model.reason}" for model in failed], "; ")
        return Condition(MODELS_LOADED, "False", "ModelFailed", message)
    loading = [model for model in report.models if is_loading(model)]
    if loading:
        message = _listed([_who(model) for model in loading], ", ")
        return Condition(MODELS_LOADED, "False", "Loading", f"loading {message}")
    names = {model.name for model in report.models}
    missing = [name for name in load.models or () if name not in names and not loads_all]
    # A pod of the old template was started with other names.
    if missing and report.pod in newest:
        message = f"{_listed([f'model {name}' for name in missing], ', ')}: not in the repository, although predictor.model.load.models names it"
        return Condition(MODELS_LOADED, "False", "ModelNotFound", message)
    return _none_missing(report.models, loads_all=loads_all)


def _none_missing(models: collections.abc.Sequence[ModelState], *, loads_all: bool) -> Condition:
    ready = sum(model.state == "READY" for model in models)
    evicted = sum(model.reason == _EVICTED for model in models)
    if ready + evicted == 0 and loads_all:
        return Condition(MODELS_LOADED, "False", "NoModelReady", "no model is ready")
    message = "1 model is ready" if ready == 1 else f"{ready} models are ready"
    if evicted:
        message += f", {evicted} made room for them (--model-memory-limit)"
    if not ready:
        message = "no model is loaded: " + (
            "each made room for another (--model-memory-limit), and is loaded again by its next request"
            if evicted
            else "load.mode is explicit, so clients load them"
        )
    return Condition(MODELS_LOADED, "True", "Loaded", message)


_EMPTY = "the repository holds no model: storageUri names the folder that holds one folder per model, not a model's own folder"


def has_failed(model: ModelState) -> bool:
    """Whether a version could not be loaded, or its config cannot be used."""
    return model.state == "UNAVAILABLE" and model.reason not in _UNLOADED_REASONS


def is_loading(model: ModelState) -> bool:
    """Whether a version is being loaded for the first time; an evicted one comes and goes with its requests."""
    return model.state == "LOADING" and model.reason != _EVICTED


def is_settled(model: ModelState) -> bool:
    """Whether the state of a version stays until something happens: a request, an edit, a change of the repository."""
    return model.state in ("READY", "UNAVAILABLE") or model.reason == _EVICTED


def _who(model: ModelState) -> str:
    return f"model {model.name} version {model.version}" if model.version else f"model {model.name}"


def _listed(items: collections.abc.Sequence[str], separator: str) -> str:
    more = f"{separator}and {len(items) - _MOST_NAMED} more" if len(items) > _MOST_NAMED else ""
    return separator.join(items[:_MOST_NAMED]) + more


def listed(
    observed: Observed, before: collections.abc.Mapping[str, typing.Any]
) -> dict[str, typing.Any]:
    """The fields of the status with the models and their number; none when no pod reports them.

    Args:
        observed: with the report of one pod.
        before: the part of the present status in which they are.
    """
    report = observed.models
    if report.is_awaited:
        return {field: before[field] for field in _FIELDS if field in before}
    if report.models is None:
        return {}
    return dict(zip(_FIELDS, (_entries(report.models), _count(report.models)), strict=True))


def _entries(models: collections.abc.Iterable[ModelState]) -> list[dict[str, typing.Any]]:
    """Failed ones first and unloaded ones last, because the list is limited."""
    ordered = sorted(
        models,
        key=lambda model: (_rank(model), model.name, len(model.version), model.version),
    )
    return [
        {"name": m.name, "version": m.version, "state": m.state, "reason": shortened(m.reason)}
        for m in ordered[:_MOST_LISTED]
    ]


def _rank(model: ModelState) -> int:
    if has_failed(model):
        return 0
    if is_loading(model):
        return 1
    return 2 if model.state == "READY" else 3


def _count(models: collections.abc.Iterable[ModelState]) -> str:
    """The number of ready models, and of those that should be ready, e.g. "2/3"."""
    ranks = [_rank(model) for model in models]
    return f"{ranks.count(2)}/{len(ranks) - ranks.count(3)}"
