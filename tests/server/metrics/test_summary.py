"""Quantiles over the last minute: how near they are, what is dropped when, and what they count."""

import math
import random

import pytest

from naiad.core.clock import ManualClock
from naiad.metrics.summary import MAX_AGE_NS, PARTS, Summary


@pytest.mark.parametrize("scale", [1, 50, 3_000, 10_000_000])
def test_quantiles_are_within_a_hundredth_of_what_was_observed(scale: int) -> None:
    random_ = random.Random(scale)
    values = sorted(int(random_.lognormvariate(0, 1.5) * scale) for _ in range(5_000))
    summary = Summary(ManualClock())
    for value in values:
        summary.observe(value)
    for quantile, found in zip(
        (0.5, 0.9, 0.999), summary.quantiles((0.5, 0.9, 0.999)), strict=True
    ):
        exact = values[math.ceil(quantile * len(values)) - 1]
        assert found == pytest.approx(exact, rel=0.011, abs=0.5)
    assert (summary.count, summary.total) == (5_000, sum(values))


def test_without_observations_quantiles_are_nan() -> None:
    assert all(math.isnan(each) for each in Summary(ManualClock()).quantiles((0.5, 1.0)))


def test_zero_and_the_ends() -> None:
    summary = Summary(ManualClock())
    summary.observe(0, times=9)
    summary.observe(1_000)
    assert summary.quantiles((0.0, 0.9)) == [0.0, 0.0]
    assert summary.quantiles((1.0,))[0] == pytest.approx(1_000, rel=0.01)


def test_after_a_minute_an_observation_counts_only_in_count_and_sum() -> None:
    clock = ManualClock()
    summary = Summary(clock)
    summary.observe(10, times=99)
    clock.advance(ns=MAX_AGE_NS - MAX_AGE_NS // PARTS)
    summary.observe(1_000)
    assert summary.quantiles((0.5,))[0] == pytest.approx(10, rel=0.02)
    clock.advance(ns=MAX_AGE_NS // PARTS)
    assert summary.quantiles((0.5,))[0] == pytest.approx(1_000, rel=0.01)
    clock.advance(ns=10 * MAX_AGE_NS)
    assert math.isnan(summary.quantiles((0.5,))[0])
    assert (summary.count, summary.total) == (100, 1_990)


def test_its_memory_does_not_grow_with_what_is_observed() -> None:
    summary = Summary(ManualClock())
    for value in range(1, 200_000):
        summary.observe(value)
    assert sum(map(len, summary._parts)) < 700
