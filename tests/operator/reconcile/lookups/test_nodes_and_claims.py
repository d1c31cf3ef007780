"""Nodes and claims: how often they are read, and what is known when they cannot be."""

import collections.abc
import typing

import pytest

from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.reconcile.lookups import nodes_and_claims

Object = dict[str, typing.Any]


class Api:
    """Counts reads, and may refuse them."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.error: errors.ApiError | None = None
        self.modes = ["ReadWriteOnce"]
        self.nodes: list[Object] = []

    async def get(self, ref: ResourceRef) -> Object:
        self._note(ref)
        return {"spec": {"accessModes": self.modes}}

    async def pages(
        self, ref: ResourceRef
    ) -> collections.abc.AsyncIterator[tuple[list[Object], str]]:
        self._note(ref)
        yield self.nodes, "1"

    def _note(self, ref: ResourceRef) -> None:
        self.reads.append(str(ref))
        if self.error is not None:
            raise self.error


class Clock:
    """Time that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def node(**allocatable: str) -> Object:
    return {"status": {"allocatable": allocatable}}


def nodes(api: Api, clock: Clock, *, enabled: bool = True) -> nodes_and_claims.Nodes:
    return nodes_and_claims.Nodes(typing.cast("Client", api), clock, enabled=enabled)


def claims(api: Api, clock: Clock) -> nodes_and_claims.Claims:
    return nodes_and_claims.Claims(typing.cast("Client", api), clock)


async def test_devices_are_the_sum_over_all_nodes_and_read_once_per_minute() -> None:
    api, clock = Api(), Clock()
    api.nodes = [node(cpu="64", **{"nvidia.com/gpu": "4"}), node(**{"nvidia.com/gpu": "2"})]
    looked = nodes(api, clock)
    for _ in range(5):
        assert await looked.devices() == {"nvidia.com/gpu": 6}
    assert api.reads == ["nodes"]
    clock.now += nodes_and_claims.NODES_KEPT_S
    await looked.devices()
    assert len(api.reads) == 2


@pytest.mark.parametrize(
    ("amount", "count"),
    [
        ("8", 8),
        ("1k", 1000),
        ("1Ki", 1024),
        ("0", 0),
        ("-1", 0),
        ("500m", 0),
        ("9223372036854775807", 2**63 - 1),
        ("9" * 5_000, 0),
        ("1e999999999", 0),
        ("1E", 10**18),
        ("100E", 0),
        ("\u00b2", 0),
        ("NaN", 0),
        ("Infinity", 0),
        ("", 0),
        (None, 0),
        ({"a": 1}, 0),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_an_amount_of_any_form_counts_or_is_left_out(amount: object, count: int) -> None:
    """Who is a node may write any: the others still count."""
    api = Api()
    strange: Object = {"status": {"allocatable": {"example.com/strange": amount}}}
    api.nodes = [strange, node(**{"nvidia.com/gpu": "2"})]
    found = await nodes(api, Clock()).devices()
    assert found is not None
    assert (found["nvidia.com/gpu"], found.get("example.com/strange", 0)) == (2, count)


async def test_nodes_that_must_not_be_read_are_not() -> None:
    api = Api()
    assert await nodes(api, Clock(), enabled=False).devices() is None
    assert api.reads == []


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (errors.Forbidden("list nodes", code=403), nodes_and_claims.RETRY_S),
        (errors.ServerTrouble("list nodes", code=500), nodes_and_claims.NODES_KEPT_S),
    ],
)
async def test_a_refusal_is_kept_and_then_tried_again(error: errors.ApiError, kept: float) -> None:
    api, clock = Api(), Clock()
    api.error = error
    looked = nodes(api, clock)
    for _ in range(3):
        assert await looked.devices() is None
    assert len(api.reads) == 1
    api.error = None
    clock.now += kept
    assert await looked.devices() == {}


async def test_a_claim_is_read_once_per_hour_however_many_services_mount_it() -> None:
    api, clock = Api(), Clock()
    looked = claims(api, clock)
    for _ in range(5):
        modes = await looked.access_modes("prod", ["models", "cache"])
        assert modes == dict.fromkeys(("models", "cache"), frozenset({"ReadWriteOnce"}))
    assert len(api.reads) == 2
    clock.now += nodes_and_claims.CLAIM_KEPT_S
    await looked.access_modes("prod", ["models"])
    assert len(api.reads) == 3


async def test_a_claim_that_is_missing_or_may_not_be_read_has_no_known_modes() -> None:
    api, clock = Api(), Clock()
    api.error = errors.NotFound("read", code=404)
    looked = claims(api, clock)
    assert await looked.access_modes("prod", ["late"]) == {"late": frozenset()}
    api.error = None
    clock.now += nodes_and_claims.RETRY_S
    assert await looked.access_modes("prod", ["late"]) == {"late": frozenset({"ReadWriteOnce"})}


async def test_an_api_server_that_fails_does_not_change_what_is_known() -> None:
    api, clock = Api(), Clock()
    looked = claims(api, clock)
    before = await looked.access_modes("prod", ["models"])
    clock.now += nodes_and_claims.CLAIM_KEPT_S
    api.error = errors.ServerTrouble("read", code=500)
    assert await looked.access_modes("prod", ["models"]) == before
