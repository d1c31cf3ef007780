"""Who may take a lease, and how it is given back."""

import copy
import datetime as dt
import typing

import pytest

from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.lease import Lease, Seen, Terms, may_take
from naiad_operator.cluster.place import Place

TERMS = Terms(duration=15.0)


@pytest.mark.parametrize(("holder", "age"), [("", 0.0), ("me", 0.0), ("other", 15.1)])
def test_a_lease_that_is_free_ours_or_not_renewed_may_be_taken(holder: str, age: float) -> None:
    assert may_take(Seen(holder, "1", 100.0), "me", 100.0 + age, TERMS)


def test_a_lease_that_another_one_renews_may_not() -> None:
    assert not may_take(Seen("other", "1", 100.0), "me", 114.9, TERMS)


class Api:
    """An API server that holds one Lease, and lets others write between our read and our write.

    Args:
        holder: whose the Lease is.
    """

    def __init__(self, holder: str) -> None:
        self.lease: dict[str, typing.Any] = {
            "metadata": {"resourceVersion": "1"},
            "spec": {"holderIdentity": holder},
        }
        self.writes_between: list[str] = []

    async def get(self, place: Place) -> dict[str, typing.Any]:
        read = copy.deepcopy(self.lease)
        if self.writes_between:
            self._write({"holderIdentity": self.writes_between.pop()})
        return read

    async def replace(self, place: Place, manifest: dict[str, typing.Any]) -> dict[str, typing.Any]:
        if manifest["metadata"] != self.lease["metadata"]:
            raise errors.Conflict(f"replace {place}")
        self._write(manifest["spec"])
        return self.lease

    def _write(self, spec: dict[str, typing.Any]) -> None:
        version = int(self.lease["metadata"]["resourceVersion"]) + 1
        self.lease = {"metadata": {"resourceVersion": str(version)}, "spec": spec}


async def held(api: Api) -> Lease:
    lease = Lease(
        typing.cast("Client", api),
        Place("coordination.k8s.io/v1", "leases", "ns", "naiad-operator"),
        me="me",
        terms=TERMS,
        clock=lambda: dt.datetime(2026, 1, 31, tzinfo=dt.UTC),
    )
    await lease.acquire()
    return lease


async def test_a_lease_is_given_back_although_a_renewal_was_on_its_way() -> None:
    """Another operator would have to wait for it to run out."""
    api = Api("")
    lease = await held(api)
    api.writes_between = ["me"]
    await lease.release()
    assert api.lease["spec"]["holderIdentity"] == ""


async def test_a_lease_that_another_one_has_taken_meanwhile_stays_its_own() -> None:
    api = Api("")
    lease = await held(api)
    api.writes_between = ["other"]
    await lease.release()
    assert api.lease["spec"]["holderIdentity"] == "other"
