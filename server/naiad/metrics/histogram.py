"""Histograms: counts of observations by upper bounds, which a model may choose (row 8.24)."""

import bisect
import collections.abc
import types

from naiad.core.record import Record
from naiad.metrics.families import Family

Buckets = collections.abc.Mapping[str, collections.abc.Sequence[float]]
"""Upper bounds by family, in the family's unit."""
NO_BUCKETS: Buckets = types.MappingProxyType({})

DURATION_BOUNDS_NS = tuple(
    int(seconds * 1e9)
    for seconds in (
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
    )
)  # fmt: skip
BATCH_SIZE_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
FIRST_RESPONSE_BOUNDS_MS = (100, 500, 2_000, 5_000)
"""The reference's (row 8.23)."""


class Exemplar(Record, frozen=True):
    """One observation, and the trace that it belongs to.

    Attributes:
        value: in the histogram's unit.
        trace_id: 32 hexadecimal digits.
        wall_ns: when it was made, since 1970.
    """

    value: float
    trace_id: str
    wall_ns: int


class Histogram:
    """Counts of observations by ascending upper bounds, in the unit that is observed; the last bound is +Inf.

    Attributes:
        exemplars: the latest exemplar of each bucket that has one, by its number.
    """

    __slots__ = ("bounds", "counts", "exemplars", "total")

    def __init__(self, bounds: collections.abc.Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total: float = 0
        self.exemplars: dict[int, Exemplar] = {}

    def remember(self, exemplar: "Exemplar") -> None:
        """Keep an observation, which was counted, as the exemplar of its bucket."""
        self.exemplars[bisect.bisect_left(self.bounds, exemplar.value)] = exemplar

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_all(self, values: collections.abc.Sequence[float], total: float) -> None:
        """Count several observations, at least one, whose sum is `total`. Those of a batch are in few buckets: each of these is looked for, not each value."""
        find, bounds, counts = bisect.bisect_left, self.bounds, self.counts
        self.total += total
        if len(values) == 1:
            counts[find(bounds, values[0])] += 1
            return
        lowest, highest = find(bounds, min(values)), find(bounds, max(values))
        if lowest == highest:
            counts[lowest] += len(values)
            return
        ordered, counted = sorted(values), 0
        for bucket in range(lowest, highest):
            upto = bisect.bisect_right(ordered, bounds[bucket], counted)
            counts[bucket] += upto - counted
            counted = upto
        counts[highest] += len(ordered) - counted


def bounds_ns(buckets: Buckets, family: Family) -> collections.abc.Sequence[float]:
    """The bounds of a histogram of seconds, in nanoseconds."""
    chosen = buckets.get(family.name)
    return DURATION_BOUNDS_NS if chosen is None else [seconds * 1e9 for seconds in chosen]
