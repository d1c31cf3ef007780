"""When the heartbeat of the event loop slows down, and when it is fast again."""

from naiad.serve.heartbeat.interval import INTERVAL_NS, RESTING_NS, HeartbeatInterval

MS = 1_000_000


def intervals(
    interval: HeartbeatInterval, count: int, *, in_use: bool = False, computed_ns: int = 0
) -> list[int]:
    """Those that follow so many heartbeats."""
    return [interval.next_ns(in_use=in_use, computed_ns=computed_ns) for _ in range(count)]


def test_a_loop_without_clients_and_work_rests_after_half_a_second() -> None:
    interval = HeartbeatInterval()
    assert intervals(interval, 24) == [INTERVAL_NS] * 24
    assert not interval.rests
    assert intervals(interval, 3) == [RESTING_NS] * 3
    assert interval.rests


def test_a_client_or_work_in_between_begins_the_count_again() -> None:
    interval = HeartbeatInterval()
    intervals(interval, 24)
    intervals(interval, 1, in_use=True)
    assert intervals(interval, 24) == [INTERVAL_NS] * 24
    intervals(interval, 1, computed_ns=MS)
    assert intervals(interval, 24) == [INTERVAL_NS] * 24


def test_work_is_measured_by_the_time_between_two_heartbeats() -> None:
    interval = HeartbeatInterval()
    intervals(interval, 25)
    assert intervals(interval, 1, computed_ns=24 * MS) == [RESTING_NS]  # of 500 ms
    assert intervals(interval, 1, computed_ns=25 * MS) == [INTERVAL_NS]


def test_a_client_wakes_a_loop_that_rests() -> None:
    interval = HeartbeatInterval()
    intervals(interval, 25)
    interval.wake()
    assert not interval.rests
    assert intervals(interval, 24) == [INTERVAL_NS] * 24
    intervals(interval, 5)
    assert intervals(interval, 1, in_use=True) == [INTERVAL_NS]
