"""Metrics of a model's own, on the server's metrics page while the model holds them (rows 8.34, 15.26)."""

import enum
import os
import weakref
from typing import Any

from naiad.backends.python.api import context
from naiad.backends.python.api.errors import TritonModelException
from naiad.backends.python.api.forked import here
from naiad.backends.python.api.server import NO_SERVER


class MetricKind(enum.Enum):
    """Kinds of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric:
    """One series of a family, and as long there as the family; made by `MetricFamily.Metric`."""

    __slots__ = ("_number", "_server")

    def __init__(self, server: Any, number: int) -> None:
        self._server = server
        self._number = number

    def increment(self, value: float) -> None:
        """Add to a counter or a gauge; to a counter nothing negative."""
        self._change("increment", "increment metric value", value)

    def set(self, value: float) -> None:
        """Set a gauge."""
        self._change("set", "set metric value", value)

    def observe(self, value: float) -> None:
        """Count an observation of a histogram."""
        self._change("observe", "observe metric value", value)

    def value(self) -> float:
        """The value of a counter or a gauge."""
        try:
            return float(here(self._server).metric_value(self._number))
        except TritonModelException as error:
            raise TritonModelException(f"Failed to get metric value: {error}") from None

    def _change(self, operation: str, what: str, value: float) -> None:
        try:
            here(self._server).change_metric(self._number, operation, float(value))
        except TritonModelException as error:
            raise TritonModelException(f"Failed to {what}: {error}") from None


class MetricFamily:
    """A family of metrics. Families of the same name and kind are one, whichever model made them.

    It and its metrics leave the page with the last reference to it; using its metrics then raises.

    Args:
        name: as on the metrics page.
        description: its help text.
        kind: one of the class's own constants.

    Raises:
        TritonModelException: the name is taken by another kind or by the server itself.
        TypeError: a name or a description that is not a str, or another kind.
    """

    COUNTER = MetricKind.COUNTER
    GAUGE = MetricKind.GAUGE
    HISTOGRAM = MetricKind.HISTOGRAM

    __slots__ = ("__weakref__", "_close", "_kind", "_number", "_server")

    def __init__(self, name: str, description: str, kind: MetricKind) -> None:
        if not isinstance(kind, MetricKind):
            raise TypeError(
                f"MetricFamily(name, description, kind): kind must be MetricFamily.COUNTER, GAUGE or HISTOGRAM, not {kind!r}"
            )
        for what, text in (("name", name), ("description", description)):
            if not isinstance(text, str):
                raise TypeError(
                    f"MetricFamily(name, description, kind): {what} is a str, not {type(text).__name__}"
                )
        running = context.running()
        self._server = NO_SERVER if running is None else running.server
        self._kind = kind
        try:
            self._number = here(self._server).open_family(name, description, kind.value)
        except TritonModelException as error:
            raise TritonModelException(f"Error when creating MetricFamily: {error}") from None
        self._close = weakref.finalize(self, _close, self._server, self._number, os.getpid())
        self._close.atexit = False

    def Metric(  # noqa: N802 - models call it so
        self, labels: "dict[str, str] | None" = None, buckets: "list[float] | None" = None
    ) -> Metric:
        """A metric of this family; one of the same labels is the same series.

        Args:
            labels: by name.
            buckets: upper bounds of a histogram, ascending.

        Raises:
            TritonModelException: labels or buckets that do not fit.
        """
        if labels is not None and not isinstance(labels, dict):
            raise TritonModelException("Failed to create metric. Labels must be a dictionary.")
        bounds: list[float] | None = None
        if buckets is not None:
            if not isinstance(buckets, list):
                raise TritonModelException("Failed to create metric. Buckets must be a list.")
            if self._kind is not MetricKind.HISTOGRAM:
                raise TritonModelException("Failed to create metric. Unexpected buckets found.")
            bounds = [_bound(bucket) for bucket in buckets]
        elif self._kind is MetricKind.HISTOGRAM:
            raise TritonModelException("Failed to create metric. Missing required buckets.")
        try:
            number = here(self._server).open_metric(self._number, labels or {}, bounds)
        except TritonModelException as error:
            raise TritonModelException(f"Error when creating Metric: {error}") from None
        return Metric(self._server, number)


def _close(server: Any, family: int, process: int) -> None:
    """The last reference to a family is gone; what a forked process drops its parent may still hold."""
    if process == os.getpid():
        here(server).close_family(family)


def _bound(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TritonModelException(
            f"Failed to create metric. Buckets must be numbers, not {value!r}."
        ) from None
