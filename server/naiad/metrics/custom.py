"""Metrics that models create themselves (rows 8.34, 15.26), shown on the metrics page after the server's own.

The threads of models and the metrics page call it, so a lock guards it. A family exists while it has a holder. Each holder has a handle of its
own for the family, and one for each series of it, even if it creates the metric of that series again for each request. Metrics with the same
labels are one series, which is removed with its last holder. Errors are ValueErrors with Triton's messages.
"""

import collections.abc
import itertools
import math
import re
import threading
import typing

import msgspec

from naiad.metrics import families as server_families
from naiad.metrics.exposition import Labels, Sample, Series, histogram
from naiad.metrics.families import Family, Type
from naiad.metrics.histogram import Histogram

_NAME = re.compile("[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile("(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_GONE = (
    "Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The 'MetricFamily' object should be "
    "deleted AFTER its corresponding 'Metric' objects have been deleted."
)


class _Series(msgspec.Struct, eq=False):
    """One series: a number, or a histogram."""

    buckets: Histogram | None
    value: float = 0.0
    holders: int = 0


class _HeldFamily(msgspec.Struct, eq=False):
    """A family with its series."""

    family: Family
    series: dict[Labels, _Series] = {}
    holders: int = 0


class CustomMetrics:
    """The metrics of all models of one server."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # the garbage collector may close a family at any moment
        self._handles = itertools.count(1)
        self._by_name: dict[str, _HeldFamily] = {}
        self._families: dict[int, tuple[_HeldFamily, dict[Labels, int]]] = {}
        self._metrics: dict[int, tuple[_HeldFamily, Labels]] = {}
        self._own = frozenset(
            family.name for family in vars(server_families).values() if isinstance(family, Family)
        )

    def open_family(self, name: str, description: str, kind: str) -> int:
        """Hold a family; returns a handle for it.

        Raises:
            ValueError: the name is not valid, is one of the server's own, or has another kind; the description is not valid text.
        """
        _require_text("description", description)
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"'{name}' is not a valid metric name: a name has letters, digits, '_' and ':', and does not begin with a digit"
            )
        with self._lock:
            shown = self._by_name.get(name)
            if shown is None:
                if name in self._own:
                    raise ValueError(
                        f"metric family '{name}' is one of the server's own: choose another name"
                    )
                help_text = description.replace("\\", r"\\").replace("\n", r"\n")
                family = Family(name, help_text, typing.cast("Type", kind))
                shown = self._by_name[name] = _HeldFamily(family)
            elif shown.family.type != kind:
                raise ValueError(
                    f"Family name already exists with different type: '{name}' is a {shown.family.type}, not a {kind}"
                )
            shown.holders += 1
            handle = next(self._handles)
            self._families[handle] = (shown, {})
            return handle

    def close_family(self, handle: int) -> None:
        """Release a family and the metrics that were created with this handle. Idempotent."""
        with self._lock:
            shown, metrics = self._families.pop(handle, (None, {}))
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
                del self._by_name[shown.family.name]

    def open_metric(
        self,
        family: int,
        labels: collections.abc.Mapping[str, str],
        buckets: collections.abc.Sequence[float] | None,
    ) -> int:
        """Hold a metric of a family; returns a handle for it, the same one for the same labels.

        Raises:
            ValueError: a label is not text, or the bucket bounds do not ascend; a last one of infinity is dropped, since it always exists.
        """
        for name, value in labels.items():
            if not (type(name) is type(value) is str):
                raise ValueError(
                    f"metric labels are text: {name!r} is {value!r}; write str(...) around it"
                )
            _require_text(f"label '{name}'", value)
            if buckets is not None and name == "le":
                raise ValueError("'le' is the label of a histogram's buckets: choose another name")
            if not _LABEL.fullmatch(name):
                raise ValueError(
                    f"'{name}' is not a valid label name: a name has letters, digits and '_', and does not begin with a digit or '__'"
                )
        if buckets and buckets[-1] == math.inf:
            buckets = buckets[:-1]  # every histogram has that bucket
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
                series = shown.series[key] = _Series(
                    None if buckets is None else Histogram(buckets)
                )
            series.holders += 1
            handle = next(self._handles)
            self._metrics[handle] = (shown, key)
            metrics[key] = handle
            return handle

    def change(self, metric: int, operation: str, value: float) -> None:
        """Increment, set or observe.

        Raises:
            ValueError: the metric's kind does not support it, a counter would decrease, or the family was released.
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
        """The value of a counter or a gauge.

        Raises:
            ValueError: it is a histogram, or its family was released.
        """
        with self._lock:
            kind, series = self._find(metric)
            if series.buckets is not None:
                raise ValueError(f"TRITONSERVER_METRIC_KIND_{kind.upper()} does not support Value")
            return series.value

    def series(self) -> list[Series]:
        """The series for the metrics page, sorted by name. Each sample has its value at the time when it is read."""
        with self._lock:
            return [
                Series(shown.family, self._samples(shown))
                for _, shown in sorted(self._by_name.items())
            ]

    def _samples(self, shown: _HeldFamily) -> collections.abc.Iterator[Sample]:
        with self._lock:
            held = list(shown.series.items())
        for labels, series in held:
            if series.buckets is None:
                yield Sample(labels, series.value)
            else:
                with self._lock:
                    samples = histogram(labels, series.buckets)
                yield from samples

    def _find(self, metric: int) -> tuple[Type, _Series]:
        held = self._metrics.get(metric)
        if held is None:
            raise ValueError(_GONE)
        shown, labels = held
        return shown.family.type, shown.series[labels]


def _ascend(bounds: collections.abc.Sequence[float]) -> bool:
    """Whether bounds ascend strictly, without NaN and infinity."""
    return all(map(math.isfinite, bounds)) and all(
        low < high for low, high in itertools.pairwise(bounds)
    )


def _require_text(what: str, text: str) -> None:
    """Refuse text that UTF-8 cannot encode: one such metric would make the whole page fail."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"{what} is not valid text: {text!r} holds half of a surrogate pair"
            ) from None
