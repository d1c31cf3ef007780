"""Metrics that models make themselves (rows 8.34, 15.26): kept here, shown on the page behind the server's own.

Called by the threads of models and by the page, so under a lock. A family lives while anybody holds it; every holder has a number
of its own for it, and one for each series that it made metrics of, however many: a model may make its metric anew for each request.
Metrics of the same labels are one series, which goes with its last holder.
What goes wrong raises ValueError in Triton's words.
"""

import collections.abc
import itertools
import math
import re
import threading
import typing

from naiad.metrics import families as server_families
from naiad.metrics.exposition import Labels, Sample, Series, histogram
from naiad.metrics.families import Family, Type
from naiad.metrics.statistics import Histogram

_NAME = re.compile("[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile("(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_GONE = (
    "Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The 'MetricFamily' object should be "
    "deleted AFTER its corresponding 'Metric' objects have been deleted."
)


class _Series:
    """One series: a number, or a histogram."""

    __slots__ = ("buckets", "holders", "value")

    def __init__(self, buckets: collections.abc.Sequence[float] | None) -> None:
        self.value = 0.0
        self.buckets = None if buckets is None else Histogram(buckets)
        self.holders = 0


class _Shown:
    """A family on the page."""

    __slots__ = ("family", "holders", "series")

    def __init__(self, family: Family) -> None:
        self.family = family
        self.series: dict[Labels, _Series] = {}
        self.holders = 0


class CustomMetrics:
    """All of them, of one server."""

    def __init__(self) -> None:
        self._lock = (
            threading.RLock()
        )  # a family may be let go of by the garbage collector at any moment
        self._numbers = itertools.count(1)
        self._shown: dict[str, _Shown] = {}
        self._families: dict[int, tuple[_Shown, dict[Labels, int]]] = {}
        self._metrics: dict[int, tuple[_Shown, Labels]] = {}
        self._own = frozenset(
            each.name for each in vars(server_families).values() if isinstance(each, Family)
        )

    def open_family(self, name: str, description: str, kind: str) -> int:
        """Hold a family; the number stands for it.

        Raises:
            ValueError: the name is none, the server's own, or another kind's, or the description is no text.
        """
        _require_text("description", description)
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"'{name}' is no name of a metric: it has letters, digits, '_' and ':', and does not begin with a digit"
            )
        with self._lock:
            shown = self._shown.get(name)
            if shown is None:
                if name in self._own:
                    raise ValueError(
                        f"metric family '{name}' is the server's own: take another name"
                    )
                help_text = description.replace("\\", r"\\").replace("\n", r"\n")
                family = Family(name, help_text, typing.cast("Type", kind))
                shown = self._shown[name] = _Shown(family)
            elif shown.family.type != kind:
                raise ValueError(
                    f"Family name already exists with different type: '{name}' is a {shown.family.type}, not a {kind}"
                )
            shown.holders += 1
            number = next(self._numbers)
            self._families[number] = (shown, {})
            return number

    def close_family(self, number: int) -> None:
        """Let go of a family and of the metrics that were made with this number. Idempotent."""
        with self._lock:
            shown, metrics = self._families.pop(number, (None, {}))
            if shown is None:
                return
            for labels, metric in metrics.items():
                del self._metrics[metric]
                series = shown.series[labels]
                series.holders -= 1
                if not series.holders:
                    del shown.series[labels]
            shown.holders -= 1
            if not shown.holders:
                del self._shown[shown.family.name]

    def open_metric(
        self,
        family: int,
        labels: collections.abc.Mapping[str, str],
        buckets: collections.abc.Sequence[float] | None,
    ) -> int:
        """Hold a metric of a family; the number stands for it, and is the same for the same labels.

        Raises:
            ValueError: a label is no text, or buckets do not ascend; one of infinity at the end is there anyway.
        """
        for name, value in labels.items():
            if not (type(name) is type(value) is str):
                raise ValueError(
                    f"metric labels are text: {name!r} is {value!r}; write str(...) around it"
                )
            _require_text(f"label '{name}'", value)
            if buckets is not None and name == "le":
                raise ValueError("'le' is the label of a histogram's buckets: take another name")
            if not _LABEL.fullmatch(name):
                raise ValueError(
                    f"'{name}' is no name of a label: it has letters, digits and '_', and does not begin with a digit or '__'"
                )
        if buckets and buckets[-1] == math.inf:
            buckets = buckets[:-1]  # every histogram has that one
        if buckets is not None and not _ascend(buckets):
            raise ValueError(
                f"Bucket Boundaries must be strictly sorted: {list(buckets)} do not ascend"
            )
        key = tuple(sorted(labels.items()))
        with self._lock:
            held = self._families.get(family)
            if held is None:
                raise ValueError(_GONE)
            shown, metrics = held
            if key in metrics:
                return metrics[key]
            series = shown.series.get(key)
            if series is None:
                series = shown.series[key] = _Series(buckets)
            series.holders += 1
            number = next(self._numbers)
            self._metrics[number] = (shown, key)
            metrics[key] = number
            return number

    def change(self, metric: int, operation: str, value: float) -> None:
        """Increment, set or observe.

        Raises:
            ValueError: its kind does not have that, or a counter would go back, or its family is gone.
        """
        with self._lock:
            kind, series = self._find(metric)
            if operation == "observe" and series.buckets is not None:
                series.buckets.observe(value)
            elif operation == "set" and kind == "gauge":
                series.value = value
            elif operation == "increment" and kind != "histogram":
                if kind == "counter" and not value >= 0:
                    raise ValueError(
                        "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative values."
                    )
                series.value += value
            else:
                raise ValueError(
                    f"TRITONSERVER_METRIC_KIND_{kind.upper()} does not support {operation.capitalize()}"
                )

    def value(self, metric: int) -> float:
        """Its value.

        Raises:
            ValueError: a histogram has none, or its family is gone.
        """
        with self._lock:
            kind, series = self._find(metric)
            if series.buckets is not None:
                raise ValueError(f"TRITONSERVER_METRIC_KIND_{kind.upper()} does not support Value")
            return series.value

    def series(self) -> list[Series]:
        """What the page shows, sorted by name."""
        with self._lock:
            return [
                Series(shown.family, tuple(_samples(shown)))
                for _, shown in sorted(self._shown.items())
            ]

    def _find(self, metric: int) -> tuple[Type, _Series]:
        held = self._metrics.get(metric)
        if held is None:
            raise ValueError(_GONE)
        shown, labels = held
        return shown.family.type, shown.series[labels]


def _ascend(bounds: collections.abc.Sequence[float]) -> bool:
    """Strictly, and none of them is NaN or infinite."""
    return all(map(math.isfinite, bounds)) and all(
        one < other for one, other in itertools.pairwise(bounds)
    )


def _require_text(what: str, text: str) -> None:
    """One metric that cannot be written would take the page of all of them with it."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"{what} is no text: {text!r} holds half of a surrogate pair"
            ) from None


def _samples(shown: _Shown) -> collections.abc.Iterator[Sample]:
    for labels, series in shown.series.items():
        observed = series.buckets
        if observed is None:
            yield Sample(labels, series.value)
        else:
            yield from histogram(
                labels, bounds=observed.bounds, counts=observed.counts, total=observed.total
            )
