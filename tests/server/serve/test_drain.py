"""Stopping in virtual time: what happens in which order, and what a step that does not end costs."""

import asyncio
import logging

import pytest

from naiad.serve.drain import drain
from tests.support.clock import LoopClock

pytestmark = pytest.mark.looptime


class Steps:
    """Records when each step was taken; closing and unloading take as long as configured."""

    def __init__(self, *, close_s: float = 0, unload_s: float = 0) -> None:
        self.taken: list[tuple[str, float]] = []
        self._close_s = close_s
        self._unload_s = unload_s
        self.sequences_s = 0.0
        self.sequences_in = 0.0

    def take(self, name: str) -> None:
        self.taken.append((name, asyncio.get_running_loop().time()))

    async def finish_sequences(self, seconds: float) -> None:
        self.sequences_in = seconds
        await asyncio.sleep(self.sequences_s)

    async def close(self, seconds: float) -> None:
        self.take(f"close within {seconds:g}")
        await asyncio.sleep(self._close_s)

    async def unload(self) -> None:
        self.take("unload")
        await asyncio.sleep(self._unload_s)


async def stop(steps: Steps, *, delay: float = 0, timeout: float = 30) -> bool:  # noqa: ASYNC109 - the option's name
    clock = LoopClock(asyncio.get_running_loop())
    return await drain(
        lame_duck=lambda: steps.take("lame duck"),
        finish_sequences=steps.finish_sequences,
        close=steps.close,
        unload=steps.unload,
        inflight=lambda: 3,
        live_models=lambda: 2,
        delay_seconds=delay,
        timeout_seconds=timeout,
        clock=clock,
    )


async def test_it_accepts_for_the_delay_then_closes_then_unloads() -> None:
    steps = Steps(close_s=4)
    assert await stop(steps, delay=10)
    assert steps.taken == [
        ("lame duck", 0),
        ("close within 31", 10),
        ("unload", 14),
    ]


async def test_open_sequences_get_most_of_the_time_while_it_still_accepts() -> None:
    steps = Steps(close_s=4)
    steps.sequences_s = 8
    assert await stop(steps, delay=10)
    assert steps.sequences_in == 25
    assert steps.taken == [("lame duck", 0), ("close within 23", 18), ("unload", 22)]
    steps = Steps()
    await stop(steps, timeout=4)
    assert steps.sequences_in == 2


async def test_steps_that_exceed_the_timeout_are_abandoned_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "naiad"):
        assert not await stop(Steps(close_s=10, unload_s=25))
    assert asyncio.get_running_loop().time() == 30
    assert (
        "Exit timeout expired. Exiting immediately. (3 inferences were not answered)" in caplog.text
    )


async def test_the_countdown_logs_what_is_left_every_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "naiad"):
        assert await stop(Steps(close_s=2.5))
    lines = [record.getMessage() for record in caplog.records if "Found" in record.getMessage()]
    assert lines == [
        f"Timeout {left}: Found 2 live models and 3 in-flight inferences" for left in (30, 29, 28)
    ]
