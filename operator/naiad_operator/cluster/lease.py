"""Leader election: one of several operators holds and renews a Lease and writes; the others wait for it. Off by default.

As in client-go, the age of the holder's last renewal is measured with the local clock, from the moment at which this process
first observed that version of the Lease, so that clock differences between nodes have no effect. A leader that cannot renew for
longer than its deadline stops by itself, before another operator may take over.
"""

import asyncio
import collections.abc
import dataclasses
import datetime as dt
import logging
import typing

from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.resource_ref import ResourceRef

_log = logging.getLogger(__name__)

Clock = collections.abc.Callable[[], dt.datetime]
"""The time of day."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LeaseConfig:
    """The times of the leader election, in seconds; the names are those of client-go.

    Attributes:
        lease_duration: the time without a renewal after which another operator may take over.
        renew_deadline: the time without a renewal after which the leader stops.
        retry_period: the time between two attempts to acquire or renew.
    """

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


_MOST_TRANSITIONS = 2**31 - 1
"""What the field can hold; a Lease that cannot be renewed would have no leader."""


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The Lease as it was last read, and when this version was first observed (local clock)."""

    holder: str
    version: str
    observed_at: float


def may_acquire(record: LeaseRecord, identity: str, now: float, config: LeaseConfig) -> bool:
    """Whether this process may write the Lease: it holds it, it is free, or its holder's last renewal is too old."""
    return record.holder in ("", identity) or now - record.observed_at > config.lease_duration


class Lease:
    """Acquires, renews and releases one Lease.

    Args:
        api: the client of the API server.
        ref: the Lease.
        identity: the holder identity, unique per process.
        config: the times of the leader election.
        clock: the time of day, for the timestamps in the Lease.

    Attributes:
        held: whether this process is the leader.
    """

    def __init__(
        self,
        api: Client,
        ref: ResourceRef,
        *,
        identity: str,
        config: LeaseConfig,
        clock: Clock,
    ) -> None:
        self._api = api
        self._ref = ref
        self._identity = identity
        self._config = config
        self._clock = clock
        self._record = LeaseRecord("", "", 0.0)
        self.held = False

    async def acquire(self) -> None:
        """Waits until this process holds the Lease."""
        while not await self._try_acquire_or_renew():  # noqa: ASYNC110 - what is waited for happens on the API server
            await asyncio.sleep(self._config.retry_period)
        self.held = True
        _log.info("%s holds %s", self._identity, self._ref)

    async def renew(self) -> None:
        """Renews the Lease until it is lost, then returns."""
        renewed = self._now()
        while True:
            await asyncio.sleep(self._config.retry_period)
            left = self._config.renew_deadline - (self._now() - renewed)
            try:
                async with asyncio.timeout(max(0.0, left)):
                    renewed_now = await self._try_acquire_or_renew()
            except TimeoutError:
                renewed_now = False
            if renewed_now:
                renewed = self._now()
            elif (
                self._record.holder not in ("", self._identity)
                or self._now() - renewed > self._config.renew_deadline
            ):
                self.held = False
                _log.error("lost %s to %s", self._ref, self._record.holder or "an unknown holder")
                return

    async def release(self) -> None:
        """Releases the Lease, so that another operator can take over at once."""
        if not self.held:
            return
        self.held = False
        try:
            try:
                await self._release_now()
            except errors.Conflict:
                # The process's own last renewal was still in flight; no other process writes.
                await self._release_now()
        except errors.ApiError as error:
            _log.warning("%s; another operator takes over when the lease runs out", error)

    async def _release_now(self) -> None:
        lease = await self._api.get(self._ref)
        if (lease.get("spec") or {}).get("holderIdentity") == self._identity:
            lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            await self._api.replace(self._ref, lease)

    async def _try_acquire_or_renew(self) -> bool:
        """Acquires or renews the Lease; False when another process holds it or the API server does not respond."""
        try:
            try:
                lease = await self._api.get(self._ref)
            except errors.NotFound:
                await self._api.create(dataclasses.replace(self._ref, name=""), self._new_lease())
                return True
            spec = lease.get("spec") or {}
            self._observe(spec.get("holderIdentity") or "", lease["metadata"]["resourceVersion"])
            if not may_acquire(self._record, self._identity, self._now(), self._config):
                return False
            new_spec = self._new_lease()["spec"]
            takes_over = self._record.holder != self._identity
            transitions = (spec.get("leaseTransitions") or 0) + int(takes_over)
            new_spec["leaseTransitions"] = min(transitions, _MOST_TRANSITIONS)
            if not takes_over:
                new_spec["acquireTime"] = spec.get("acquireTime") or new_spec["acquireTime"]
            await self._api.replace(self._ref, {**lease, "spec": new_spec})
        except errors.Conflict:
            return False  # another process has written it first
        except errors.ApiError as error:
            _log.warning("%s", error)
            return False
        return True

    def _observe(self, holder: str, version: str) -> None:
        if version != self._record.version:
            self._record = LeaseRecord(holder, version, self._now())

    def _new_lease(self) -> dict[str, typing.Any]:
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._ref.name, "namespace": self._ref.namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": int(self._config.lease_duration),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
