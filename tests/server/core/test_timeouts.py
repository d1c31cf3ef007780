"""A time limit in a task that was cancelled before, where Python's own is right since 3.11.4."""

import asyncio
import pathlib
import re

import pytest

from naiad.core.timeouts import timeout

SERVER = pathlib.Path(__file__).parents[3] / "server"


async def waits_long() -> None:
    await asyncio.Event().wait()


async def test_what_takes_too_long_is_a_timeout() -> None:
    with pytest.raises(TimeoutError):
        async with timeout(0):
            await waits_long()
    async with timeout(None) as unlimited:
        await asyncio.sleep(0)
    assert not unlimited.expired()


async def test_also_where_a_cancelled_task_cleans_up() -> None:
    seen = list[str]()

    async def cleans_up() -> None:
        try:
            await waits_long()
        finally:
            try:
                async with timeout(0):
                    await waits_long()
            except TimeoutError:
                seen.append("a timeout")

    task = asyncio.ensure_future(cleans_up())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["a timeout"]


async def test_a_cancel_from_outside_stays_one() -> None:
    for seconds in (None, 3600, 0):

        async def limited(seconds: float | None = seconds) -> None:
            async with timeout(seconds):
                await waits_long()

        task = asyncio.ensure_future(limited())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_an_error_within_it_stays_as_it_is() -> None:
    with pytest.raises(ValueError, match="within"):
        async with timeout(3600):
            raise ValueError("within")


def test_the_server_uses_no_other() -> None:
    own = SERVER / "naiad" / "core" / "timeouts.py"
    others = [
        str(file.relative_to(SERVER))
        for file in SERVER.rglob("*.py")
        if file != own and re.search(r"\basyncio\.timeout\(", file.read_text())
    ]
    assert others == []
