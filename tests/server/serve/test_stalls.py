"""When a late heartbeat is a stall, when it is reported, and what the report holds."""

import asyncio
import collections.abc
import itertools
import json
import logging
import threading

import pytest
from typing_extensions import override

from naiad import logs
from naiad.core.clock import ManualClock, SystemClock
from naiad.metrics.exposition import page
from naiad.serve.loop_lag import LoopLag
from naiad.serve.stall_watchdog import RunDelay, StallWatchdog, stack_of
from naiad.serve.stalls import StallRule, Step
from tests.support.clock import LoopClock

MS = 1_000_000
WAIT_S = 60


def looks(rule: StallRule, *moments: tuple[int, int]) -> list[Step]:
    """What the rule says at moments given as (last heartbeat, now), in milliseconds."""
    return [rule.look(beat_ns=beat * MS, now_ns=now * MS) for beat, now in moments]


def test_a_heartbeat_that_is_50_ms_late_is_no_stall_and_a_later_one_is() -> None:
    assert looks(StallRule(), (0, 70)) == [Step.WAIT]
    assert looks(StallRule(), (0, 71)) == [Step.SAMPLE]


def test_a_stall_is_reported_when_it_is_over_with_its_whole_length() -> None:
    rule = StallRule()
    assert looks(rule, (0, 75), (0, 90), (320, 325)) == [
        Step.SAMPLE,
        Step.WAIT,
        Step.REPORT_ENDED,
    ]
    assert rule.stalled_ns == 300 * MS


def test_a_stall_that_goes_on_is_reported_every_second() -> None:
    rule = StallRule()
    steps = looks(rule, *((0, now) for now in range(75, 3500, 5)))
    assert steps.count(Step.REPORT_ONGOING) == 3
    assert rule.stalled_ns > 3000 * MS


def test_of_many_stalls_one_is_reported_per_second() -> None:
    rule = StallRule()
    moments: list[tuple[int, int]] = []
    for start in range(0, 5000, 100):  # each of them blocks the loop for 80 ms
        moments += [(start, start + 72), (start + 100, start + 101)]
    reports = [now for (_, now), step in zip(moments, looks(rule, *moments), strict=True)
               if step is Step.REPORT_ENDED]  # fmt: skip
    assert 4 <= len(reports) <= 5
    assert all(later - earlier >= 1000 for earlier, later in itertools.pairwise(reports))


def test_the_next_look_is_when_the_next_heartbeat_would_be_a_stall() -> None:
    rule = StallRule()
    assert rule.wait_ns(beat_ns=100 * MS, now_ns=105 * MS) == 65 * MS
    assert rule.wait_ns(beat_ns=100 * MS, now_ns=400 * MS) == 10 * MS


@pytest.mark.looptime
async def test_the_histogram_counts_how_late_each_heartbeat_is() -> None:
    loop = asyncio.get_running_loop()
    clock = ManualClock()
    lag = LoopLag(clock=clock)
    lag.start(loop)
    for late_ms in (0, 0, 3, 300):
        clock.advance(ns=(20 + late_ms) * MS)
        await asyncio.sleep(0.02)
    lag.stop()
    clock.advance(ns=1000 * MS)
    await asyncio.sleep(1)

    lines = page([lag.series()]).decode().splitlines()

    assert "# TYPE naiad_loop_lag_seconds histogram" in lines
    assert 'naiad_loop_lag_seconds_bucket{le="0.001"} 2' in lines
    assert 'naiad_loop_lag_seconds_bucket{le="0.005"} 3' in lines
    assert 'naiad_loop_lag_seconds_bucket{le="0.25"} 3' in lines
    assert 'naiad_loop_lag_seconds_bucket{le="0.5"} 4' in lines
    assert 'naiad_loop_lag_seconds_bucket{le="10"} 4' in lines
    assert "naiad_loop_lag_seconds_sum 0.303" in lines
    assert "naiad_loop_lag_seconds_count 4" in lines


@pytest.mark.looptime
async def test_a_loop_that_keeps_up_has_no_lag() -> None:
    loop = asyncio.get_running_loop()
    lag = LoopLag(clock=LoopClock(loop))
    lag.start(loop)
    await asyncio.sleep(1.01)
    lag.stop()
    assert b'naiad_loop_lag_seconds_bucket{le="0.001"} 50' in page([lag.series()])


class Reports(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.reported = threading.Event()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.reported.set()


@pytest.fixture
def reports() -> collections.abc.Iterator[Reports]:
    handler = Reports()
    log = logging.getLogger("naiad.serve")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


async def watched(block: collections.abc.Callable[[], object], reports: Reports,
                  sample: collections.abc.Callable[[int], list[str]] = stack_of) -> logging.LogRecord:  # fmt: skip
    """The first report about a loop that calls `block`."""
    clock = SystemClock()
    lag = LoopLag(clock=clock)
    watchdog = StallWatchdog(lag=lag, clock=clock, sample=sample)
    lag.start(asyncio.get_running_loop())
    watchdog.start()
    try:
        block()
        assert await asyncio.to_thread(reports.reported.wait, WAIT_S)
    finally:
        watchdog.stop()
        lag.stop()
    assert not any(thread.name == "stall-watchdog" for thread in threading.enumerate())
    return reports.records[0]


async def test_the_report_of_a_stall_shows_what_the_loop_was_in(reports: Reports) -> None:
    sampled = threading.Event()

    def sample(thread: int) -> list[str]:
        stack = stack_of(thread)
        sampled.set()
        return stack

    def a_slow_callback() -> None:
        assert sampled.wait(WAIT_S)

    record = await watched(a_slow_callback, reports, sample)

    assert "the event loop was blocked for" in record.getMessage()
    fields = json.loads(logs.JsonFormatter().format(record))
    assert fields["stalled_ms"] > 50
    assert 0 <= fields["run_delay_ms"] <= fields["stalled_ms"]
    assert "assert sampled.wait(WAIT_S)" in "".join(fields["stack"])
    first, *below = logs.TextFormatter(iso=False).format(record).splitlines()
    assert "ms, and no request was read or answered meanwhile" in first
    assert any("in a_slow_callback" in line for line in below)


async def test_a_stall_that_does_not_end_is_reported_while_it_lasts(reports: Reports) -> None:
    record = await watched(lambda: reports.reported.wait(WAIT_S), reports)
    assert "the event loop has been blocked for" in record.getMessage()


def test_the_run_delay_is_read_from_the_kernel_or_0() -> None:
    delay = RunDelay(threading.get_native_id())
    assert delay.read_ns() >= 0
    delay.close()
    delay.close()
    assert delay.read_ns() == 0
    assert RunDelay(1 << 30).read_ns() == 0
