"""Quantiles of durations over the last minute, as the reference's summaries show them (row 8.25), in bounded memory.

Observations are counted in buckets whose bounds grow by 2 % each, so that a quantile is within 1 % of the observed value whatever was observed, and
five parts of the minute are kept apart, the oldest of which is dropped every twelve seconds. The reference promises an error in rank
instead, by an algorithm that keeps observations; its `error` of a quantile has no effect here.
"""

import collections
import collections.abc
import math

from naiad.core.clock import Clock

MAX_AGE_NS = 60 * 1_000_000_000
PARTS = 5
"""As prometheus-cpp has them by default."""

_NS_PER_US = 1_000
_GROWTH = math.log(1.02)
_PART_NS = MAX_AGE_NS // PARTS


class Summary:
    """One series: quantiles of the last minute, and the count and sum of all observations.

    Args:
        clock: says which observations are too old.

    Attributes:
        count, total: of all observations.
    """

    __slots__ = ("_begun_ns", "_now", "_parts", "count", "total")

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic_ns
        self._begun_ns = self._now()
        """When the newest part began."""
        self._parts = collections.deque(
            [collections.Counter[int]() for _ in range(PARTS)], maxlen=PARTS
        )
        self.count = 0
        self.total = 0

    def observe(self, value: int, *, times: int = 1) -> None:
        """Count an observation that was made so many times: a duration of 0 or more, in any unit."""
        self._rotate()
        self._parts[-1][_bucket(value)] += times
        self.count += times
        self.total += times * value

    def quantiles(self, wanted: collections.abc.Iterable[float]) -> list[float]:
        """The quantiles (0 to 1) of the last minute, in the unit that is observed; NaN where nothing was observed."""
        self._rotate()
        counts: collections.Counter[int] = collections.Counter()
        for part in self._parts:
            counts.update(part)
        observed = counts.total()
        if not observed:
            return [math.nan for _ in wanted]
        ascending = sorted(counts.items())
        found: list[float] = []
        for quantile in wanted:
            rank = max(1, math.ceil(quantile * observed))
            for bucket, count in ascending:
                rank -= count
                if rank <= 0:
                    found.append(_middle(bucket))
                    break
        return found

    def _rotate(self) -> None:
        """Drop the parts that are too old."""
        elapsed = (self._now() - self._begun_ns) // _PART_NS
        if elapsed <= 0:
            return
        self._begun_ns += elapsed * _PART_NS
        for _ in range(min(elapsed, PARTS)):
            self._parts.append(collections.Counter())


def _bucket(value: int) -> int:
    """The number of the bucket of a value; -1 for 0."""
    return int(math.log(value) / _GROWTH) if value >= 1 else -1


def _middle(bucket: int) -> float:
    """The value in the middle of a bucket's bounds."""
    return math.exp((bucket + 0.5) * _GROWTH) if bucket >= 0 else 0.0


class Summaries:
    """The summaries of one model version, in whole microseconds.

    Attributes:
        request, queue, compute_input, compute_infer, compute_output: of successful requests.
        cache_hit, cache_miss: as the counters of the cache count them.
        wanted: the quantiles to show.
    """

    def __init__(self, quantiles: collections.abc.Iterable[float], clock: Clock) -> None:
        self.wanted = tuple(quantiles)
        self.request = Summary(clock)
        self.queue = Summary(clock)
        self.compute_input = Summary(clock)
        self.compute_infer = Summary(clock)
        self.compute_output = Summary(clock)
        self.cache_hit = Summary(clock)
        self.cache_miss = Summary(clock)

    def requested(self, request_ns: int, queue_ns: int, *, times: int = 1) -> None:
        """Count the times of a successful request, or of so many equal ones."""
        self.request.observe(request_ns // _NS_PER_US, times=times)
        self.queue.observe(queue_ns // _NS_PER_US, times=times)

    def computed(self, input_ns: int, infer_ns: int, output_ns: int, *, requests: int) -> None:
        """Count the parts of the execution of a batch of so many successful requests."""
        if requests:
            self.compute_input.observe(input_ns // _NS_PER_US, times=requests)
            self.compute_infer.observe(infer_ns // _NS_PER_US, times=requests)
            self.compute_output.observe(output_ns // _NS_PER_US, times=requests)
