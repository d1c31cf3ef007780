"""The ModelsLoaded condition and the list of models, from the response of a pod's /status."""

import typing

from naiad_operator.api.service import InferenceService
from naiad_operator.status.conditions import MODELS_LOADED, Condition, shortened
from naiad_operator.status.observed import ModelState, Observed

_READY = "READY"
_LOADING = "LOADING"
_MOST_LISTED = 64
_MOST_NAMED = 3


def loaded(service: InferenceService, observed: Observed) -> Condition:
    """The condition that says whether every model that should serve does."""
    if observed.models is None:
        return Condition(MODELS_LOADED, "Unknown", "NotAsked", "no pod has reported its models yet")
    if not observed.models:
        return Condition(MODELS_LOADED, "False", "RepositoryEmpty", _EMPTY)
    failed = [model for model in observed.models if model.state not in (_READY, _LOADING)]
    named = [model for model in failed if model.reason]
    if named:
        message = "; ".join(f"{_who(model)}: {model.reason}" for model in named[:_MOST_NAMED])
        more = f"; and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        return Condition(MODELS_LOADED, "False", "ModelFailed", message + more)
    loading = [model for model in observed.models if model.state == _LOADING]
    if loading:
        message = ", ".join(_who(model) for model in loading[:_MOST_NAMED])
        return Condition(MODELS_LOADED, "False", "Loading", f"loading {message}")
    # A model that is not ready and has no reason was never requested: explicit control, or an older version.
    ready = len(observed.models) - len(failed)
    if ready == 0 and service.spec.predictor.model.load.mode != "explicit":
        return Condition(MODELS_LOADED, "False", "NoModelReady", "no model is ready")
    return Condition(MODELS_LOADED, "True", "Loaded", f"{ready} models are ready")


_EMPTY = "the repository holds no model: storageUri names the folder that holds one folder per model, not a model's own folder"


def _who(model: ModelState) -> str:
    return f"model {model.name} version {model.version}" if model.version else f"model {model.name}"


def entries(observed: Observed) -> list[dict[str, typing.Any]]:
    """The models for the status: those that are not ready first, because the list is limited."""
    ordered = sorted(
        observed.models or (), key=lambda m: (m.state == _READY, m.name, len(m.version), m.version)
    )
    return [
        {"name": m.name, "version": m.version, "state": m.state, "reason": shortened(m.reason)}
        for m in ordered[:_MOST_LISTED]
    ]


def count(observed: Observed) -> str:
    """The numbers of ready and known models, e.g. "2/3"."""
    known = observed.models or ()
    return f"{sum(model.state == _READY for model in known)}/{len(known)}"
