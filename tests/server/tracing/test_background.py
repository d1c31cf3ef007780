"""The thread that writes: what it takes, what does not fit, how it ends."""

import logging
import threading

import pytest

from naiad.tracing.background import Background
from tests.support.waiting import wait_until


def test_all_is_worked_on_in_order_before_it_ends() -> None:
    taken: list[int] = []
    thread = Background[int](taken.extend, name="t", most=1000, gather_seconds=60)
    for number in range(1000):
        assert thread.put(number)
    assert thread.close(60)
    assert taken == list(range(1000))


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    begun, release, taken = threading.Event(), threading.Event(), list[int]()

    def work(items: list[int]) -> None:
        taken.extend(items)
        begun.set()
        release.wait()

    thread = Background[int](work, name="t", most=2, gather_seconds=0)
    thread.put(0)
    begun.wait()
    assert [thread.put(number) for number in (1, 2, 3, 4)] == [True, True, False, False]
    assert thread.dropped == 2
    release.set()
    assert thread.close(60)
    assert taken == [0, 1, 2]


def test_work_that_hangs_does_not_keep_it_from_closing() -> None:
    begun, release = threading.Event(), threading.Event()

    def work(_: list[int]) -> None:
        begun.set()
        release.wait()

    thread = Background[int](work, name="t", most=2, gather_seconds=0)
    thread.put(0)
    begun.wait()
    assert not thread.close(0)
    release.set()


def test_an_exception_is_logged_and_the_thread_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    taken: list[int] = []

    def work(items: list[int]) -> None:
        if items == [0]:
            raise ValueError("on purpose")
        taken.extend(items)

    thread = Background[int](work, name="the thread", most=9, gather_seconds=0)
    with caplog.at_level(logging.ERROR):
        thread.put(0)
        wait_until(lambda: bool(caplog.records))
        thread.put(1)
        thread.close(60)
    assert taken == [1]
    assert "the thread failed" in caplog.text


def test_without_work_there_is_no_thread() -> None:
    thread = Background[int](lambda _: None, name="never", most=1, gather_seconds=0)
    assert thread.close(0)
    assert all(each.name != "never" for each in threading.enumerate())
