"""The settings of kopf, and how it logs in."""

import asyncio
import collections.abc
import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from kopf._core.intents.causes import Activity

from naiad_operator.cluster.credentials import Credentials, Endpoint
from naiad_operator.handlers import registry


def test_an_unreachable_api_server_is_retried_without_an_end() -> None:
    backoffs = registry.settings().networking.error_backoffs
    assert isinstance(backoffs, collections.abc.Iterable)
    # An hour and more of waiting, and no number after which kopf would count the last try.
    waits = list(itertools.islice(backoffs, 500))
    assert len(waits) == 500
    assert not isinstance(backoffs, collections.abc.Sized)
    assert sum(waits) > 3600
    assert min(waits) > 0
    assert max(waits) <= 10
    assert waits == sorted(waits)


def test_every_request_begins_with_short_waits() -> None:
    backoffs = registry.settings().networking.error_backoffs
    assert isinstance(backoffs, collections.abc.Iterable)
    first, second = (list(itertools.islice(backoffs, 20)) for _ in range(2))
    assert first == second
    assert first[0] <= 1


@pytest.mark.looptime
async def test_kopf_logs_in_by_the_operators_credentials_alone_and_not_all_the_time() -> None:
    """It has logins of its own when the package `kubernetes` is installed, and repeats one after each 401 at once."""
    access = Credentials("", Endpoint(server="http://api.example.com", namespace="ours"))
    runtime: Any = SimpleNamespace(access=access)
    handlers = registry.registry(runtime)
    (login,) = handlers._activities.get_handlers(Activity.AUTHENTICATION)
    log_in: Any = login.fn
    began = asyncio.get_running_loop().time()
    for seconds in (0, 1, 2):
        session = await log_in()
        await session.aiohttp_session.close()
        assert (session.server, session.default_namespace) == ("http://api.example.com", "ours")
        assert asyncio.get_running_loop().time() - began == pytest.approx(seconds, abs=0.1)
