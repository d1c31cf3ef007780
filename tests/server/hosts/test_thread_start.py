"""A thread host while its thread does not run yet, and where the system has no room for it."""

import asyncio
import threading
import typing

import pytest

from naiad.core.processes.threads import start_aside
from naiad.errors import InferenceError
from naiad.hosts import readiness, thread_host
from naiad.hosts.host import BatchOutcome
from tests.server.hosts.threads import GIVE_UP_S, Hosted, run
from tests.support.hosts import ScriptedInstance
from tests.support.inferences import make_inference


class Held:
    """In place of `start_aside`: threads are started, or refused, when the test says so."""

    def __init__(self) -> None:
        self.threads: list[tuple[threading.Thread, typing.Any]] = []

    def __call__(self, thread: threading.Thread, failed: typing.Any = None) -> None:
        self.threads.append((thread, failed))

    def start(self) -> None:
        for thread, failed in self.threads:
            start_aside(thread, failed)
        self.threads.clear()

    def refuse(self) -> None:
        for _, failed in self.threads:
            failed(RuntimeError("can't start new thread"))
        self.threads.clear()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    made = Held()
    monkeypatch.setattr(thread_host, "start_aside", made)
    monkeypatch.setattr(readiness, "start_aside", made)
    return made


async def test_batches_wait_for_the_thread_and_the_loop_does_not(
    hosted: Hosted, held: Held
) -> None:
    instance = ScriptedInstance()
    host = hosted(instance)
    batches = [asyncio.ensure_future(run(host)) for _ in range(2)]
    await asyncio.sleep(0)
    assert len(held.threads) == 1
    assert not any(each.done() for each in batches)
    held.start()
    assert [(await each).error for each in batches] == [None, None]


async def test_without_room_for_a_thread_what_waits_fails_and_the_next_batch_tries_again(
    hosted: Hosted, held: Held
) -> None:
    host = hosted(ScriptedInstance())
    failing = [asyncio.ensure_future(run(host)) for _ in range(2)]
    await asyncio.sleep(0)
    held.refuse()
    for each in failing:
        error = (await each).error
        assert error is not None
        assert "has no thread for instance 'resnet_instance_0_1'" in error.message
        assert "can't start new thread" in error.message
    following = asyncio.ensure_future(run(host))
    await asyncio.sleep(0)
    held.start()
    assert (await following).error is None


async def test_a_warmup_without_room_for_a_thread_fails(hosted: Hosted, held: Held) -> None:
    host = hosted(ScriptedInstance())
    warming = asyncio.ensure_future(host.warm_up([], lambda: None))
    await asyncio.sleep(0)
    held.refuse()
    with pytest.raises(InferenceError, match="has no thread: can't start new thread"):
        await warming


async def test_a_cancelled_warmup_and_a_refused_thread_end_it_once(
    hosted: Hosted, held: Held
) -> None:
    host = hosted(ScriptedInstance())
    warming = asyncio.ensure_future(host.warm_up([], lambda: None))
    await asyncio.sleep(0)
    warming.cancel()
    held.refuse()
    await asyncio.wait({warming})
    assert warming.cancelled()


async def test_close_waits_for_a_thread_that_starts_late(hosted: Hosted, held: Held) -> None:
    instance = ScriptedInstance()
    host = hosted(instance)
    outcomes: list[BatchOutcome] = []
    host.submit([make_inference()], outcomes.append)
    closing = asyncio.ensure_future(host.close())
    await asyncio.sleep(0)
    assert not closing.done()
    held.start()
    await asyncio.wait_for(closing, GIVE_UP_S)
    assert instance.closed == 1
    assert [each.error for each in outcomes] == [None]


async def test_close_ends_without_a_thread(
    hosted: Hosted, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    host = hosted(ScriptedInstance())
    closing = asyncio.ensure_future(host.close())
    await asyncio.sleep(0)
    held.refuse()
    await asyncio.wait_for(closing, GIVE_UP_S)
    assert "could not be closed in its thread" in caplog.text


async def test_an_instance_that_cannot_be_asked_is_not_ready(hosted: Hosted, held: Held) -> None:
    host = hosted(ScriptedInstance())
    asking = asyncio.ensure_future(host.ready())
    await asyncio.sleep(0)
    held.refuse()
    assert not await asyncio.wait_for(asking, GIVE_UP_S)
    held.start()
    closing = asyncio.ensure_future(host.close())
    await asyncio.sleep(0)
    held.start()
    await asyncio.wait_for(closing, GIVE_UP_S)
