"""Hosts of worker processes, closed whatever a test does with them."""

import collections.abc
import pathlib

import pytest

from tests.server.hosts.workers import Hosts


@pytest.fixture
async def hosts(tmp_path: pathlib.Path) -> collections.abc.AsyncIterator[Hosts]:
    """Hosts that are closed at the end."""
    made = Hosts(tmp_path)
    yield made
    await made.close()
