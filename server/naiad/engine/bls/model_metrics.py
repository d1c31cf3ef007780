"""The metrics that models in this process keep (row 15.26): that part of `api.server.Server`, for a server and for a test without one."""

import collections.abc
import typing
from typing import Any

from naiad.backends.python.api.errors import TritonModelException
from naiad.metrics.custom import CustomMetrics

Result = typing.TypeVar("Result")


class ModelMetrics:
    """Implements the metrics of `api.server.Server`; who implements the rest inherits it.

    Args:
        metrics: keeps them.
    """

    def __init__(self, metrics: CustomMetrics) -> None:
        self._metrics = metrics

    def open_family(self, name: str, description: str, kind: str) -> int:
        """See `Server`."""
        return _translated(self._metrics.open_family, name, description, kind)

    def close_family(self, family: int) -> None:
        """See `Server`."""
        self._metrics.close_family(family)

    def open_metric(self, family: int, labels: dict[str, str], buckets: list[float] | None) -> int:
        """See `Server`."""
        return _translated(self._metrics.open_metric, family, labels, buckets)

    def change_metric(self, metric: int, operation: str, value: float) -> None:
        """See `Server`."""
        _translated(self._metrics.change, metric, operation, value)

    def metric_value(self, metric: int) -> float:
        """See `Server`."""
        return _translated(self._metrics.value, metric)


def _translated(call: collections.abc.Callable[..., Result], *arguments: Any) -> Result:
    """What metrics refuse, as a model hears it."""
    try:
        return call(*arguments)
    except ValueError as error:
        raise TritonModelException(str(error)) from None
