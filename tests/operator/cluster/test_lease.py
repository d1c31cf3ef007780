"""Leader election: when a Lease may be acquired, and how it is released."""

import copy
import datetime as dt
import typing

import pytest

from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.lease import Lease, LeaseConfig, LeaseRecord, may_acquire
from naiad_operator.cluster.resource_ref import ResourceRef

CONFIG = LeaseConfig(lease_duration=15.0)


@pytest.mark.parametrize(("holder", "age"), [("", 0.0), ("me", 0.0), ("other", 15.1)])
def test_a_lease_that_is_free_own_or_expired_may_be_acquired(holder: str, age: float) -> None:
    assert may_acquire(LeaseRecord(holder, "1", 100.0), "me", 100.0 + age, CONFIG)


def test_a_lease_that_another_process_renews_may_not_be_acquired() -> None:
    assert not may_acquire(LeaseRecord("other", "1", 100.0), "me", 114.9, CONFIG)


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

    async def get(self, ref: ResourceRef) -> dict[str, typing.Any]:
        read = copy.deepcopy(self.lease)
        if self.writes_between:
            self._write({"holderIdentity": self.writes_between.pop()})
        return read

    async def replace(
        self, ref: ResourceRef, manifest: dict[str, typing.Any]
    ) -> dict[str, typing.Any]:
        if manifest["metadata"] != self.lease["metadata"]:
            raise errors.Conflict(f"replace {ref}")
        self._write(manifest["spec"])
        return self.lease

    def _write(self, spec: dict[str, typing.Any]) -> None:
        version = int(self.lease["metadata"]["resourceVersion"]) + 1
        self.lease = {"metadata": {"resourceVersion": str(version)}, "spec": spec}


async def held(api: Api) -> Lease:
    lease = Lease(
        typing.cast("Client", api),
        ResourceRef("coordination.k8s.io/v1", "leases", "ns", "naiad-operator"),
        identity="me",
        config=CONFIG,
        clock=lambda: dt.datetime(2026, 1, 31, tzinfo=dt.UTC),
    )
    await lease.acquire()
    return lease


async def test_a_lease_is_released_although_a_renewal_was_in_flight() -> None:
    """Another operator would have to wait for it to run out."""
    api = Api("")
    lease = await held(api)
    api.writes_between = ["me"]
    await lease.release()
    assert api.lease["spec"]["holderIdentity"] == ""


async def test_release_keeps_a_lease_that_another_process_has_acquired() -> None:
    api = Api("")
    lease = await held(api)
    api.writes_between = ["other"]
    await lease.release()
    assert api.lease["spec"]["holderIdentity"] == "other"


async def test_a_lease_that_has_changed_hands_as_often_as_its_field_can_hold_is_acquired() -> None:
    """Or no process could write it, and none would lead."""
    api = Api("")
    api.lease["spec"]["leaseTransitions"] = 2**31 - 1
    await held(api)
    assert api.lease["spec"]["leaseTransitions"] == 2**31 - 1
