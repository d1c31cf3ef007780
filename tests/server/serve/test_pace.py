"""When the heartbeat of the event loop slows down, and when it is fast again."""

from naiad.serve.heartbeat.pace import INTERVAL_NS, RESTING_NS, Pace

MS = 1_000_000


def intervals(pace: Pace, count: int, *, in_use: bool = False, computed_ns: int = 0) -> list[int]:
    """Those that follow so many heartbeats."""
    return [pace.next_ns(in_use=in_use, computed_ns=computed_ns) for _ in range(count)]


def test_a_loop_without_clients_and_work_rests_after_half_a_second() -> None:
    pace = Pace()
    assert intervals(pace, 24) == [INTERVAL_NS] * 24
    assert not pace.rests
    assert intervals(pace, 3) == [RESTING_NS] * 3
    assert pace.rests


def test_a_client_or_work_in_between_begins_the_count_again() -> None:
    pace = Pace()
    intervals(pace, 24)
    intervals(pace, 1, in_use=True)
    assert intervals(pace, 24) == [INTERVAL_NS] * 24
    intervals(pace, 1, computed_ns=MS)
    assert intervals(pace, 24) == [INTERVAL_NS] * 24


def test_work_is_measured_by_the_time_between_two_heartbeats() -> None:
    pace = Pace()
    intervals(pace, 25)
    assert intervals(pace, 1, computed_ns=24 * MS) == [RESTING_NS]  # of 500 ms
    assert intervals(pace, 1, computed_ns=25 * MS) == [INTERVAL_NS]


def test_a_client_wakes_a_loop_that_rests() -> None:
    pace = Pace()
    intervals(pace, 25)
    pace.wake()
    assert not pace.rests
    assert intervals(pace, 24) == [INTERVAL_NS] * 24
    intervals(pace, 5)
    assert intervals(pace, 1, in_use=True) == [INTERVAL_NS]
