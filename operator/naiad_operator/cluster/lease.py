"""Which of several operators writes: a Lease that one holds and renews, and the others wait for. Off by default.

`decide` is plain: what the Lease says, who we are and what time it is in, what to write out. As everywhere in Kubernetes the
holder's renewals are judged by our own clock, from the moment we first saw a version of the Lease, so that clocks which differ
do no harm. Who cannot renew for longer than its deadline stops by itself, before another one may take over.
"""

import asyncio
import collections.abc
import dataclasses
import datetime as dt
import logging
import typing

from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.place import Place

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How leading goes, in seconds.

    Attributes:
        duration: without a renewal, after which others may take over.
        deadline: without a renewal, after which the holder stops.
        retry: between looks and renewals.
    """

    duration: float = 15.0
    deadline: float = 10.0
    retry: float = 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """The Lease as it was last read, and when (by our clock) its version was first seen."""

    holder: str
    version: str
    since: float


def may_take(seen: Seen, me: str, now: float, terms: Terms) -> bool:
    """Whether the lease is ours to renew or to take."""
    return seen.holder in ("", me) or now - seen.since > terms.duration


class Lease:
    """Holds one Lease, or waits for it.

    Args:
        api: where it is.
        place: the Lease.
        me: who we are, different for each process.
        terms: see there.
        clock: the time of day, for people who read the Lease.
    """

    def __init__(
        self,
        api: Client,
        place: Place,
        *,
        me: str,
        terms: Terms,
        clock: collections.abc.Callable[[], dt.datetime],
    ) -> None:
        self._api = api
        self._place = place
        self._me = me
        self._terms = terms
        self._clock = clock
        self._seen = Seen("", "", 0.0)
        self.held = False

    async def acquire(self) -> None:
        """Waits until the lease is ours."""
        while not await self._try():  # noqa: ASYNC110 - what is waited for happens on the API server
            await asyncio.sleep(self._terms.retry)
        self.held = True
        _log.info("%s holds %s", self._me, self._place)

    async def keep(self) -> None:
        """Renews; returns when the lease is lost."""
        renewed = self._now()
        while True:
            await asyncio.sleep(self._terms.retry)
            left = self._terms.deadline - (self._now() - renewed)
            try:
                async with asyncio.timeout(max(0.0, left)):
                    ours = await self._try()
            except TimeoutError:
                ours = False
            if ours:
                renewed = self._now()
            elif (
                self._seen.holder not in ("", self._me)
                or self._now() - renewed > self._terms.deadline
            ):
                self.held = False
                _log.error("lost %s to %s", self._place, self._seen.holder or "nobody we know")
                return

    async def release(self) -> None:
        """Lets another one take over at once."""
        if not self.held:
            return
        self.held = False
        try:
            try:
                await self._give_back()
            except errors.Conflict:
                # A renewal of our own that was on its way when we stopped; there is no other.
                await self._give_back()
        except errors.ApiError as error:
            _log.warning("%s; another operator takes over when the lease runs out", error)

    async def _give_back(self) -> None:
        lease = await self._api.get(self._place)
        if (lease.get("spec") or {}).get("holderIdentity") == self._me:
            lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            await self._api.replace(self._place, lease)

    async def _try(self) -> bool:
        """Reads, and takes or renews if it may. False when it is somebody else's or the API server does not answer."""
        try:
            try:
                lease = await self._api.get(self._place)
            except errors.NotFound:
                await self._api.create(dataclasses.replace(self._place, name=""), self._fresh())
                return True
            spec = lease.get("spec") or {}
            self._note(spec.get("holderIdentity") or "", lease["metadata"]["resourceVersion"])
            if not may_take(self._seen, self._me, self._now(), self._terms):
                return False
            taken = self._fresh()["spec"]
            moves = self._seen.holder != self._me
            taken["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + int(moves)
            if not moves:
                taken["acquireTime"] = spec.get("acquireTime") or taken["acquireTime"]
            await self._api.replace(self._place, {**lease, "spec": taken})
        except errors.Conflict:
            return False  # somebody was quicker
        except errors.ApiError as error:
            _log.warning("%s", error)
            return False
        return True

    def _note(self, holder: str, version: str) -> None:
        if version != self._seen.version:
            self._seen = Seen(holder, version, self._now())

    def _fresh(self) -> dict[str, typing.Any]:
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._place.name, "namespace": self._place.namespace},
            "spec": {
                "holderIdentity": self._me,
                "leaseDurationSeconds": int(self._terms.duration),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
