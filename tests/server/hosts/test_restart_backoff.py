"""When a worker that died comes back."""

from naiad.hosts.process.watchdogs import (
    FIRST_DELAY_NS,
    LONGEST_DELAY_NS,
    STABLE_NS,
    RestartBackoff,
)


def test_the_first_death_is_made_good_at_once_and_each_further_one_later_up_to_a_minute() -> None:
    backoff = RestartBackoff()
    delays = [backoff.died(0) for _ in range(12)]
    assert delays[:4] == [0, FIRST_DELAY_NS, 2 * FIRST_DELAY_NS, 4 * FIRST_DELAY_NS]
    assert delays == sorted(delays)
    assert delays[-1] == LONGEST_DELAY_NS


def test_a_worker_that_lived_long_has_earlier_deaths_forgiven() -> None:
    backoff = RestartBackoff()
    for _ in range(3):
        backoff.died(0)
    backoff.on_serving(10)
    assert backoff.died(10 + STABLE_NS) == 0
    assert backoff.died(10 + STABLE_NS) == FIRST_DELAY_NS


def test_a_worker_that_dies_soon_is_not_forgiven() -> None:
    backoff = RestartBackoff()
    backoff.died(0)
    backoff.on_serving(10)
    assert backoff.died(9 + STABLE_NS) == FIRST_DELAY_NS


def test_the_time_before_a_failed_load_does_not_count_as_uptime() -> None:
    backoff = RestartBackoff()
    backoff.on_serving(0)
    backoff.died(1)
    assert backoff.died(2 * STABLE_NS) == FIRST_DELAY_NS


def test_weeks_of_deaths_do_no_harm() -> None:
    backoff = RestartBackoff()
    assert max(backoff.died(0) for _ in range(10_000)) == LONGEST_DELAY_NS
