"""The discovery of served kinds: how often, and what counts as a change."""

import asyncio
import typing

import pytest

from naiad_operator.builders import kinds
from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.reconcile.lookups.cluster_info import CONFIRMED_S, ClusterInfo

pytestmark = pytest.mark.looptime


class Api:
    """Serves kinds, and counts how often it is asked."""

    def __init__(self, *served: str) -> None:
        self.served = set(served)
        self.calls = 0
        self.error: errors.ApiError | None = None

    async def kinds(self) -> frozenset[str]:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return frozenset(self.served)


def discovering(api: Api) -> ClusterInfo:
    return ClusterInfo(typing.cast("Client", api))


async def test_only_kinds_that_the_operator_uses_are_a_change() -> None:
    api = Api("v1/Pod", "example.com/v1/Other")
    info = discovering(api)
    await info.refresh()
    api.served.add("example.com/v1/Another")
    assert not await info.refresh()
    api.served.add(kinds.SCALED_OBJECT.key)
    assert await info.refresh()
    assert info.kinds == {kinds.SCALED_OBJECT.key}


async def test_a_request_comes_before_the_next_period_and_many_are_one() -> None:
    api = Api()
    info = discovering(api)
    changes: list[None] = []
    task = asyncio.create_task(info.refresh_periodically(30.0, lambda: changes.append(None)))
    await asyncio.sleep(29)
    assert api.calls == 0
    await asyncio.sleep(2)
    assert api.calls == 1
    api.served.add(kinds.SCALED_OBJECT.key)
    for _ in range(50):
        info.refresh_soon()
        await asyncio.sleep(0.1)
    assert 1 < api.calls < 5
    assert len(changes) == 1
    task.cancel()


@pytest.mark.parametrize(("seconds", "kept"), [(CONFIRMED_S - 3, True), (CONFIRMED_S + 5, False)])
async def test_a_kind_counts_as_removed_only_when_it_stays_so(
    seconds: float, *, kept: bool
) -> None:
    """An API server that has just started lacks all CRDs for a moment."""
    api = Api(kinds.SCALED_OBJECT.key)
    info = discovering(api)
    await info.refresh()
    changes: list[None] = []
    task = asyncio.create_task(info.refresh_periodically(30.0, lambda: changes.append(None)))
    await asyncio.sleep(29)
    api.served.clear()
    await asyncio.sleep(2 + seconds)
    assert (kinds.SCALED_OBJECT.key in info.kinds) is kept
    api.served.add(kinds.SCALED_OBJECT.key)
    await asyncio.sleep(60)
    assert info.kinds == {kinds.SCALED_OBJECT.key}
    assert len(changes) == (0 if kept else 2)
    task.cancel()


async def test_an_api_server_that_fails_does_not_change_what_is_known() -> None:
    api = Api(kinds.SCALED_OBJECT.key)
    info = discovering(api)
    await info.refresh()
    api.error = errors.ServerTrouble("read /apis", code=500)
    task = asyncio.create_task(info.refresh_periodically(30.0, lambda: pytest.fail("a change")))
    await asyncio.sleep(100)
    assert api.calls > 2
    assert info.kinds == {kinds.SCALED_OBJECT.key}
    task.cancel()
