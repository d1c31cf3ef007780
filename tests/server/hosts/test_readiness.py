"""How an instance in a thread is asked whether it is ready: beside its batches, once for several questions, and no longer than there is time."""

import asyncio
import threading

import pytest

from naiad.hosts import host as host_module, readiness
from naiad.hosts.readiness import ReadinessAsker
from tests.support.hosts import ScriptedInstance
from tests.support.waiting import TIMEOUT_S


def asker(instance: ScriptedInstance) -> ReadinessAsker:
    return ReadinessAsker("m_0_0", instance, loop=asyncio.get_running_loop())


@pytest.mark.parametrize("answer", [True, False])
async def test_the_answer_is_that_of_the_instance(*, answer: bool) -> None:
    threads: list[str] = []

    def ready() -> bool:
        threads.append(threading.current_thread().name)
        return answer

    assert await asker(ScriptedInstance(readiness=ready)).ask() is answer
    assert threads == ["m_0_0-ready"]


async def test_an_exception_of_any_kind_means_not_ready(caplog: pytest.LogCaptureFixture) -> None:
    def ready() -> bool:
        raise SystemExit(3)

    assert await asker(ScriptedInstance(readiness=ready)).ask() is False
    assert "could not say whether it is ready" in caplog.text


async def test_questions_while_one_is_open_start_no_further_thread() -> None:
    begun, go_on, asked = threading.Event(), threading.Event(), []

    def ready() -> bool:
        asked.append(1)
        begun.set()
        return go_on.wait(TIMEOUT_S)

    one = asker(ScriptedInstance(readiness=ready))
    questions = [asyncio.create_task(one.ask()) for _ in range(3)]
    assert await asyncio.to_thread(begun.wait, TIMEOUT_S)
    go_on.set()
    assert await asyncio.gather(*questions) == [True] * 3
    assert asked == [1]


async def test_a_thread_that_cannot_be_started_means_not_ready(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        readiness,
        "start_aside",
        lambda _, failed: failed(RuntimeError("can't start new thread")),
    )
    one = asker(ScriptedInstance())
    assert await one.ask() is False
    assert "can't start new thread" in caplog.text
    one.wait()  # nothing is asked


async def test_a_close_waits_for_the_answer_and_no_longer_than_there_is_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on = threading.Event()
    one = asker(ScriptedInstance(readiness=lambda: go_on.wait(TIMEOUT_S)))
    one.wait()  # nothing was asked
    monkeypatch.setattr(host_module, "READY_TIMEOUT_S", 0.01)
    assert await one.ask() is False
    monkeypatch.setattr(readiness, "READY_TIMEOUT_S", 0.01)
    one.wait()
    monkeypatch.setattr(readiness, "READY_TIMEOUT_S", TIMEOUT_S)
    waiting = asyncio.create_task(asyncio.to_thread(one.wait))
    go_on.set()
    await asyncio.wait_for(waiting, TIMEOUT_S)
