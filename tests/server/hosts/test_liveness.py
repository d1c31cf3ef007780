"""Whether a worker process runs at all: decided by what is seen of it, in time that the test makes."""

import asyncio
import os
import pathlib
import signal

import pytest

from naiad.core.clock import ManualClock
from naiad.hosts.process.liveness import (
    INTERVAL_S,
    Decision,
    Liveness,
    LivenessWatch,
    Sample,
    look_at,
)
from naiad.metrics.statistics import RestartReason
from tests.server.hosts.process.workers import GIVE_UP_S, SAME, Hosts, answers, ask
from tests.support.waiting import until

S = 1_000_000_000


class Seen:
    """A process that is looked at every ten seconds."""

    def __init__(self) -> None:
        self.liveness = Liveness()
        self.now_ns = 1_000 * S
        self.cpu_ns = 0

    def look(
        self,
        state: str = "S",
        *,
        traced: bool = False,
        cpu_ns: int = 0,
        serves: bool = True,
        later_s: int = 10,
    ) -> Decision:
        self.now_ns += later_s * S
        self.cpu_ns += cpu_ns
        return self.liveness.decide(self.now_ns, Sample(state, traced, self.cpu_ns), serves=serves)

    def until_dead(self, state: str, *, cpu_ns: int = 0, serves: bool = True) -> int:
        """How many seconds after the first look it is found dead; 0 for not within an hour."""
        start = self.now_ns + 10 * S
        for _ in range(360):
            if self.look(state, cpu_ns=cpu_ns, serves=serves).dead:
                return (self.now_ns - start) // S
        return 0


def test_a_process_that_answers_is_alive_for_ever() -> None:
    seen = Seen()
    asked = 0
    for _ in range(500):
        decision = seen.look()
        assert not decision.dead
        if decision.ask:
            asked += 1
            seen.liveness.answered(debugged=False)
    assert asked == 499  # not at the first look


def test_one_that_is_stopped_by_a_signal_is_dead_after_half_a_minute_also_while_it_loads() -> None:
    assert Seen().until_dead("T") == 40  # the first look counts for nothing
    assert Seen().until_dead("T", serves=False) == 40
    seen = Seen()
    seen.look()
    for _ in range(3):
        decision = seen.look("T")
        assert not decision.dead
        assert not decision.ask
    assert seen.look("T").dead == "was stopped by a signal for 30 s and was killed"


def test_one_that_went_on_meanwhile_is_not() -> None:
    seen = Seen()
    seen.look()
    for _ in range(20):
        for state in ("T", "T", "T", "S"):
            assert not seen.look(state).dead
            seen.liveness.answered(debugged=False)


@pytest.mark.parametrize("state", ["S", "D", "R"])
def test_one_that_answers_nothing_and_computes_nothing_is_dead_after_five_minutes(
    state: str,
) -> None:
    seen = Seen()
    assert seen.until_dead(state) == 310
    assert (
        "answered nothing for 300 s"
        in seen.liveness.decide(seen.now_ns, Sample(state, False, 0), serves=True).dead
    )


