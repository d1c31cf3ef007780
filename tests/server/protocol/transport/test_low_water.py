"""The mark is never above what still comes, a client that pauses is read all the same, and a socket that is not the connection's any more is left alone."""

import asyncio
import collections.abc
import socket
import typing

import pytest

from naiad.protocol.transport.low_water import GRACE_S, LEAST_BYTES, MOST_BYTES, LowWaterMark


class Loop:
    """Timers that run when the test says so."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, collections.abc.Callable[[], None]]] = []

    def call_later(self, delay: float, then: collections.abc.Callable[[], None]) -> typing.Any:
        self.timers.append((delay, then))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def run(self) -> None:
        """`GRACE_S` pass."""
        timers, self.timers = self.timers, []
        for delay, then in timers:
            assert delay == GRACE_S
            then()


class Transport:
    """A transport of a socket."""

    def __init__(self, own: socket.socket, *, secured: bool) -> None:
        self.closing = False
        self._extra = {"socket": own, "ssl_object": object() if secured else None}

    def get_extra_info(self, name: str) -> object:
        return self._extra[name]

    def is_closing(self) -> bool:
        return self.closing


class Connection:
    """A socket with a mark."""

    def __init__(self, own: socket.socket, *, secured: bool = False) -> None:
        self.own = own
        self.loop = Loop()
        self.transport = Transport(own, secured=secured)
        loop = typing.cast("asyncio.AbstractEventLoop", self.loop)
        self.low_water = LowWaterMark(loop, typing.cast("asyncio.Transport", self.transport))

    @property
    def mark(self) -> int:
        """What the kernel waits for."""
        return self.own.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


@pytest.fixture
def own() -> typing.Iterator[socket.socket]:
    with socket.socket() as made:
        yield made


def test_it_is_what_one_read_takes_and_then_the_rest(own: socket.socket) -> None:
    connection = Connection(own)
    found = []
    for count in (1 << 20, MOST_BYTES + 1, 100_000, LEAST_BYTES - 1, 1 << 20, 0):
        connection.low_water.wait_for(count)
        found.append(connection.mark)
    assert found == [MOST_BYTES, MOST_BYTES, 100_000, 1, MOST_BYTES, 1]


def test_a_client_that_pauses_is_read_all_the_same(own: socket.socket) -> None:
    connection = Connection(own)
    connection.low_water.wait_for(1 << 20)
    connection.loop.run()
    connection.low_water.wait_for(1 << 20)
    connection.loop.run()
    assert connection.mark == MOST_BYTES  # it was read meanwhile
    connection.loop.run()
    assert connection.mark == 1
    assert not connection.loop.timers


def test_between_messages_there_is_no_timer(own: socket.socket) -> None:
    connection = Connection(own)
    connection.low_water.wait_for(1 << 20)
    connection.low_water.wait_for(0)
    assert len(connection.loop.timers) == 1  # of the message that has come
    connection.loop.run()
    assert not connection.loop.timers


def test_what_is_encrypted_is_read_as_it_comes(own: socket.socket) -> None:
    connection = Connection(own, secured=True)
    connection.low_water.wait_for(1 << 20)
    assert connection.mark == 1
    assert not connection.loop.timers


def test_a_lost_connection_keeps_no_timer(own: socket.socket) -> None:
    connection = Connection(own)
    connection.low_water.wait_for(1 << 20)
    connection.low_water.close()
    assert not connection.loop.timers


def test_a_descriptor_that_may_be_another_sockets_is_left_alone(own: socket.socket) -> None:
    connection = Connection(own)
    connection.transport.closing = True
    connection.low_water.wait_for(1 << 20)
    assert connection.mark == 1
