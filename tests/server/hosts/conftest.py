"""Hosts of worker processes, closed whatever a test does with them."""

import collections.abc
import pathlib

import pytest

from naiad.hosts.survivors import SURVIVORS
from tests.server.hosts.workers import Hosts


@pytest.fixture
async def hosts(tmp_path: pathlib.Path) -> collections.abc.AsyncIterator[Hosts]:
    """Hosts that are closed at the end."""
    made = Hosts(tmp_path)
    yield made
    await made.close()


@pytest.fixture(autouse=True, scope="session")
def _shell_is_there() -> None:
    """The shell of `survivors` stays until the end: no test shall count its pipe as left behind."""
    no_process = 1 << 22
    SURVIVORS.add(no_process)
    SURVIVORS.remove(no_process)
