"""The links of a worker process to its instances, with the process's ends in the test."""

import asyncio
import collections.abc
import contextlib
import socket
import typing

import pytest

from naiad.hosts.cpu_affinity import WorkerAffinity
from naiad.hosts.host import WorkerInstance
from naiad.hosts.link.kinds import BATCH, CALL, CLOSE, CREDIT, OUTCOME, PONG, RESPONSE
from naiad.hosts.link.link import AHEAD_BYTES, GONE, Link, LinkBrokenError
from naiad.hosts.link.payload import Gathering
from naiad.hosts.process.instance_links import InstanceLinks
from naiad.hosts.process.output_log import Identity
from tests.support.waiting import TIMEOUT_S, until


class Noting:
    """An instance that notes what comes."""

    def __init__(self) -> None:
        self.came: list[tuple[int, bytes]] = []

    def on_message(self, kind: int, header: bytes) -> None:
        self.came.append((kind, bytes(header)))

    def on_notification(self, kind: int, number: int, header: bytes, base: typing.Any) -> None:
        self.came.append((kind, bytes(header)))


class Affinity:
    """Notes the threads that are bound."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def add(self, thread: int) -> None:
        self.threads.add(thread)

    def remove(self, thread: int) -> None:
        self.threads.discard(thread)


class World:
    """Links with one instance at place 0; `far` is the process's end of it."""

    def __init__(self, undo: contextlib.ExitStack) -> None:
        self.notified: list[tuple[typing.Any, ...]] = []
        self.deaf: list[LinkBrokenError] = []
        self.broken: list[tuple[int, str]] = []
        self.affinity = Affinity()
        self.links = InstanceLinks(
            Identity("m", 1, "m_0_0"),
            loop=asyncio.get_running_loop(),
            notify=lambda *what: self.notified.append(what),
            affinity=typing.cast("WorkerAffinity", self.affinity),
            deaf=self.deaf.append,
            broken=lambda place, error: self.broken.append((place, str(error))),
        )
        undo.callback(self.links.drop_all)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self.far = Link(theirs)
        undo.callback(self.far.close)
        self.instance = Noting()
        self.links.listen(0, Link(ours), typing.cast("WorkerInstance", self.instance))


@pytest.fixture
async def world() -> collections.abc.AsyncIterator[World]:
    with contextlib.ExitStack() as undo:
        yield World(undo)


async def test_what_an_instance_sends_comes_in_its_order(world: World) -> None:
    world.far.notify(PONG, b"")
    world.far.notify(RESPONSE, b"a")
    world.far.send(OUTCOME, b"b")
    world.far.notify(CALL, b"c")
    await until(lambda: len(world.instance.came) == 4)
    assert world.instance.came == [(PONG, b""), (RESPONSE, b"a"), (OUTCOME, b"b"), (CALL, b"c")]


async def test_the_process_gets_credit_before_its_responses_would_have_to_wait(
    world: World,
) -> None:
    size = AHEAD_BYTES // 4
    for _ in range(3):
        world.far.notify(RESPONSE, b"x" * size)
    await until(lambda: len(world.instance.came) == 3)
    assert [what[:2] for what in world.notified] == [(CREDIT, 3 * size)]


async def test_a_message_reaches_the_instance_and_a_large_one_by_a_thread(world: World) -> None:
    world.links.send(0, BATCH, b"small")
    assert world.far.receive() == (BATCH, 0, b"small")
    sent: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    gathering = Gathering(lambda: 7)
    world.links.send_aside(
        0, BATCH, b"y" * (1 << 16), None, 5, gathering=gathering, done=sent.set_result
    )
    assert await asyncio.wait_for(sent, TIMEOUT_S) is None
    assert (gathering.begun_ns, gathering.ended_ns) == (7, 7)
    assert world.far.receive() == (BATCH, 5, b"y" * (1 << 16))
    world.links.end()


async def test_a_link_that_the_process_closed_is_said_once_for_each_direction(
    world: World,
) -> None:
    world.far.close()
    await until(lambda: world.broken)
    assert world.broken == [(0, GONE)]
    world.links.send(0, BATCH, b"")
    assert len(world.deaf) == 1


async def test_an_instance_is_asked_once_to_close_and_is_gone_when_it_says_so(
    world: World,
) -> None:
    world.links.served_by(0, 4711)
    for _ in range(2):
        world.links.ask_to_close(0)
    assert world.far.receive()[0] == CLOSE
    closing = world.links.closing[0]
    assert not closing.done()
    world.links.drop(0)
    assert closing.done()
    assert (world.links.by_place, world.links.closing, world.affinity.threads) == ({}, {}, set())
    world.links.ask_to_close(0)  # there is nothing any more
    assert world.links.closing == {}


async def test_what_was_sent_before_the_end_is_taken_and_nothing_is_called_after_it(
    world: World,
) -> None:
    for number in range(100):
        world.far.notify(RESPONSE, b"%d" % number)
    world.far.send(OUTCOME, b"last")
    world.far.close()
    world.links.take_the_rest()
    assert len(world.instance.came) == 101
    assert world.instance.came[-1] == (OUTCOME, b"last")
    world.links.end()
    world.links.send(0, BATCH, b"")
    assert world.deaf == []
