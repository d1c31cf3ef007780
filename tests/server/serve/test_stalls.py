"""When a late heartbeat is a stall, when it is reported, and what the report holds."""

import asyncio
import collections.abc
import itertools
import json
import logging
import queue
import sys
import threading
import time
import typing

import pytest
from typing_extensions import override

from naiad import logs
from naiad.core.clock import ManualClock, SystemClock
from naiad.metrics.exposition import page
from naiad.serve.heartbeat.loop_lag import LoopLag, RunDelay, Stall
from naiad.serve.heartbeat.stall_watchdog import StallWatchdog, stack_of
from naiad.serve.heartbeat.stalls import StallRule, Step
from tests.support.clock import LoopClock
from tests.support.waiting import wait_until

MS = 1_000_000
WAIT_S = 60


def looks(rule: StallRule, *moments: tuple[int, int]) -> tuple[list[Step], list[tuple[int, int]]]:
    """Let the rule look at moments given as (last heartbeat, now), in milliseconds, with the stalls that the heartbeat noted.

    Returns:
        The steps, and for each report of stalls that are over the longest in milliseconds and their number.
    """
    steps = list[Step]()
    reports = list[tuple[int, int]]()
    beat_before = moments[0][0]
    for beat, now in moments:
        late = beat - beat_before - 20
        ended = [Stall(beat_before * MS, late * MS, 0)] if late > 50 else []
        steps.append(rule.check(ended=ended, beat_ns=beat * MS, now_ns=now * MS))
        if steps[-1] is Step.REPORT_ENDED:
            assert rule.worst is not None
            reports.append((rule.worst.late_ns // MS, rule.count))
            rule.reported()
        beat_before = beat
    return steps, reports


def test_a_heartbeat_that_is_50_ms_late_is_not_a_stall_and_a_later_one_is() -> None:
    assert looks(StallRule(), (0, 70))[0] == [Step.WAIT]
    assert looks(StallRule(), (0, 71))[0] == [Step.SAMPLE]


def test_a_stall_is_reported_when_it_is_over_with_its_whole_length() -> None:
    steps, reports = looks(StallRule(), (0, 75), (0, 90), (320, 325))
    assert steps == [Step.SAMPLE, Step.WAIT, Step.REPORT_ENDED]
    assert reports == [(300, 1)]


def test_a_stall_that_the_watchdog_never_saw_is_reported() -> None:
    steps, reports = looks(StallRule(), (0, 5), (320, 325))
    assert steps == [Step.WAIT, Step.REPORT_ENDED]
    assert reports == [(300, 1)]


def test_a_stall_that_goes_on_is_reported_every_second_and_once_more_when_it_is_over() -> None:
    moments = [*((0, now) for now in range(75, 3500, 5)), (3500, 3501), (4100, 4101)]
    steps, reports = looks(StallRule(), *moments)
    assert steps.count(Step.REPORT_ONGOING) == 3
    assert reports == [(3480, 2)]


def test_of_many_stalls_one_is_reported_per_second_and_the_others_are_in_the_next_report() -> None:
    moments: list[tuple[int, int]] = []
    for start in range(0, 5000, 100):  # each of them blocks the loop for 80 ms
        moments += [(start, start + 72), (start + 100, start + 101)]
    steps, reports = looks(StallRule(), *moments)
    times = [now for (_, now), step in zip(moments, steps, strict=True)
             if step is Step.REPORT_ENDED]  # fmt: skip
    assert 4 <= len(times) <= 5
    assert all(later - earlier >= 1000 for earlier, later in itertools.pairwise(times))
    assert reports == [(80, 1), *[(80, 10)] * (len(times) - 1)]


def test_stalls_of_a_busy_machine_are_reported_once_per_minute_and_own_ones_at_once() -> None:
    rule = StallRule()
    reported: list[tuple[int, int]] = []

    def check(now_s: int, *, late_ms: int, run_delay_ms: int) -> None:
        now = now_s * 1000 * MS
        stall = Stall(now, late_ms * MS, run_delay_ms * MS)
        if rule.check(ended=[stall], beat_ns=now, now_ns=now) is Step.REPORT_ENDED:
            reported.append((now_s, rule.count))
            rule.reported()

    for second in range(0, 122, 2):
        check(second, late_ms=60, run_delay_ms=50)
    assert reported == [(0, 1), (60, 30), (120, 30)]
    check(130, late_ms=70, run_delay_ms=10)
    assert reported[-1] == (130, 1)
    check(132, late_ms=60, run_delay_ms=50)
    assert reported[-1] == (130, 1)


def test_a_report_of_many_stalls_is_about_the_longest() -> None:
    rule = StallRule()
    rule.record([Stall(1, 60 * MS, 0), Stall(2, 90 * MS, 80 * MS), Stall(3, 70 * MS, 0)])
    assert rule.worst is not None
    assert (rule.worst.beat_ns, rule.count) == (2, 3)
    assert rule.own_ns == 70 * MS  # of the third: the second waited for a processor


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


async def test_the_report_of_a_stall_shows_the_stack_of_the_loop(reports: Reports) -> None:
    sampled = threading.Event()

    def sample(thread: int) -> list[str]:
        stack = stack_of(thread)
        sampled.set()
        return stack

    def a_slow_callback() -> None:
        assert sampled.wait(WAIT_S)

    record = await watched(a_slow_callback, reports, sample)

    assert "the event loop wa" in record.getMessage()
    fields = json.loads(logs.JsonFormatter().format(record))
    assert fields["stalled_ms"] > 50
    assert 0 <= fields["run_delay_ms"] <= fields["stalled_ms"]
    if fields["run_delay_ms"] * 2 > fields["stalled_ms"]:
        return  # the machine is busy: that is the whole report
    assert "assert sampled.wait(WAIT_S)" in "".join(fields["stack"])
    first, *below = logs.TextFormatter(iso=False).format(record).splitlines()
    assert "ms, and no request was read or answered meanwhile" in first
    assert any("in a_slow_callback" in line for line in below)


async def unsampled_stalls(
    lates_ms: list[int], reports: Reports, *, run_delay_ms: int = 0
) -> logging.LogRecord:
    """The report about stalls that are over before the watchdog's thread runs at all."""
    lag = LoopLag(clock=ManualClock())
    watchdog = StallWatchdog(lag=lag, clock=SystemClock())
    lag.stalls.extend(Stall(i, late * MS, run_delay_ms * MS) for i, late in enumerate(lates_ms))
    lag.beat_ns = 1 << 62  # it never looks late
    watchdog.start()
    watchdog.stop()
    return reports.records[0]


async def test_a_stack_begins_in_the_loop_and_not_at_the_start_of_the_process() -> None:
    thread, stacks = threading.get_ident(), queue.SimpleQueue[list[str]]()

    def look() -> None:
        stacks.put(stack_of(thread))

    def callback() -> None:
        looking = threading.Thread(target=look)
        looking.start()
        looking.join()

    asyncio.get_running_loop().call_soon(callback)
    await asyncio.sleep(0)
    first, *_ = stacks.get(timeout=WAIT_S)
    assert ", in callback" in first


def test_a_loop_without_work_is_not_blamed_on_another_stack() -> None:
    stacks = queue.SimpleQueue[list[str]]()
    loop = asyncio.new_event_loop()
    running = threading.Thread(target=loop.run_forever)

    def idle() -> bool:
        stacks.put(stack_of(typing.cast("int", running.ident)))
        return "event loop's own code" in stacks.get()[0]

    running.start()
    try:
        wait_until(lambda: loop.is_running() and idle())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        running.join()
        loop.close()


async def test_a_stall_without_a_stack_is_reported_with_the_reason(
    reports: Reports,
) -> None:
    record = await unsampled_stalls([300], reports)
    assert "blocked for 300 ms, and" in record.getMessage()
    assert "one call held the interpreter lock, so that no other thread ran" in record.getMessage()
    assert json.loads(logs.JsonFormatter().format(record))["stack"] == []


async def test_a_stack_taken_after_one_call_held_the_lock_is_not_blamed(reports: Reports) -> None:
    sampled = threading.Event()

    def sample(thread: int) -> list[str]:
        stack = stack_of(thread)
        sampled.set()
        return stack

    def hold_the_lock() -> None:
        before = sys.getswitchinterval()
        sys.setswitchinterval(60)  # no other thread can ask this one to let the lock go
        try:
            end = time.thread_time_ns() + 300 * MS
            while time.thread_time_ns() < end:
                pass
        finally:
            sys.setswitchinterval(before)
        assert sampled.wait(WAIT_S)

    record = await watched(hold_the_lock, reports, sample)

    fields = json.loads(logs.JsonFormatter().format(record))
    starved = fields["run_delay_ms"] * 2 > fields["stalled_ms"]
    message = record.getMessage()
    assert starved or "held the interpreter lock" in message
    assert starved or message.endswith("when it let go, the loop was in:")
    assert starved or "assert sampled.wait(WAIT_S)" in "".join(fields["stack"])


async def test_a_short_stall_without_a_stack_names_no_cause(reports: Reports) -> None:
    record = await unsampled_stalls([51], reports)
    assert "it was over before a stack could be taken" in record.getMessage()


@pytest.mark.parametrize(("run_delay_ms", "starved"), [(280, True), (100, False)])
async def test_a_wait_for_a_processor_is_one_short_line(
    reports: Reports, run_delay_ms: int, *, starved: bool
) -> None:
    record = await unsampled_stalls([300], reports, run_delay_ms=run_delay_ms)
    waited = "the event loop waited 280 ms for a processor: the machine has too much to do, or the container's CPU limit is too low"
    assert (record.getMessage() == waited) is starved
    assert ("held the interpreter lock" in record.getMessage()) is not starved
    fields = json.loads(logs.JsonFormatter().format(record))
    assert fields["own_ms"] == 300 - run_delay_ms
    assert fields["stack"] == []


async def test_stalls_of_the_second_after_a_report_are_counted_in_the_next(
    reports: Reports,
) -> None:
    record = await unsampled_stalls([60, 400, 80], reports)
    assert "blocked for 400 ms (the longest of 3 times" in record.getMessage()
    assert json.loads(logs.JsonFormatter().format(record))["stalls"] == 3


@pytest.mark.looptime
async def test_the_heartbeat_notes_by_itself_that_it_was_late() -> None:
    clock = ManualClock()
    lag = LoopLag(clock=clock)
    lag.start(asyncio.get_running_loop())
    for late_ms in (0, 50, 51, 300):
        clock.advance(ns=(20 + late_ms) * MS)
        await asyncio.sleep(0.02)
    lag.stop()
    assert [stall.late_ns // MS for stall in lag.stalls] == [51, 300]
    assert all(0 <= stall.run_delay_ns <= stall.late_ns for stall in lag.stalls)


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("used_at", "noted"),
    [
        ((), []),
        ((1,), []),  # gone before
        ((2,), [300]),  # there before it, or in progress
        ((3,), [300]),  # came while it lasted, or is there after it
        ((4,), [300]),  # came while it lasted, read after the heartbeat
        ((5,), []),  # came later
    ],
    ids=str,
)
async def test_a_stall_counts_only_beside_a_client(
    used_at: tuple[int, ...], noted: list[int]
) -> None:
    clock, beats = ManualClock(), itertools.count()
    lag = LoopLag(clock=clock, was_in_use=lambda: next(beats) in used_at)
    lag.start(asyncio.get_running_loop())
    for late_ms in (0, 0, 300, 0, 0, 0):
        clock.advance(ns=(20 + late_ms) * MS)
        await asyncio.sleep(0.02)
    lag.stop()
    assert [stall.late_ns // MS for stall in lag.stalls] == noted


async def test_a_stall_that_goes_on_without_a_client_is_not_reported(reports: Reports) -> None:
    clock = ManualClock()
    lag = LoopLag(clock=clock, was_in_use=lambda: False)
    watchdog = StallWatchdog(lag=lag, clock=clock)
    for _ in range(4):  # sampled, reported after a second
        clock.advance(ns=2000 * MS)
        watchdog.look(threading.get_ident())
    assert reports.records == []


@pytest.mark.slow
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


class Unused:
    """A loop's heartbeat by the loop's own clock, with a client or without; `beats` counts the heartbeats so far."""

    def __init__(self, *, used: bool = False) -> None:
        self.used = used
        self.beats = 0
        self.woken = 0
        self.lag = LoopLag(clock=LoopClock(asyncio.get_running_loop()), was_in_use=self._was_in_use)
        self.lag.on_woken = self._on_woken

    async def beats_in(self, seconds: float) -> int:
        before = self.beats
        await asyncio.sleep(seconds)
        return self.beats - before

    def _was_in_use(self) -> bool:
        self.beats += 1
        return self.used

    def _on_woken(self) -> None:
        self.woken += 1


@pytest.fixture
def loop_computes(monkeypatch: pytest.MonkeyPatch) -> collections.abc.Callable[[int], None]:
    """Sets how many nanoseconds the loop computes between two heartbeats, in place of what the kernel says."""

    def set_to(nanoseconds: int) -> None:
        def read_ns(delay: RunDelay) -> int:
            delay.computed_ns += nanoseconds
            return 0

        monkeypatch.setattr(RunDelay, "read_ns", read_ns)

    set_to(0)
    return set_to


@pytest.mark.looptime
@pytest.mark.usefixtures("loop_computes")
async def test_the_heartbeat_rests_while_no_client_is_there() -> None:
    loop = Unused()
    loop.lag.start(asyncio.get_running_loop())
    assert await loop.beats_in(0.51) == 25
    assert await loop.beats_in(10) == 20
    loop.used = True
    await asyncio.sleep(0.6)
    assert await loop.beats_in(2) in {99, 100}
    loop.lag.stop()
    assert loop.woken == 0


@pytest.mark.looptime
@pytest.mark.usefixtures("loop_computes")
async def test_the_first_client_wakes_a_heartbeat_that_rests() -> None:
    loop = Unused()
    loop.lag.start(asyncio.get_running_loop())
    await asyncio.sleep(5.1)
    loop.lag.client_came()
    loop.lag.client_came()
    assert loop.woken == 1
    assert loop.lag.in_use
    assert await loop.beats_in(0.5) == 25
    assert await loop.beats_in(10) == 20
    loop.lag.stop()
    loop.lag.client_came()
    assert loop.woken == 1


@pytest.mark.looptime
async def test_a_loop_with_work_of_its_own_does_not_rest(
    loop_computes: collections.abc.Callable[[int], None],
) -> None:
    loop = Unused()
    loop_computes(2 * MS)
    loop.lag.start(asyncio.get_running_loop())
    assert await loop.beats_in(2.01) == 100
    loop.lag.stop()


@pytest.mark.looptime
@pytest.mark.usefixtures("loop_computes")
async def test_a_stall_by_the_first_client_of_a_resting_loop_is_noted_with_its_length() -> None:
    clock, used = ManualClock(), False
    lag = LoopLag(clock=clock, was_in_use=lambda: used)
    lag.start(asyncio.get_running_loop())
    for _ in range(30):
        clock.advance(ns=20 * MS)
        await asyncio.sleep(0.02)
    used = True
    lag.client_came()
    clock.advance(ns=320 * MS)
    await asyncio.sleep(0.02)
    lag.stop()
    assert [stall.late_ns // MS for stall in lag.stalls] == [300]


async def test_a_client_that_comes_to_a_late_resting_heartbeat_does_not_hide_that_it_is_late() -> (
    None
):
    clock = ManualClock()
    lag = LoopLag(clock=clock, was_in_use=lambda: True)
    lag.start(asyncio.get_running_loop())
    lag._interval.rests = True
    clock.advance(ns=90 * MS)
    lag.client_came()
    assert lag.stall_so_far().late_ns == 70 * MS
    lag.stop()


async def test_a_stall_right_after_a_rest_is_sampled_in_time(reports: Reports) -> None:
    clock = SystemClock()
    used = False
    lag = LoopLag(clock=clock, was_in_use=lambda: used)
    sampled = threading.Event()

    def sample(thread: int) -> list[str]:
        sampled.set()
        return stack_of(thread)

    watchdog = StallWatchdog(lag=lag, clock=clock, sample=sample)
    lag.start(asyncio.get_running_loop())
    lag._interval.rests = True
    lag.beat_ns += 3_600_000 * MS  # the watchdog would look after that
    watchdog.start()
    try:
        lag.client_came()
        used = True
        assert sampled.wait(WAIT_S)
        assert await asyncio.to_thread(reports.reported.wait, WAIT_S)
    finally:
        watchdog.stop()
        lag.stop()
