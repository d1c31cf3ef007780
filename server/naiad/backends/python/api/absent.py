"""Parts of the API that models may name and that this server does not have yet: each says so when it is used."""

import enum
from typing import Any

from naiad.backends.python.api.errors import not_there_yet


class MetricKind(enum.Enum):
    """Kinds of custom metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricFamily:
    """Custom metrics."""

    COUNTER = MetricKind.COUNTER
    GAUGE = MetricKind.GAUGE
    HISTOGRAM = MetricKind.HISTOGRAM

    def __init__(self, name: str, description: str, kind: MetricKind) -> None:
        raise not_there_yet(f"A metric of a model's own (MetricFamily '{name}')")


def load_model(model_name: str, config: str = "", files: Any = None) -> None:
    """Load another model."""
    raise not_there_yet(f"Loading a model from a model (load_model '{model_name}')")


def unload_model(model_name: str, unload_dependents: bool = False) -> None:  # noqa: FBT001, FBT002 - as models call it
    """Unload another model."""
    raise not_there_yet(f"Unloading a model from a model (unload_model '{model_name}')")


def is_model_ready(model_name: str, model_version: str = "") -> bool:
    """Whether another model is ready."""
    raise not_there_yet(f"Asking about another model (is_model_ready '{model_name}')")
