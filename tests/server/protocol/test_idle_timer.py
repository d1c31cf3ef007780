"""What is not used for a while is given up, in virtual time."""

import asyncio

import pytest

from naiad.protocol.idle_timer import IdleTimer


class Kept:
    """Notes when it is to be given up."""

    def __init__(self, *, busy_until: float = 0) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._busy_until = busy_until
        self.given_up: list[int] = []

    def idle(self) -> bool:
        now = self._loop.time() - self._start
        if now < self._busy_until:
            return False
        self.given_up.append(round(now))
        return True


@pytest.mark.looptime
async def test_it_is_given_up_once_after_a_while_without_use() -> None:
    kept = Kept()
    timer = IdleTimer(10, kept.idle)
    assert timer.used()
    await asyncio.sleep(6)
    assert not timer.used()
    await asyncio.sleep(30)
    assert kept.given_up == [20]
    assert timer.used()
    await asyncio.sleep(30)
    assert kept.given_up == [20, 46]


@pytest.mark.looptime
async def test_what_is_busy_is_given_up_later() -> None:
    kept = Kept(busy_until=35)
    IdleTimer(10, kept.idle).used()
    await asyncio.sleep(60)
    assert kept.given_up == [40]


@pytest.mark.looptime
async def test_a_closed_timer_does_not_call_back() -> None:
    kept = Kept()
    timer = IdleTimer(10, kept.idle)
    timer.used()
    timer.close()
    timer.close()
    await asyncio.sleep(30)
    assert kept.given_up == []
