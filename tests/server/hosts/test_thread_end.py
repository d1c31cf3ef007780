"""The end of a thread host: it waits for what is out, and for nothing that does not end."""

import asyncio
import collections.abc
import threading

import pytest
from typing_extensions import override

from naiad.core.clock import SystemClock
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.hosts import thread_host
from naiad.hosts.thread_host import ThreadHost
from tests.server.hosts.threads import GIVE_UP_S, Hosted, local, run
from tests.support.hosts import ScriptedInstance, answer_all
from tests.support.inferences import make_inference


async def test_close_waits_for_the_batch_that_is_out_without_blocking_the_loop(
    hosted: Hosted,
) -> None:
    may_end = threading.Event()

    def script(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
        may_end.wait(GIVE_UP_S)
        return answer_all(batch)

    instance = ScriptedInstance(script)
    host = hosted(instance)
    running = asyncio.create_task(run(host))
    await asyncio.sleep(0)
    closing = asyncio.create_task(host.close())
    await asyncio.sleep(0)
    assert not closing.done()
    assert instance.closed == 0
    may_end.set()
    await closing
    assert (await running).error is None
    assert instance.closed == 1
    assert "resnet_instance_0_1" not in [each.name for each in threading.enumerate()]


async def test_close_is_idempotent_also_side_by_side_and_before_any_batch(hosted: Hosted) -> None:
    instance = ScriptedInstance()
    host = hosted(instance)
    await asyncio.gather(host.close(), host.close())
    await host.close()
    assert instance.closed == 1
    assert not await host.ready()


async def test_close_does_not_close_an_instance_that_is_being_asked(hosted: Hosted) -> None:
    closed, too_early = threading.Event(), list[bool]()

    def readiness() -> bool:
        too_early.append(closed.wait(0.1))
        return True

    class Noting(ScriptedInstance):
        @override
        def close(self) -> None:
            closed.set()

    host = hosted(Noting(readiness=readiness))
    asking = asyncio.create_task(host.ready())
    await asyncio.sleep(0)
    await host.close()
    assert await asking
    assert closed.is_set()
    assert too_early == [False]


async def test_an_instance_that_cannot_close_does_not_keep_the_host_open(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    instance = ScriptedInstance()

    def close() -> None:
        raise SystemExit("finalize failed")

    monkeypatch.setattr(instance, "close", close)
    await asyncio.wait_for(hosted(instance).close(), GIVE_UP_S)
    assert "did not close cleanly" in caplog.text


async def test_a_batch_after_the_close_fails_and_reaches_no_descriptor(hosted: Hosted) -> None:
    instance = ScriptedInstance()
    host = hosted(instance)
    await run(host)
    await host.close()
    outcome = await run(host)
    assert str(outcome.error).endswith("the server stops")
    assert instance.closed == 1


def thread_of(host: ThreadHost, begun: threading.Event) -> threading.Thread:
    """The host's thread, once its batch has begun."""
    assert begun.wait(GIVE_UP_S)
    [found] = [each for each in threading.enumerate() if each.name == host.name]
    return found


def test_an_outcome_for_a_loop_that_is_gone_is_dropped_and_the_thread_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread_host, "FINALIZE_TIMEOUT_S", 0.01)
    begun, may_end = threading.Event(), threading.Event()

    def script(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
        begun.set()
        may_end.wait(GIVE_UP_S)
        return answer_all(batch)

    instance = ScriptedInstance(script)
    loop = asyncio.new_event_loop()
    host = ThreadHost("gone", local(instance), clock=SystemClock(), loop=loop)
    host.submit([make_inference()], lambda _: None)
    working = thread_of(host, begun)
    loop.run_until_complete(host.close())  # it is left behind
    loop.close()
    may_end.set()
    working.join(GIVE_UP_S)
    assert not working.is_alive()
    assert instance.closed == 1


async def test_a_thread_whose_batch_does_not_end_is_left_behind_when_the_host_closes(
    hosted: Hosted, caplog: pytest.LogCaptureFixture
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hang(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
        begun.set()
        go_on.wait(GIVE_UP_S)
        return answer_all(batch)

    instance = ScriptedInstance(hang)
    host = hosted(instance)
    came_back = asyncio.get_running_loop().create_future()
    host.submit([make_inference()], came_back.set_result)
    working = thread_of(host, begun)
    host.abort("every client left")
    await asyncio.wait_for(host.close(), GIVE_UP_S)
    assert not came_back.done()
    assert "its batch does not end" in caplog.text
    go_on.set()
    await asyncio.wait_for(came_back, GIVE_UP_S)
    await asyncio.to_thread(working.join, GIVE_UP_S)
    assert instance.closed


async def test_a_late_close_waits_for_the_thread_of_a_batch_that_was_given_up(
    hosted: Hosted, caplog: pytest.LogCaptureFixture
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hang(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
        begun.set()
        go_on.wait(GIVE_UP_S)
        return answer_all(batch)

    instance = ScriptedInstance(hang)
    host = hosted(instance)
    host.submit([make_inference()], lambda _: None)
    working = thread_of(host, begun)
    host.abort("every client left")
    closing = asyncio.create_task(host.close_late("the time is over"))
    await asyncio.sleep(0)
    assert not closing.done()
    go_on.set()
    await asyncio.wait_for(closing, GIVE_UP_S)
    assert not working.is_alive()
    assert instance.closed == 1
    assert caplog.text == ""


async def test_a_late_close_may_be_waited_for_no_longer(hosted: Hosted) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hang(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
        begun.set()
        go_on.wait(GIVE_UP_S)
        return answer_all(batch)

    instance = ScriptedInstance(hang)
    host = hosted(instance)
    host.submit([make_inference()], lambda _: None)
    working = thread_of(host, begun)
    closing = asyncio.create_task(host.close_late("the time is over"))
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})
    go_on.set()
    await asyncio.wait_for(host.close(), GIVE_UP_S)
    assert not working.is_alive()


async def test_an_instance_that_does_not_close_does_not_keep_the_host(
    hosted: Hosted, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_host, "FINALIZE_TIMEOUT_S", 0.01)
    go_on = threading.Event()

    class Endless(ScriptedInstance):
        @override
        def close(self) -> None:
            go_on.wait(GIVE_UP_S)

    host = hosted(Endless())
    await run(host)
    begun = threading.Event()
    begun.set()
    working = thread_of(host, begun)
    await asyncio.wait_for(host.close(), GIVE_UP_S)
    assert "closing it takes longer" in caplog.text
    go_on.set()
    working.join(GIVE_UP_S)
