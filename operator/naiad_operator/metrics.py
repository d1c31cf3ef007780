"""The operator's metrics in the Prometheus text format.

Written without prometheus-client: a few metric families in one thread do not need a library of 3 MB.
"""

import collections
import collections.abc
import dataclasses

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
        watch_restarts: failed watches by resource.
        unwatched: kinds that cannot be listed or watched, by resource: in how many namespaces.
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
    model_polls: collections.abc.Mapping[str, int] = dataclasses.field(default_factory=dict)


def page(metrics: Metrics, gauges: Gauges) -> str:
    """The metrics page."""
    lines: list[str] = []
    _family(lines, "reconciles_total", "counter", "Reconciles, by result.")
    _series(lines, "reconciles_total", "result", metrics.reconciles)
    _family(lines, "reconcile_errors_total", "counter", "Reconciles that failed, by error.")
    _series(lines, "reconcile_errors_total", "error", metrics.errors)
    _family(lines, "reconcile_seconds", "histogram", "How long a reconcile took.")
    total = 0
    for limit, count in zip((*_BUCKETS, None), metrics.seconds, strict=True):
        total += count
        bound = "+Inf" if limit is None else f"{limit:g}"
        lines.append(f'naiad_operator_reconcile_seconds_bucket{{le="{bound}"}} {total}')
    lines.append(f"naiad_operator_reconcile_seconds_sum {metrics.seconds_sum:.6f}")
    lines.append(f"naiad_operator_reconcile_seconds_count {total}")
    for name, text, value in (
        ("queue_depth", "Services that are due and wait for a worker.", gauges.queue_depth),
        ("queue_oldest_seconds", "How long the first of them has waited.", gauges.queue_oldest),
        ("queue_failing", "Services whose last reconcile failed.", gauges.queue_failing),
        ("objects", "Children and pods that are kept in memory.", gauges.children),
        ("leader", "Whether this process is the one that writes.", int(gauges.leader)),
    ):
        _family(lines, name, "gauge", text)
        lines.append(f"naiad_operator_{name} {value:g}")
    _family(lines, "services", "gauge", "Services, by the reason of their Ready condition.")
    states = {reason: n for (type_, _, reason), n in gauges.conditions.items() if type_ == "Ready"}
    _series(lines, "services", "state", states)
    _family(lines, "conditions", "gauge", "Services, by each of their conditions.")
    for (type_, status, reason), count in sorted(gauges.conditions.items()):
        labels = f'condition="{type_}",status="{status}",reason="{reason}"'
        lines.append(f"naiad_operator_conditions{{{labels}}} {count}")
    _family(
        lines, "upgrades", "gauge", "Services that an upgrade of the operator concerns, by state."
    )
    _series(lines, "upgrades", "state", gauges.upgrades)
    _family(lines, "watch_restarts_total", "counter", "Watches that broke, by resource.")
    _series(lines, "watch_restarts_total", "resource", gauges.watch_restarts)
    _family(lines, "model_polls_total", "counter", "Requests to pods for their models, by result.")
    _series(lines, "model_polls_total", "result", gauges.model_polls)
    _family(lines, "unwatched", "gauge", "Kinds that cannot be listed or watched, by resource.")
    _series(lines, "unwatched", "resource", gauges.unwatched)
    return "\n".join(lines) + "\n"


def _family(lines: list[str], name: str, kind: str, text: str) -> None:
    lines += [f"# HELP naiad_operator_{name} {text}", f"# TYPE naiad_operator_{name} {kind}"]


def _series(
    lines: list[str], name: str, label: str, values: collections.abc.Mapping[str, int]
) -> None:
    for value, count in sorted(values.items()):
        # Reasons and resource names hold no quote, backslash or line break.
        lines.append(f'naiad_operator_{name}{{{label}="{value}"}} {count}')
