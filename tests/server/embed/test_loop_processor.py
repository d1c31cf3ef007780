"""The server's loop comes to the processor of a thread that calls it alone, and is not bound there."""

import collections.abc
import os
import threading
import typing

import numpy as np
import pytest

import naiad
from naiad.embed.calls import Calls
from naiad.embed.loop_processor import LoopProcessor
from naiad.hosts.cpu_affinity import SAMPLE_INTERVAL, current_processor, move_to

ALLOWED = sorted(os.sched_getaffinity(0))
several = pytest.mark.skipif(len(ALLOWED) < 2, reason="there is nowhere else to go")


class Caller:
    """A thread on processor 1 and a loop on processor 0; `waiting` requests are in progress."""

    def __init__(self, *, caller: int = 1, loop: int = 0, waiting: int = 0) -> None:
        self._places = {"caller": caller, "loop": loop}
        self._running = "caller"
        self.moved: list[int] = []
        self.posted = 0
        calls = typing.cast(Calls, typing.cast(object, type("C", (), {"waiting": waiting})()))
        self._processor = LoopProcessor(
            calls, processor=lambda: self._places[self._running], move=self._move
        )

    def infer(self, requests: int) -> list[int]:
        """Send so many; returns where the loop was moved."""
        for _ in range(requests):
            self._processor.follow(self._post)
        return self.moved

    def _post(self, call: collections.abc.Callable[[], object]) -> None:
        self.posted += 1
        self._running = "loop"
        call()
        self._running = "caller"

    def _move(self, processor: int) -> None:
        self.moved.append(processor)
        if processor == 7:
            raise PermissionError("not in this container")
        self._places["loop"] = processor


def test_the_loop_comes_to_the_caller_at_one_of_several_requests_and_stays() -> None:
    caller = Caller()
    assert caller.infer(SAMPLE_INTERVAL - 1) == []
    assert caller.infer(1) == [1]
    assert caller.infer(10 * SAMPLE_INTERVAL) == [1]
    assert caller.posted == 11


@pytest.mark.parametrize(
    "caller",
    [
        pytest.param(Caller(caller=0), id="it is there"),
        pytest.param(Caller(waiting=1), id="another request is in progress"),
        pytest.param(Caller(caller=-1), id="the system does not say"),
    ],
)
def test_it_stays_where_it_is(caller: Caller) -> None:
    assert caller.infer(10 * SAMPLE_INTERVAL) == []


def test_a_system_that_does_not_allow_it_fails_no_request() -> None:
    assert Caller(caller=7).infer(2 * SAMPLE_INTERVAL) == [7, 7]


@several
def test_a_thread_that_is_moved_may_run_where_it_might_before() -> None:
    found: list[object] = []

    def run() -> None:
        for target in (ALLOWED[0], ALLOWED[1], max(ALLOWED) + 1):
            move_to(target)
            found.append(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {ALLOWED[1]})
        move_to(ALLOWED[0])
        found.append((os.sched_getaffinity(0), current_processor()))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [set(ALLOWED)] * 3 + [({ALLOWED[1]}, ALLOWED[1])]


def test_the_threads_of_a_program_and_its_server_may_run_where_they_might_before(
    server: naiad.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    come = LoopProcessor._come_to

    def come_to(self: LoopProcessor, processor: int) -> None:
        looked.append(threading.get_ident())
        come(self, processor)
        assert os.sched_getaffinity(0) == set(ALLOWED)

    monkeypatch.setattr(LoopProcessor, "_come_to", come_to)
    x = np.ones((1, 4), np.float32)
    for _ in range(4 * SAMPLE_INTERVAL):
        server.infer("add", {"x": x})
    assert len(looked) == 4
    assert threading.get_ident() not in looked
    assert os.sched_getaffinity(0) == set(ALLOWED)
