"""The operator's metrics in the Prometheus text format.

The page is made from the state that the operator keeps anyway, by a collector of prometheus-client: its own counters would hold
the same numbers a second time, and would add a `_created` series to each.
"""

import collections
import collections.abc
import dataclasses
import itertools

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from typing_extensions import override

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclasses.dataclass(slots=True)
class Metrics:
    """The counters and the histogram.

    Attributes:
        reconciles: by result: "ok", "gone", "refused" (the API server refused a child), "retry", "bug".
        errors: failed reconciles by the name of the API error.
        seconds: the histogram of durations: reconciles per bucket, not cumulative.
    """

    reconciles: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    errors: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    seconds: list[int] = dataclasses.field(default_factory=lambda: [0] * (len(_BUCKETS) + 1))
    seconds_sum: float = 0.0

    def observe(self, seconds: float, result: str) -> None:
        """Counts a reconcile that has ended."""
        self.reconciles[result] += 1
        self.seconds_sum += seconds
        index = next((i for i, bound in enumerate(_BUCKETS) if seconds <= bound), len(_BUCKETS))
        self.seconds[index] += 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """The current values.

    Attributes:
        queue_depth: services that are due and wait for a worker.
        queue_oldest: how long the longest-waiting of them has waited, in seconds.
        queue_failing: services whose last reconcile failed.
        children: objects in the store.
        upgrades: services that wait for a new pod template or are getting it, by state.
        blocked_upgrades: namespace and name of those whose new pods do not become ready in time.
        watch_restarts: failed watches by resource.
        unwatched: kinds that cannot be listed or watched, by resource: in how many namespaces.
        unreadable: objects that could not be read, by resource.
        left_out: objects with the operator's labels that are not kept in memory, since there are too many, by namespace.
        leader: whether this process is the leader.
        model_polls: requests to pods for the states of their models, by result: "ok", "unreachable", "invalid".
        conditions: the number of services by type, status and reason of each of their conditions.
    """

    queue_depth: int
    queue_oldest: float
    queue_failing: int
    children: int
    upgrades: collections.abc.Mapping[str, int]
    watch_restarts: collections.abc.Mapping[str, int]
    unwatched: collections.abc.Mapping[str, int]
    leader: bool
    conditions: collections.abc.Mapping[tuple[str, str, str], int]
    unreadable: collections.abc.Mapping[str, int] = dataclasses.field(default_factory=dict)
    left_out: collections.abc.Mapping[str, int] = dataclasses.field(default_factory=dict)
    model_polls: collections.abc.Mapping[str, int] = dataclasses.field(default_factory=dict)
    blocked_upgrades: collections.abc.Collection[tuple[str, str]] = ()


def page(metrics: Metrics, gauges: Gauges) -> str:
    """The metrics page."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(metrics, gauges))
    return generate_latest(registry).decode()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Families(Collector):
    metrics: Metrics
    gauges: Gauges

    @override
    def collect(self) -> collections.abc.Iterator[Metric]:
        """The metric families, in the order of the page."""
        metrics, gauges = self.metrics, self.gauges
        yield _counter("reconciles", "Reconciles, by result.", "result", metrics.reconciles)
        yield _counter(
            "reconcile_errors", "Reconciles that failed, by error.", "error", metrics.errors
        )
        bounds = [*(f"{bound:g}" for bound in _BUCKETS), "+Inf"]
        yield HistogramMetricFamily(
            "naiad_operator_reconcile_seconds",
            "How long a reconcile took.",
            buckets=list(zip(bounds, itertools.accumulate(metrics.seconds), strict=True)),
            sum_value=metrics.seconds_sum,
        )
        for name, text, value in (
            ("queue_depth", "Services that are due and wait for a worker.", gauges.queue_depth),
            ("queue_oldest_seconds", "How long the first of them has waited.", gauges.queue_oldest),
            ("queue_failing", "Services whose last reconcile failed.", gauges.queue_failing),
            ("objects", "Children and pods that are kept in memory.", gauges.children),
            ("leader", "Whether this process is the one that writes.", int(gauges.leader)),
        ):
            yield GaugeMetricFamily(f"naiad_operator_{name}", text, value=value)
        states = {
            reason: n for (type_, _, reason), n in gauges.conditions.items() if type_ == "Ready"
        }
        yield _gauge(
            "services", "Services, by the reason of their Ready condition.", "state", states
        )
        conditions = GaugeMetricFamily(
            "naiad_operator_conditions",
            "Services, by each of their conditions.",
            labels=("condition", "status", "reason"),
        )
        for labels, count in sorted(gauges.conditions.items()):
            conditions.add_metric(labels, count)
        yield conditions
        yield _gauge(
            "upgrades",
            "Services that an upgrade of the operator concerns, by state.",
            "state",
            gauges.upgrades,
        )
        blocked = GaugeMetricFamily(
            "naiad_operator_upgrade_blocked",
            "Services whose pods do not become ready with a new template, by name.",
            labels=("service_namespace", "service"),
        )
        for names in sorted(gauges.blocked_upgrades):
            blocked.add_metric(names, 1)
        yield blocked
        yield _counter(
            "watch_restarts", "Watches that broke, by resource.", "resource", gauges.watch_restarts
        )
        yield _counter(
            "unreadable_objects",
            "Objects that could not be read and were left as they are, by resource.",
            "resource",
            gauges.unreadable,
        )
        yield _counter(
            "model_polls",
            "Requests to pods for their models, by result.",
            "result",
            gauges.model_polls,
        )
        yield _gauge(
            "objects_left_out",
            "Objects with the operator's labels that are too many to be kept, by namespace.",
            "object_namespace",
            gauges.left_out,
        )
        yield _gauge(
            "unwatched",
            "Kinds that cannot be listed or watched, by resource.",
            "resource",
            gauges.unwatched,
        )


_Counts = collections.abc.Mapping[str, int]


def _counter(name: str, text: str, label: str, values: _Counts) -> Metric:
    """A counter by one label; the page's name of it ends in `_total`."""
    family = CounterMetricFamily(f"naiad_operator_{name}", text, labels=(label,))
    for value, count in sorted(values.items()):
        family.add_metric((value,), count)
    return family


def _gauge(name: str, text: str, label: str, values: _Counts) -> Metric:
    family = GaugeMetricFamily(f"naiad_operator_{name}", text, labels=(label,))
    for value, count in sorted(values.items()):
        family.add_metric((value,), count)
    return family
