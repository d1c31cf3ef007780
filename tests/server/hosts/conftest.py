"""Hosts of worker processes and of threads, and links, closed whatever a test does with them."""

import asyncio
import collections.abc
import pathlib
import socket

import pytest

from naiad.core.clock import SystemClock
from naiad.hosts.link.link import Link
from naiad.hosts.process.spawn import ORPHAN_REAPER
from naiad.hosts.thread_host import ThreadHost
from tests.server.hosts.links import Pair
from tests.server.hosts.process.workers import Hosts
from tests.server.hosts.threads import Hosted, local
from tests.support.hosts import ScriptedInstance


@pytest.fixture
async def hosts(tmp_path: pathlib.Path) -> collections.abc.AsyncIterator[Hosts]:
    """Hosts that are closed at the end."""
    made = Hosts(tmp_path)
    yield made
    await made.close()


@pytest.fixture
async def hosted() -> collections.abc.AsyncIterator[Hosted]:
    """Makes thread hosts, which are closed at the end, so that no thread outlives its test."""
    hosts: list[ThreadHost] = []

    def make(instance: ScriptedInstance) -> ThreadHost:
        loop = asyncio.get_running_loop()
        host = ThreadHost("resnet_instance_0_1", local(instance), clock=SystemClock(), loop=loop)
        hosts.append(host)
        return host

    yield make
    for host in hosts:
        await host.close()


@pytest.fixture
def pair() -> collections.abc.Iterator[Pair]:
    """Both ends of a link."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for each in (ours, theirs):
        each.setblocking(False)
    made = Link(ours), Link(theirs)
    yield made
    for link_end in made:
        link_end.close()


@pytest.fixture(autouse=True, scope="session")
def _shell_is_there() -> None:
    """The shell of `orphan_reaper` stays until the end: no test shall count its pipe as left behind."""
    no_process = 1 << 22
    ORPHAN_REAPER.add(no_process)
    ORPHAN_REAPER.remove(no_process)
