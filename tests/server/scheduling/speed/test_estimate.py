"""How long a request that comes now would wait, with numbers."""

import pytest

from naiad.scheduling.speed.estimate import Estimate, InstanceLoad, estimate, free_in
from naiad.scheduling.speed.times import BatchTimes

FREE = InstanceLoad(0, 10)
BUSY = InstanceLoad(4, 10)
SLOW = InstanceLoad(0, 100)


@pytest.mark.parametrize(
    ("ahead", "per_batch", "instances", "expected"),
    [
        (0, 8, [FREE], Estimate(0, 10)),
        (0, 8, [BUSY], Estimate(4, 14)),
        (7, 8, [BUSY], Estimate(4, 14)),  # it joins the batch of those before it
        (8, 8, [BUSY], Estimate(14, 24)),
        (40, 8, [BUSY], Estimate(54, 64)),
        (3, 1, [BUSY], Estimate(34, 44)),
        (3, 1, [BUSY, FREE], Estimate(14, 24)),
        (0, 1, [BUSY, FREE], Estimate(0, 10)),
        (2, 1, [FREE, SLOW], Estimate(10, 20)),
    ],
)
def test_waits(
    ahead: int, per_batch: int, instances: list[InstanceLoad], expected: Estimate
) -> None:
    assert estimate(ahead, per_batch, instances) == expected


def test_nothing_is_known_before_the_first_batch_and_without_instances() -> None:
    assert estimate(5, 1, [InstanceLoad(0, 0)]) is None
    assert estimate(5, 1, []) is None


def test_a_very_long_queue_is_estimated_by_the_rate() -> None:
    found = estimate(1_000_000, 1, [FREE, SLOW])
    assert found is not None
    assert found.wait_ns == pytest.approx(1_000_000 / (1 / 10 + 1 / 100), rel=0.01)


def test_a_batch_that_is_late_is_expected_to_take_as_long_again_as_it_is_late() -> None:
    assert [free_in(100, 50, now) for now in (100, 120, 150, 170, 250)] == [50, 30, 0, 20, 100]


def test_the_average_follows_recent_batches() -> None:
    times = BatchTimes()
    assert times.batch_ns == 0
    times.record(800)
    assert times.batch_ns == 800
    times.record(1600)
    assert times.batch_ns == 900
    for _ in range(60):
        times.record(100)
    assert times.batch_ns == pytest.approx(100, abs=8)
