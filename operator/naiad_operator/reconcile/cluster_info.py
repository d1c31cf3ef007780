"""Discovers the cluster: which optional kinds the API server serves, and which devices its nodes offer.

It is refreshed periodically, because both change while the operator runs: KEDA is installed, or a node's GPUs are partitioned
again. On a change a callback starts the watches of new kinds and reconciles the services.

Reading nodes requires a permission that an administrator may not grant. Without it there are no facts about nodes, and statuses
contain the scheduler's messages.
"""

import asyncio
import collections.abc
import dataclasses
import logging
import typing

from naiad_operator.builders.facts import ClusterFacts, Defaults
from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.resource_ref import ResourceRef

_log = logging.getLogger(__name__)
_NODES = ResourceRef("v1", "nodes")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The result of one discovery.

    Attributes:
        kinds: every kind that the API server serves, as "group/version/Kind".
        nodes: the sum of what all nodes can allocate, by resource; None when nodes may not be read.
    """

    kinds: frozenset[str]
    nodes: collections.abc.Mapping[str, int] | None


class ClusterInfo:
    """Discovers the cluster and keeps the result.

    Args:
        api: the client of the API server.
        defaults: the operator's defaults for services.
        inspect_nodes: whether to read nodes.

    Attributes:
        current: the last discovery.
    """

    def __init__(self, api: Client, defaults: Defaults, *, inspect_nodes: bool) -> None:
        self._api = api
        self._defaults = defaults
        self._inspect_nodes = inspect_nodes
        self.current = Discovery(kinds=frozenset(), nodes=None)

    async def refresh(self) -> bool:
        """Runs one discovery.

        Returns:
            Whether the result has changed.

        Raises:
            ApiError: the API server refused or did not respond.
        """
        current = Discovery(kinds=await self._api.kinds(), nodes=await self._nodes())
        has_changed = current != self.current
        self.current = current
        return has_changed

    async def refresh_periodically(
        self, interval: float, on_change: collections.abc.Callable[[], None]
    ) -> typing.NoReturn:
        """Runs a discovery every `interval` seconds until it is cancelled, and calls `on_change` after each change."""
        while True:
            await asyncio.sleep(interval)
            try:
                if await self.refresh():
                    on_change()
            except errors.ApiError as error:
                _log.warning("%s; what was known of the cluster is kept", error)

    def facts(
        self, image: str, current_replicas: int | None, *, replicas_are_ours: bool
    ) -> ClusterFacts:
        """The cluster facts for one service."""
        return ClusterFacts(
            apis=self.current.kinds,
            image=image,
            defaults=self._defaults,
            node_resources=self.current.nodes,
            current_replicas=current_replicas,
            replicas_are_ours=replicas_are_ours,
        )

    @property
    def defaults(self) -> Defaults:
        """The operator's defaults for services."""
        return self._defaults

    async def _nodes(self) -> collections.abc.Mapping[str, int] | None:
        if not self._inspect_nodes:
            return None
        allocatable: dict[str, int] = {}
        try:
            async for items, _ in self._api.pages(_NODES):
                for node in items:
                    for name, amount in _devices(node).items():
                        allocatable[name] = allocatable.get(name, 0) + amount
        except errors.Forbidden as error:
            _log.info("%s; conditions will say what the scheduler says", error)
            self._inspect_nodes = False
            return None
        return allocatable


def _devices(node: collections.abc.Mapping[str, typing.Any]) -> dict[str, int]:
    """The extended resources of a node: those with a domain in their names, which are integers by definition."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return {
        name: int(amount)
        for name, amount in allocatable.items()
        if "/" in name and str(amount).isdigit()
    }
