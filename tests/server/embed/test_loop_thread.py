"""Calls that a stop overtakes: they fail in the words that calls after a stop get, and none waits for ever."""

import asyncio
import collections.abc
import concurrent.futures
import contextlib
import threading

import pytest

import naiad
from naiad.embed.loop_thread import LoopThread

WORDS = "the server is not running: it was stopped"
GIVE_UP_S = 60


class Still:
    """Starts and stops at once."""

    async def start(self) -> None:
        """Start."""

    async def stop(self) -> None:
        """Stop."""


@pytest.fixture
def loop() -> collections.abc.Iterator[LoopThread]:
    made = LoopThread("naiad-test", Still(), begun=lambda: None, ended=lambda: None)
    made.start()
    yield made
    made.stop()


@pytest.mark.parametrize("how", ["waits", "shielded", "cancelled", "threads"])
def test_a_call_in_progress_at_the_stop(loop: LoopThread, how: str) -> None:
    begun = threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if how == "shielded":  # it goes on for as long as it can
                with contextlib.suppress(asyncio.CancelledError):
                    for _ in range(10):
                        await asyncio.sleep(0)
            if how == "threads":
                raise RuntimeError("cannot schedule new futures after shutdown") from None
            raise

    with concurrent.futures.ThreadPoolExecutor() as threads:
        calling = threads.submit(loop.call, work())
        assert begun.wait(GIVE_UP_S)
        loop.stop()
        with pytest.raises(naiad.InferenceError, match=WORDS) as caught:
            calling.result(GIVE_UP_S)
    assert caught.value.code is naiad.ErrorCode.UNAVAILABLE


@pytest.mark.filterwarnings("error")
def test_a_call_after_the_stop(loop: LoopThread) -> None:
    loop.stop()
    with pytest.raises(naiad.InferenceError, match=WORDS):
        loop.call(asyncio.sleep(0))


def test_a_call_that_comes_to_the_loop_after_its_last_turn() -> None:
    """The thread that calls runs while `ended` does, so that nothing takes what it posts."""
    calls = list["concurrent.futures.Future[None]"]()
    with concurrent.futures.ThreadPoolExecutor() as threads:

        def ended() -> None:
            posted = threading.Event()

            async def work() -> None:
                await asyncio.Event().wait()

            def call() -> None:
                posted.set()
                made.call(work())

            calls.append(threads.submit(call))
            assert posted.wait(GIVE_UP_S)

        made = LoopThread("naiad-test", Still(), begun=lambda: None, ended=ended)
        made.start()
        made.stop()
        with pytest.raises(naiad.InferenceError, match=WORDS):
            calls[0].result(GIVE_UP_S)


def test_what_a_call_raises_while_the_loop_runs_is_its_own(loop: LoopThread) -> None:
    async def fails() -> None:
        raise RuntimeError("of the call")

    with pytest.raises(RuntimeError, match="of the call"):
        loop.call(fails())
