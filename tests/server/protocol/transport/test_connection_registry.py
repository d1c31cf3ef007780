"""The registry: one timer for all connections, and none without connections."""

import asyncio
import typing

import pytest

from naiad.protocol.transport.connection_registry import ConnectionRegistry


class Watcher:
    """Notes when it was asked."""

    def __init__(self) -> None:
        self.checked: list[float] = []

    def check(self, now: float) -> None:
        self.checked.append(now)

    def drain(self, *, close_idle: bool) -> None: ...

    def give_up(self) -> None: ...

    def cut(self) -> None: ...


@pytest.mark.looptime
async def test_connections_are_checked_once_per_tick_and_now_moves_with_it() -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    registry = ConnectionRegistry(loop, tick=0.5)
    connection = Watcher()
    registry.add(connection)
    await asyncio.sleep(1.6)
    assert [round(at - start, 3) for at in connection.checked] == [0.5, 1.0, 1.5]
    assert round(registry.now - start, 3) == 1.5


@pytest.mark.looptime
async def test_an_empty_registry_has_no_timer_and_the_current_time_for_the_next_connection() -> (
    None
):
    loop = asyncio.get_running_loop()
    start = loop.time()
    registry = ConnectionRegistry(loop, tick=1)
    connection = Watcher()
    registry.add(connection)
    registry.remove(connection)
    registry.remove(connection)
    await asyncio.sleep(10)
    assert connection.checked == []
    registry.add(connection)
    assert round(registry.now - start, 3) == 10
    await asyncio.sleep(2.5)
    assert len(connection.checked) == 2


@pytest.mark.looptime
async def test_each_new_connection_is_announced() -> None:
    registry = ConnectionRegistry(asyncio.get_running_loop(), tick=1)
    came: list[int] = []
    registry.on_added = lambda: came.append(registry.added)
    for _ in range(2):
        connection = Watcher()
        registry.add(connection)
        registry.remove(connection)
    assert came == [1, 2]


@pytest.mark.looptime
async def test_connections_one_at_a_time_share_a_timer_that_ends_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    timers: list[float] = []
    call_later = loop.call_later

    def noted(delay: float, callback: typing.Callable[[], None]) -> asyncio.TimerHandle:
        timers.append(loop.time())
        return call_later(delay, callback)

    monkeypatch.setattr(loop, "call_later", noted)
    registry = ConnectionRegistry(loop, tick=1)
    for _ in range(100):
        connection = Watcher()
        registry.add(connection)
        registry.remove(connection)
    assert len(timers) == 1
    monkeypatch.undo()
    await asyncio.sleep(10)
    assert registry._timer is None


async def test_empty_is_waited_for() -> None:
    registry = ConnectionRegistry(asyncio.get_running_loop(), tick=1)
    await registry.empty()
    connection = Watcher()
    registry.add(connection)
    waiting = asyncio.ensure_future(registry.empty())
    await asyncio.sleep(0)
    assert not waiting.done()
    assert len(registry) == 1
    registry.remove(connection)
    await waiting
