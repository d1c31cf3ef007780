"""Usual traces between the event loop and the thread that writes: each is taken once and in order, whatever comes in between."""

import itertools
import threading
import types
import typing

import pytest

from naiad.core.inference import ExecutionTimes, Inference
from naiad.core.request import LATEST, InferRequest
from naiad.tracing import usual_queue
from naiad.tracing.usual import LONGEST_ID, Usual
from naiad.tracing.usual_queue import UsualQueue

_TIMES = ExecutionTimes(3, 6, 7, 8, 9, responded_ns=10)


class World:
    """A queue, and what it has called."""

    def __init__(self, *, most: int = 1000, enough: int = 1000) -> None:
        self.announced = self.hurried = self.dropped = 0
        self.queue = UsualQueue(
            most=most,
            enough=enough,
            announce=self._announce,
            hurry=self._hurry,
            dropped=self._drop,
            next_id=itertools.count(1).__next__,
        )

    def _announce(self) -> None:
        self.announced += 1

    def _hurry(self) -> None:
        self.hurried += 1

    def _drop(self, count: int) -> None:
        self.dropped += count

    def add(
        self, count: int = 1, *, request_id: str = "", model: str = "m", at_once: bool = False
    ) -> None:
        traces = [sent(_TIMES, [], model=model, request_id=request_id) for _ in range(count)]
        if at_once:
            self.queue.add(traces)
        else:
            for trace in traces:
                self.queue.add((trace,))

    def taken(self) -> list[tuple[int, str, str]]:
        """Number, request id and model of each that waits."""
        found = [each for traces in self.queue.taken() for each in rows(traces)]
        self.queue.release()
        return found

    def ids(self) -> list[int]:
        return [number for number, _, _ in self.taken()]


def rows(traces: Usual) -> list[tuple[int, str, str]]:
    return list(zip(traces.numbers[:, 0].tolist(), *traces.texts(), strict=True))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usual_queue, "SLOTS", 4)


def test_the_numbers_of_one() -> None:
    world = World()
    world.add()
    (traces,) = world.queue.taken()
    assert traces.numbers.tolist() == [[1, 3, 1, 6, 7, 8, 9, 1, 2, 3, 4, 10, 11, 12]]


at_once = pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "at once"])


@at_once
@pytest.mark.parametrize("steps", [(1, 1, 1), (3, 1, 4), (4, 4), (9, 0, 2, 13), (0, 17)])
def test_each_is_taken_once_and_in_order_however_full_its_block_is(
    steps: tuple[int, ...], *, at_once: bool
) -> None:
    world, found = World(), []
    for count in steps:
        world.add(count, at_once=at_once)
        assert len(world.queue) == count
        found += world.ids()
        assert not len(world.queue)
    assert found == list(range(1, sum(steps) + 1))


def test_request_ids_and_models_stay_with_their_traces() -> None:
    world, expected, found = World(), [], []
    texts = [("", "m"), ("", "m"), ("a", "m"), ("a", "n"), ("a", "n"), ("", "n"), ("b", "m"), ("", "m")]  # fmt: skip
    for number, (request_id, model) in enumerate(texts * 5, 1):
        world.add(request_id=request_id, model=model)
        expected.append((number, request_id, model))
        if number % 3 == 0:
            found += world.taken()
    assert found + world.taken() == expected


@pytest.mark.parametrize("more", [1, 2, 4, 9])
def test_what_comes_while_some_are_taken_is_taken_next(more: int) -> None:
    """The block that the thread has begun may be filled, taken, and used again meanwhile."""
    world, found = World(most=100_000), []
    world.add(6)
    for _ in range(6):
        for traces in world.queue.taken():
            world.add(more)
            found += [number for number, _, _ in rows(traces)]
        world.queue.release()
    while len(world.queue):
        found += world.ids()
    assert found == list(range(1, len(found) + 1))
    assert len(found) >= 6 * more


