"""The roster: one timer for everybody, and none for nobody."""

import asyncio

import pytest

from naiad.protocol.http.framing import Refusal
from naiad.protocol.http.roster import Roster


class Watcher:
    """Notes when it was asked."""

    def __init__(self) -> None:
        self.checked: list[float] = []

    def check(self, now: float) -> None:
        self.checked.append(now)

    def drain(self, *, close_idle: bool) -> None: ...

    def give_up(self, refusal: Refusal) -> None: ...

    def cut(self) -> None: ...


@pytest.mark.looptime
async def test_members_are_asked_once_a_tick_and_now_moves_with_it() -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    roster = Roster(loop, tick=0.5)
    member = Watcher()
    roster.enter(member)
    await asyncio.sleep(1.6)
    assert [round(at - start, 3) for at in member.checked] == [0.5, 1.0, 1.5]
    assert round(roster.now - start, 3) == 1.5


@pytest.mark.looptime
async def test_an_empty_roster_has_no_timer_and_a_fresh_time_for_who_comes_next() -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    roster = Roster(loop, tick=1)
    member = Watcher()
    roster.enter(member)
    roster.leave(member)
    roster.leave(member)
    await asyncio.sleep(10)
    assert member.checked == []
    roster.enter(member)
    assert round(roster.now - start, 3) == 10
    await asyncio.sleep(2.5)
    assert len(member.checked) == 2


async def test_empty_is_waited_for() -> None:
    roster = Roster(asyncio.get_running_loop(), tick=1)
    await roster.empty()
    member = Watcher()
    roster.enter(member)
    waiting = asyncio.ensure_future(roster.empty())
    await asyncio.sleep(0)
    assert not waiting.done()
    assert len(roster) == 1
    roster.leave(member)
    await waiting
