"""Threads are started without a wait for them; an executor whose threads were started early starts none when work comes."""

import concurrent.futures
import threading

import pytest
from typing_extensions import override

from naiad.core.processes.threads import start_all, start_aside


@pytest.mark.parametrize("count", [1, 5])
def test_all_threads_run_and_work_starts_no_other_one(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with concurrent.futures.ThreadPoolExecutor(count, "early") as executor:
        start_all(executor, count)
        assert sum(each.name.startswith("early") for each in threading.enumerate()) == count

        def refuse(thread: threading.Thread) -> None:
            raise AssertionError(f"{thread.name} is started")

        monkeypatch.setattr(threading.Thread, "start", refuse)
        barrier = threading.Barrier(count)
        work = [executor.submit(barrier.wait, 60) for _ in range(count)]
        assert sorted(each.result(60) for each in work) == list(range(count))


def test_a_thread_that_does_not_run_yet_is_not_waited_for() -> None:
    may_start, ran = threading.Event(), threading.Event()

    class Slow(threading.Thread):
        @override
        def start(self) -> None:
            may_start.wait(60)
            super().start()

    thread = Slow(target=ran.set)
    start_aside(thread)
    assert not ran.is_set()
    may_start.set()
    assert ran.wait(60)
    thread.join(60)


def test_a_thread_for_which_there_is_no_room_is_reported() -> None:
    failed: list[RuntimeError] = []
    reported = threading.Event()

    class Refused(threading.Thread):
        @override
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    def report(error: RuntimeError) -> None:
        failed.append(error)
        reported.set()

    start_aside(Refused(), report)
    assert reported.wait(60)
    assert [str(each) for each in failed] == ["can't start new thread"]
