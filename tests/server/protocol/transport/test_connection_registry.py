"""The registry: one timer for all connections, and none without connections."""

import asyncio
import typing

import pytest
from typing_extensions import override

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


class Talker(asyncio.Protocol, Watcher):
    """A connection that notes what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[bytes] = []
        self.lost = False
        self.on_data: typing.Callable[[], None] = lambda: None

    @override
    def data_received(self, data: bytes) -> None:
        self.received.append(data)
        self.on_data()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


class Transport(asyncio.Transport):
    """A socket; `receive` is what its client sends."""

    def __init__(self) -> None:
        super().__init__()
        self.protocols: list[asyncio.BaseProtocol] = []
        self.closing = False

    @override
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocols.append(protocol)

    @override
    def is_closing(self) -> bool:
        return self.closing

    def receive(self, data: bytes) -> None:
        protocol = self.protocols[-1]
        assert isinstance(protocol, asyncio.BufferedProtocol)
        room = memoryview(protocol.get_buffer(-1))
        room[: len(data)] = data
        protocol.buffer_updated(len(data))


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
    registry.on_arrival = lambda: came.append(registry.arrivals)
    for _ in range(2):
        connection = Watcher()
        registry.add(connection)
        registry.remove(connection)
    assert came == [1, 2]


async def test_an_idle_connection_counts_again_once_its_client_sends_something() -> None:
    registry = ConnectionRegistry(asyncio.get_running_loop(), tick=1)
    transport, connection = Transport(), Talker()
    registry.add(connection)
    arrived: list[int] = []
    registry.on_arrival = lambda: arrived.append(registry.awake)
    assert (registry.awake, registry.arrivals) == (1, 1)
    for _ in range(2):
        registry.rest(connection, transport)
    assert (len(registry), registry.awake, len(transport.protocols)) == (1, 0, 1)
    connection.on_data = lambda: arrived.append(-1)
    transport.receive(b"GET")
    assert arrived == [1, -1]  # it is said before the bytes are handled
    assert (registry.awake, registry.arrivals, connection.received) == (1, 2, [b"GET"])
    assert transport.protocols[-1] is connection


async def test_what_happens_to_an_idle_connection_otherwise_happens_to_it_as_ever() -> None:
    registry = ConnectionRegistry(asyncio.get_running_loop(), tick=1)
    transport, connection = Transport(), Talker()
    registry.add(connection)
    registry.rest(connection, transport)
    transport.protocols[-1].connection_lost(None)
    assert connection.lost
    registry.remove(connection)
    assert (len(registry), registry.awake, registry.arrivals) == (0, 0, 1)


async def test_a_connection_that_closes_does_not_become_idle() -> None:
    registry = ConnectionRegistry(asyncio.get_running_loop(), tick=1)
    transport, connection = Transport(), Talker()
    registry.add(connection)
    transport.closing = True
    registry.rest(connection, transport)
    assert registry.awake == 1
    assert transport.protocols == []


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