def test_one_that_computes_may_be_silent_for_any_time() -> None:
    """It holds the interpreter lock, as a long call of a library does."""
    assert Seen().until_dead("R", cpu_ns=10 * S) == 0
    assert Seen().until_dead("R", cpu_ns=S) == 0  # a tenth of a processor, on a busy machine
    assert (
        Seen().until_dead("S", cpu_ns=S // 20) == 310
    )  # what waits for the lock wakes up now and then


def test_one_that_loads_may_be_silent_for_any_time() -> None:
    assert Seen().until_dead("D", serves=False) == 0


def test_one_under_a_debugger_is_left_alone() -> None:
    seen = Seen()
    for _ in range(100):
        assert not seen.look("t", traced=True).dead
        assert not seen.look("T", traced=True).dead
        assert not seen.look("S", traced=True).dead
    assert seen.until_dead("T") == 30


def test_one_with_a_debugger_for_python_in_it_may_be_silent_but_not_stopped() -> None:
    seen = Seen()
    seen.look()
    assert seen.look().ask
    seen.liveness.answered(debugged=True)
    assert seen.until_dead("S") == 0
    assert seen.until_dead("T") == 30


def test_time_in_which_the_server_itself_was_stopped_does_not_count() -> None:
    seen = Seen()
    for _ in range(20):
        assert not seen.look("T", later_s=3_600).dead
    assert seen.until_dead("T") == 30


def test_the_system_says_how_a_process_is() -> None:
    mine = look_at(os.getpid())
    assert mine is not None
    assert mine.state == "R"
    assert mine.cpu_ns > 0
    assert look_at(1 << 22) is None


async def test_a_watch_asks_every_ten_seconds_ends_with_a_death_and_with_its_stop() -> None:
    asked: list[None] = []
    dead: list[str] = []
    clock = ManualClock()
    samples = iter([Sample("S", False, 0)] * 3 + [Sample("T", False, 0)] * 10)
    calls: list[tuple[float, object]] = []

    class Loop:
        def call_later(self, delay: float, call: object) -> "Loop":
            calls.append((delay, call))
            return self

        def cancel(self) -> None:
            calls.clear()

    loop: asyncio.AbstractEventLoop = Loop()  # type: ignore[assignment]  # what the watch uses of it
    watch = LivenessWatch(
        1,
        ask=lambda: asked.append(None),
        on_dead=dead.append,
        clock=clock,
        loop=loop,
        look=lambda _: next(samples),
    )
    watch.serves = True
    while calls:
        delay, call = calls.pop()
        assert delay == INTERVAL_S
        clock.advance(ns=int(INTERVAL_S * S))
        call()  # type: ignore[operator]  # a callback
        watch.answered(debugged=False)
    assert len(asked) == 2
    assert dead == ["was stopped by a signal for 30 s and was killed"]


@pytest.mark.slow
async def test_a_worker_that_is_stopped_is_killed_its_requests_fail_and_the_next_one_serves(
    hosts: Hosts, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("naiad.hosts.process.liveness.INTERVAL_S", 0.05)
    monkeypatch.setattr("naiad.hosts.process.liveness.STOPPED_NS", 1)
    hosted = await hosts.start(SAME)
    first = hosted.worker.pid
    os.kill(first, signal.SIGSTOP)
    outcome = await asyncio.wait_for(hosted.submit(ask()), GIVE_UP_S)
    assert outcome.error is not None
    assert (
        "its worker process was stopped by a signal for 0 s and was killed" in outcome.error.message
    )
    await until(lambda: hosted.usable == [False, True])
    assert hosted.worker.pid != first
    assert hosted.restarts == [RestartReason.TIMEOUT]
    answers(await hosted.run())


@pytest.mark.slow
async def test_a_worker_that_answers_is_left_alone_also_while_a_batch_holds_the_interpreter(
    hosts: Hosts, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("naiad.hosts.process.liveness.INTERVAL_S", 0.02)
    monkeypatch.setattr("naiad.hosts.process.liveness.SILENT_NS", 300_000_000)
    monkeypatch.setattr("naiad.hosts.process.liveness._COMPUTES", 0.001)  # the machine may be busy
    hosted = await hosts.start(
        """
        def execute(self, requests):
            sum(range(60_000_000))  # one call, which keeps the interpreter lock
            return same(requests)
        """
    )
    answers(await hosted.run())
    assert hosted.restarts == []


@pytest.mark.slow
async def test_a_sleeping_thread_that_keeps_the_interpreter_lock_is_found(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("naiad.hosts.process.liveness.INTERVAL_S", 0.05)
    monkeypatch.setattr("naiad.hosts.process.liveness.SILENT_NS", 500_000_000)
    monkeypatch.setattr(
        "naiad.hosts.process.liveness._COMPUTES", 0.5
    )  # a loaded machine counts more for waking up
    hosted = await hosts.start(
        """
        def execute(self, requests):
            import ctypes
            ctypes.PyDLL(None).sleep(3600)  # PyDLL keeps the lock
        """
    )
    outcome = await asyncio.wait_for(hosted.submit(ask()), GIVE_UP_S)
    assert outcome.error is not None
    assert "answered nothing for 0 s" in outcome.error.message
    await until(lambda: hosted.usable == [False, True])
