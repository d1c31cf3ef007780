"""Whether this process may write: always without leader election, else while it holds the Lease."""

import asyncio
import collections.abc
import secrets
import socket

from naiad_operator.cluster import client, lease
from naiad_operator.cluster.resource_ref import ResourceRef


class Leadership:
    """The Lease of this process, if leader election is on.

    Args:
        held: the Lease; None without leader election.
    """

    def __init__(self, held: lease.Lease | None) -> None:
        self._lease = held

    @property
    def leads(self) -> bool:
        """Whether this process may write."""
        return self._lease is None or self._lease.held

    @property
    def is_elected(self) -> bool:
        """Whether leader election is on."""
        return self._lease is not None

    async def acquire(self) -> None:
        """Waits until this process may write."""
        if self._lease is not None:
            await self._lease.acquire()

    async def keep(self, on_lost: collections.abc.Callable[[], None]) -> None:
        """Renews the Lease; calls `on_lost` when it is lost, and then waits to be cancelled."""
        if self._lease is not None:
            await self._lease.renew()
            # From now on another process may write, so this one must end as soon as possible.
            on_lost()
        await asyncio.get_running_loop().create_future()

    async def release(self) -> None:
        """Releases the Lease, if this process holds it."""
        if self._lease is not None:
            await self._lease.release()


def elected(api: client.Client, *, namespace: str, name: str, clock: lease.Clock) -> Leadership:
    """The leadership of a process that competes for a Lease."""
    ref = ResourceRef("coordination.k8s.io/v1", "leases", namespace, name)
    identity = f"{socket.gethostname()}-{secrets.token_hex(4)}"
    config = lease.LeaseConfig()
    return Leadership(lease.Lease(api, ref, identity=identity, config=config, clock=clock))