def test_two_threads_lose_nothing_and_take_nothing_twice() -> None:
    world, count, found = World(most=100_000), 20_000, list[int]()
    adding = threading.Thread(target=world.add, args=(count,))
    adding.start()
    while adding.is_alive():
        found += world.ids()
    adding.join()
    assert found + world.ids() == list(range(1, count + 1))
    assert not world.dropped


def test_the_first_one_after_a_look_is_announced_and_many_are_hurried() -> None:
    world = World(enough=8)
    world.add(0, at_once=True)
    assert world.announced == 0
    world.add(3)
    assert (world.announced, world.hurried) == (1, 0)
    world.taken()
    world.add(4)  # with the last one of the first block
    assert (world.announced, world.hurried) == (2, 0)
    world.add(3)
    assert (world.announced, world.hurried) == (2, 1)


@at_once
def test_what_finds_no_room_is_dropped_until_there_is_some(*, at_once: bool) -> None:
    world = World(most=8)
    world.add(10, at_once=at_once)
    assert world.dropped == 2
    assert world.ids() == list(range(1, 9))
    world.add(8, at_once=at_once)
    assert world.dropped == 2
    assert world.ids() == list(range(11, 19))


def test_the_memory_of_what_was_taken_is_not_used_before_it_is_released() -> None:
    world = World()
    world.add(4)
    (first,) = world.queue.taken()
    world.add(4)
    assert rows(first) == [(number, "", "m") for number in range(1, 5)]
    world.queue.release()
    world.add(4)
    (second, third) = world.queue.taken()
    assert (second.first, third.first) == (4, first.first)
    assert world.queue.rows is not None
    assert world.queue.rows.numbers[:8, 0].tolist() == [9, 10, 11, 12, 5, 6, 7, 8]


def test_what_a_batch_shares_is_that_of_each_and_the_unusual_ones_are_completed() -> None:
    """Two batches in turn, two protocols, two models, and what has no time of its own."""
    world, completed = World(), list[typing.Any]()
    other = ExecutionTimes(4, 16, 17, 18, 19)
    traces = [
        sent(_TIMES, completed),
        sent(other, completed, answered_ns=20, model="n"),
        sent(other, completed, model="n"),  # it has no time at which it was answered
        sent(other, completed, answered_ns=21, model="n", protocol="HTTP"),
        sent(None, completed),
        sent(_TIMES, completed, request_id="x" * (LONGEST_ID + 1)),
        sent(_TIMES, completed, sent_ns=0),  # its client has gone
        sent(_TIMES, completed, is_usual=False),
        sent(_TIMES, completed, answered_ns=22),
    ]
    without = sent(None, completed)
    without.inference = None
    world.queue.add([*traces, without])
    found = list(world.queue.taken())
    assert [row for each in found for row in each.numbers[:, [0, 1, 2, 3, 11]].tolist()] == [
        [1, 3, 1, 6, 10],
        [2, 4, 1, 16, 20],
        [3, 4, 0, 16, 21],
        [4, 3, 1, 6, 22],
    ]
    assert [row[2] for each in found for row in rows(each)] == ["m", "n", "n", "m"]
    assert completed == [traces[2], *traces[4:8], without]
    assert [trace.inference.traced for trace in (traces[0], traces[1], traces[3])] == [None] * 3


def sent(
    times: ExecutionTimes | None,
    completed: list[typing.Any],
    *,
    model: str = "m",
    request_id: str = "",
    protocol: str = "GRPC",
    answered_ns: int = 0,
    sent_ns: int = 12,
    is_usual: bool = True,
) -> typing.Any:
    """A trace whose response was sent."""
    asked = InferRequest(model, LATEST, request_id, [], [], {})
    inference = Inference(
        asked, print, 1, 3, queued_ns=4, execution=times, completed=True, answered_ns=answered_ns
    )
    trace: typing.Any = types.SimpleNamespace(
        inference=inference,
        protocol=protocol,
        received_ns=1,
        read_ns=2,
        send_ns=11,
        sent_ns=sent_ns,
    )
    trace.complete = lambda: completed.append(trace)
    inference.traced = trace if is_usual else None
    return trace
