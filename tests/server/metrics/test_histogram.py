"""Histograms of several observations at once: the same counts as of each one alone."""

import random

import pytest

from naiad.metrics.families import FIRST_RESPONSE
from naiad.metrics.histogram import DURATION_BOUNDS_NS, Histogram
from naiad.metrics.options import MetricsOptions
from naiad.metrics.statistics import ModelStatistics

MS = 1_000_000


@pytest.mark.parametrize("spread", [1, 50_000, 10**7, 10**11])
@pytest.mark.parametrize("count", [1, 2, 16])
def test_several_at_once_count_as_each_one_alone(count: int, spread: int) -> None:
    chosen = random.Random(count)
    values = [99_990 + chosen.randrange(spread) for _ in range(count)]
    alone, together = Histogram(DURATION_BOUNDS_NS), Histogram(DURATION_BOUNDS_NS)
    for value in values:
        alone.observe(value)
    together.observe_all(values, sum(values))
    assert (together.counts, together.total) == (alone.counts, alone.total)


@pytest.mark.parametrize("bounds", [[100.0, 500.0], [0.5, 2.0], [-1.0, 3.0], []])
@pytest.mark.parametrize("took_ns", [[], [10], [900_000, 10], [5 * MS, 10, 900 * MS], [2 * MS, 3 * MS + 1]])  # fmt: skip
def test_first_responses_at_once_count_as_each_one_alone(
    took_ns: list[int], bounds: list[float]
) -> None:
    def kept() -> ModelStatistics:
        options = MetricsOptions(histogram_latencies=True)
        return ModelStatistics(options, buckets={FIRST_RESPONSE.name: bounds})

    alone, together = kept(), kept()
    for each in took_ns:
        alone.record_first_response(each)
    together.record_first_responses(took_ns)
    assert alone.first_response is not None
    assert together.first_response is not None
    assert together.first_response.counts == alone.first_response.counts
    assert together.first_response.total == alone.first_response.total
