"""A poller in virtual time, and what it logs."""

import pytest

from naiad.repository.polling.poller import Poller
from tests.server.repository.world import World

QUIET_S = 5


def poller_of(world: World, *, quiet: float = 0, interval: float = 15) -> Poller:
    return Poller(
        reader=world.reader,
        models=world.repository,
        interval_seconds=interval,
        quiet_seconds=quiet,
        clock=world.clock,
    )


async def polled(poller: Poller) -> None:
    await poller.poll()
    await poller.applied()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if line.startswith("poll: ")]
