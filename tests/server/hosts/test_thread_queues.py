"""Items to a thread, calls to a loop: in order, one a wake-up, and nothing lost or left open."""

import asyncio
import collections.abc
import contextlib
import pathlib
import signal
import threading
import time

import pytest
import uvloop

from naiad.hosts.thread_queues import LoopCallQueue, LoopQueue, ThreadQueue
from tests.server.hosts.process.workers import open_descriptors

GIVE_UP_S = 60


def test_a_thread_gets_every_item_in_order_also_those_put_before_it_waited() -> None:
    items: ThreadQueue[int] = ThreadQueue()
    got: list[int] = []

    def take() -> None:
        got.extend(items.get() for _ in range(100))

    items.put(0)
    items.put(1)
    thread = threading.Thread(target=take)
    thread.start()
    for number in range(2, 100):
        items.put(number)
    thread.join(GIVE_UP_S)
    assert got == list(range(100))
    items.close()


@pytest.fixture
def signals() -> collections.abc.Iterator[list[int]]:
    """SIGUSR1 interrupts what a thread waits for, and is counted."""
    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: came.append(number))
    yield came
    signal.signal(signal.SIGUSR1, before)


def test_signals_do_not_end_a_wait(signals: list[int]) -> None:
    items: ThreadQueue[str] = ThreadQueue()
    got: list[str] = []
    thread = threading.Thread(target=lambda: got.append(items.get()))
    thread.start()
    assert thread.ident is not None
    until_asleep(thread)
    end = time.monotonic() + GIVE_UP_S
    while len(signals) < 20 and thread.is_alive():
        assert time.monotonic() < end
        signal.pthread_kill(thread.ident, signal.SIGUSR1)
        until_asleep(thread)
    items.put("go on")
    thread.join(GIVE_UP_S)
    assert got == ["go on"]
    items.close()


def until_asleep(thread: threading.Thread) -> None:
    """Until a thread waits for something, or is over."""
    end = time.monotonic() + GIVE_UP_S
    stat = pathlib.Path(f"/proc/self/task/{thread.native_id}/stat")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while stat.read_text().rpartition(")")[2].split()[0] != "S":
            assert time.monotonic() < end


def test_a_thread_waits_without_the_interpreter_lock() -> None:
    items: ThreadQueue[str] = ThreadQueue()
    got: list[str] = []
    thread = threading.Thread(target=lambda: got.append(items.get()))
    thread.start()
    assert got == []  # were the lock held while waiting, no thread would reach this line
    items.put("go on")
    thread.join(GIVE_UP_S)
    assert got == ["go on"]
    items.close()


@pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_a_loop_makes_every_call_in_order_and_one_that_raises_loses_no_other(
    new_loop: collections.abc.Callable[[], asyncio.AbstractEventLoop],
) -> None:
    loop = new_loop()
    told: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: told.append(context))
    calls, made = LoopCallQueue(loop), list[int]()

    def put_all() -> None:
        calls.put(lambda: made.append(0))
        calls.put(lambda: made.append(1 // 0))
        calls.put(lambda: made.append(2))
        calls.put(loop.stop)

    thread = threading.Thread(target=put_all)
    thread.start()
    loop.run_forever()
    thread.join(GIVE_UP_S)
    calls.close()
    loop.close()
    assert made == [0, 2]
    assert isinstance(told[0]["exception"], ZeroDivisionError)


async def test_close_gives_the_descriptors_back() -> None:
    before = open_descriptors()
    items, calls = ThreadQueue[int](), LoopCallQueue(asyncio.get_running_loop())
    assert open_descriptors() == before + 2
    items.close()
    calls.close()
    assert open_descriptors() == before


@pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_a_loop_queue_takes_the_items_of_every_thread_in_their_order_with_few_wake_ups(
    new_loop: collections.abc.Callable[[], asyncio.AbstractEventLoop],
) -> None:
    loop, got = new_loop(), list[tuple[int, int]]()

    def take(item: tuple[int, int]) -> None:
        got.append(item)
        if len(got) == 4_000:
            loop.stop()

    queue: LoopQueue[tuple[int, int]] = LoopQueue(loop, take)

    def fill(k: int) -> None:
        for n in range(1_000):
            queue.put((k, n))

    threads = [threading.Thread(target=fill, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    loop.call_later(GIVE_UP_S, loop.stop)
    loop.run_forever()
    for thread in threads:
        thread.join(GIVE_UP_S)
    for k in range(4):
        assert [n for each, n in got if each == k] == list(range(1_000))
    queue.close()
    loop.close()


def test_a_loop_queue_loses_no_item_behind_one_whose_taker_raises() -> None:
    loop, got = asyncio.new_event_loop(), list[int]()
    loop.set_exception_handler(lambda *_: None)

    def take(item: int) -> None:
        got.append(item)
        if item == 1:
            raise ValueError(item)
        if item == 2:
            loop.stop()

    queue: LoopQueue[int] = LoopQueue(loop, take)
    queue.put(1)
    queue.put(2)
    loop.call_later(GIVE_UP_S, loop.stop)
    loop.run_forever()
    assert got == [1, 2]
    queue.close()
    loop.close()


async def test_a_flush_takes_all_also_behind_one_whose_taker_raises() -> None:
    loop, got, told = asyncio.get_running_loop(), list[int](), list[object]()
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    wrong = ValueError("of the taker")

    def take(item: int) -> None:
        got.append(item)
        if item == 1:
            raise wrong

    queue: LoopQueue[int] = LoopQueue(loop, take)
    for item in range(4):
        queue.put(item)
    queue.flush()
    queue.close()
    assert (got, told) == ([0, 1, 2, 3], [wrong])


def test_a_call_queue_whose_loop_has_ended_gives_its_descriptor_back() -> None:
    before = open_descriptors()
    loop = asyncio.new_event_loop()
    calls = LoopCallQueue(loop)
    loop.close()
    calls.put(lambda: None)
    del calls
    assert open_descriptors() == before


def test_a_loop_queue_keeps_its_descriptor_until_the_last_producer_is_gone() -> None:
    before = open_descriptors()
    loop = asyncio.new_event_loop()
    queue: LoopQueue[int] = LoopQueue(loop, lambda _: None)
    put = queue.put
    queue.close()
    loop.close()
    del queue
    put(1)  # into nothing, and into no file that was opened meanwhile
    assert open_descriptors() == before + 1
    del put
    assert open_descriptors() == before
