"""Which repositories are polled, and how often (rows 7.30, 7.37)."""

import pathlib
from typing import Any

import pytest

from naiad.core.clock import ManualClock
from naiad.options.options import Options
from naiad.repository.control_mode import ControlMode
from naiad.repository.requests.coordination import Coordination
from naiad.repository.store import LocalStore
from naiad.serve.repositories import RepositoryFactory

POLL = ControlMode.POLL


class Loader:
    """Loads nothing."""

    async def load(self, _: object) -> None:
        raise AssertionError("nothing is loaded")

    resolve = load


async def pollers(root: pathlib.Path, **options: Any) -> list[tuple[float, float]]:
    """The interval and the quiet period of each."""
    stores = [LocalStore(str(root / name)) for name in ("a", "b")]
    unused: Any = Loader()
    factory = RepositoryFactory(
        Options(model_repository=tuple(store.location for store in stores), **options),
        loader=unused,
        agents=unused,
        coordination=Coordination(1),
        progress=unused,
        memory=None,
        clock=ManualClock(),
    )
    repository, made = factory.make(stores)
    await repository.unload_all()
    return [(poller._interval_seconds, poller._quiet_seconds) for poller in made._pollers]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"model_control_mode": ControlMode.EXPLICIT}, []),
        ({"model_control_mode": POLL}, [(15, 5)]),
        ({"model_control_mode": POLL, "repository_poll_secs": 0}, []),
        ({"model_control_mode": POLL, "repository_poll_secs": 2}, [(2, 2)]),
        ({"model_control_mode": POLL, "repository_quiet_secs": 60.0}, [(15, 60)]),
        ({"model_control_mode": POLL, "repository_quiet_secs": 0.0}, [(15, 0)]),
        ({"model_control_mode": POLL, "model_namespacing": True}, [(15, 5), (15, 5)]),
    ],
    ids=str,
)
async def test_stores_are_polled_in_mode_poll(
    tmp_path: pathlib.Path, options: dict[str, Any], expected: list[tuple[float, float]]
) -> None:
    assert await pollers(tmp_path, **options) == expected
