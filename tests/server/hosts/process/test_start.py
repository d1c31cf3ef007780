"""The start of a worker process: the event loop runs on meanwhile, and whatever happens then, no process and no descriptor is left."""

import asyncio
import collections.abc
import contextlib
import threading
import typing

import pytest

from naiad.core.processes.launch import Child, Launch
from naiad.errors import ErrorCode, InferenceError
from naiad.hosts.process import spawn
from tests.server.hosts.process.workers import (
    GIVE_UP_S,
    SAME,
    Hosts,
    answers,
    ask,
    exists,
    open_descriptors,
)
from tests.support.waiting import until


class Held:
    """Starts that a test lets go on.

    Attributes:
        begun: how many have begun.
        started: the ids of the processes.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        self.started: list[int] = []
        self._go_on = threading.Event()
        start = Launch.start

        def held(launch: Launch) -> Child:
            self.begun += 1
            assert self._go_on.wait(GIVE_UP_S)
            child = start(launch)
            self.started.append(child.pid)
            return child

        monkeypatch.setattr(Launch, "start", held)

    def go_on(self) -> None:
        self._go_on.set()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> collections.abc.Iterator[Held]:
    """Starts that wait, at most until the end of the test."""
    made = Held(monkeypatch)
    yield made
    made.go_on()


async def test_the_loop_runs_on_while_a_worker_starts(hosts: Hosts, held: Held) -> None:
    hosted = hosts.make(SAME)
    starting = asyncio.create_task(hosted.worker.start())
    await until(lambda: held.begun == 1)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not starting.done()
    held.go_on()
    await asyncio.wait_for(starting, GIVE_UP_S)
    assert answers(await hosted.run(ask((1, 2)))) == [{"OUT": [[1, 2]]}]
    assert held.started == [hosted.worker.pid]


@pytest.mark.parametrize("how", ["cancelled", "closed"])
async def test_a_start_that_is_not_wanted_any_more_leaves_nothing(
    hosts: Hosts, held: Held, how: str
) -> None:
    hosted = hosts.make(SAME)
    before = open_descriptors()
    starting = asyncio.create_task(hosted.worker.start())
    await until(lambda: held.begun == 1)
    closing: asyncio.Future[typing.Any] | None = None
    if how == "cancelled":
        starting.cancel()
    else:
        closing = asyncio.ensure_future(hosted.worker.close())
        await asyncio.sleep(0)
    held.go_on()
    with contextlib.suppress(asyncio.CancelledError):
        with pytest.raises(InferenceError) as failed:
            await asyncio.wait_for(starting, GIVE_UP_S)
        assert failed.value.code is ErrorCode.UNAVAILABLE
    if closing is not None:
        await asyncio.wait_for(closing, GIVE_UP_S)
    await until(lambda: bool(held.started) and not exists(held.started[0]))
    await until(lambda: open_descriptors() <= before)
    assert hosted.worker.pid == 0


async def test_a_restart_that_is_closed_meanwhile_leaves_nothing(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = await hosts.start("def execute(self, requests): os._exit(3)")
    held = Held(monkeypatch)
    assert (await hosted.run(ask())).error is not None
    await until(lambda: held.begun == 1)
    closing = asyncio.create_task(hosted.worker.close())
    await asyncio.sleep(0)
    held.go_on()
    await asyncio.wait_for(closing, GIVE_UP_S)
    await until(lambda: bool(held.started) and not exists(held.started[0]))
    assert hosted.worker.pid == 0


async def test_a_system_without_further_threads_is_an_error_of_the_load(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(spawn, "LAUNCHER", spawn.Launcher())
    hosted = hosts.make(SAME)
    before = open_descriptors()
    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", no_more)
        with pytest.raises(InferenceError, match=r"could be started.*can't start new thread"):
            await hosted.worker.start()
    assert open_descriptors() == before
    await asyncio.wait_for(hosted.worker.start(), GIVE_UP_S)
    assert answers(await hosted.run(ask((1, 2)))) == [{"OUT": [[1, 2]]}]
