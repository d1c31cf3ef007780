"""What the operator says about itself, as a Prometheus page.

Written by hand: a handful of families, counted by one thread, do not need a library of 3 MB.
"""

import collections
import collections.abc
import dataclasses

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclasses.dataclass(slots=True)
class Metrics:
    """Counters that grow as things happen.

    Attributes:
        reconciles: by result: "ok", "gone", "refused" (by the API server, for one child), "retry", "bug".
        errors: failed reconciles by what failed: the API error's name.
        seconds: how many reconciles took at most so long, by bucket.
    """

    reconciles: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    errors: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    seconds: list[int] = dataclasses.field(default_factory=lambda: [0] * (len(_BUCKETS) + 1))
    seconds_sum: float = 0.0

    def took(self, seconds: float, result: str) -> None:
        """A reconcile has ended."""
        self.reconciles[result] += 1
        self.seconds_sum += seconds
        place = next((i for i, most in enumerate(_BUCKETS) if seconds <= most), len(_BUCKETS))
        self.seconds[place] += 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """What is so at this moment.

    Attributes:
        queue_depth: services that are due and wait for a worker.
        queue_oldest: seconds that the first of them has waited.
        queue_failing: services whose last reconcile failed.
        states: how many services have this reason at their Ready condition.
        children: objects kept.
        watch_restarts: by resource.
        leader: whether this process is the one that writes.
    """

    queue_depth: int
    queue_oldest: float
    queue_failing: int
    states: collections.abc.Mapping[str, int]
    children: int
    watch_restarts: collections.abc.Mapping[str, int]
    leader: bool


def page(metrics: Metrics, levels: Levels) -> str:
    """The page."""
    lines: list[str] = []
    _family(lines, "reconciles_total", "counter", "Reconciles, by result.")
    _series(lines, "reconciles_total", "result", metrics.reconciles)
    _family(lines, "reconcile_errors_total", "counter", "Reconciles that failed, by error.")
    _series(lines, "reconcile_errors_total", "error", metrics.errors)
    _family(lines, "reconcile_seconds", "histogram", "How long a reconcile took.")
    total = 0
    for most, count in zip((*_BUCKETS, None), metrics.seconds, strict=True):
        total += count
        bound = "+Inf" if most is None else f"{most:g}"
        lines.append(f'naiad_operator_reconcile_seconds_bucket{{le="{bound}"}} {total}')
    lines.append(f"naiad_operator_reconcile_seconds_sum {metrics.seconds_sum:.6f}")
    lines.append(f"naiad_operator_reconcile_seconds_count {total}")
    for name, text, value in (
        ("queue_depth", "Services that are due and wait for a worker.", levels.queue_depth),
        ("queue_oldest_seconds", "How long the first of them has waited.", levels.queue_oldest),
        ("queue_failing", "Services whose last reconcile failed.", levels.queue_failing),
        ("objects", "Children and pods that are kept in memory.", levels.children),
        ("leader", "Whether this process is the one that writes.", int(levels.leader)),
    ):
        _family(lines, name, "gauge", text)
        lines.append(f"naiad_operator_{name} {value:g}")
    _family(lines, "services", "gauge", "Services, by the reason of their Ready condition.")
    _series(lines, "services", "state", levels.states)
    _family(lines, "watch_restarts_total", "counter", "Watches that broke, by resource.")
    _series(lines, "watch_restarts_total", "resource", levels.watch_restarts)
    return "\n".join(lines) + "\n"


def _family(lines: list[str], name: str, kind: str, text: str) -> None:
    lines += [f"# HELP naiad_operator_{name} {text}", f"# TYPE naiad_operator_{name} {kind}"]


def _series(
    lines: list[str], name: str, label: str, values: collections.abc.Mapping[str, int]
) -> None:
    for value, count in sorted(values.items()):
        # Reasons and resource names hold no quote, backslash or line break.
        lines.append(f'naiad_operator_{name}{{{label}="{value}"}} {count}')
