"""What the cluster is like, for all services alike: which optional kinds it serves, and what its nodes offer.

Asked again and again, because both change while the operator runs: somebody installs KEDA, a node is partitioned anew. Who
subscribes hears of a change, so that watches are started for new kinds and services are looked at again.

Nodes need a permission that a cluster's owner may not want to give. Without it there are no facts about nodes, and statuses
repeat what the scheduler says.
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
class Seen:
    """One look around.

    Attributes:
        kinds: everything the API server serves, "group/version/Kind".
        nodes: what all nodes together can allocate, by resource; None when they may not be read.
    """

    kinds: frozenset[str]
    nodes: collections.abc.Mapping[str, int] | None


class Surroundings:
    """Looks around.

    Args:
        api: where to ask.
        defaults: the operator's.
        inspect_nodes: whether to ask for nodes at all.
    """

    def __init__(self, api: Client, defaults: Defaults, *, inspect_nodes: bool) -> None:
        self._api = api
        self._defaults = defaults
        self._inspect_nodes = inspect_nodes
        self.seen = Seen(kinds=frozenset(), nodes=None)

    async def look(self) -> bool:
        """Looks once.

        Returns:
            Whether anything is different from before.

        Raises:
            ApiError: the API server cannot be asked.
        """
        seen = Seen(kinds=await self._api.kinds(), nodes=await self._nodes())
        different = seen != self.seen
        self.seen = seen
        return different

    async def keep_looking(
        self, every: float, changed: collections.abc.Callable[[], None]
    ) -> typing.NoReturn:
        """Looks each `every` seconds, until it is cancelled."""
        while True:
            await asyncio.sleep(every)
            try:
                if await self.look():
                    changed()
            except errors.ApiError as error:
                _log.warning("%s; what was known of the cluster is kept", error)

    def facts(
        self, image: str, current_replicas: int | None, *, replicas_are_ours: bool
    ) -> ClusterFacts:
        """The facts for one service."""
        return ClusterFacts(
            apis=self.seen.kinds,
            image=image,
            defaults=self._defaults,
            node_resources=self.seen.nodes,
            current_replicas=current_replicas,
            replicas_are_ours=replicas_are_ours,
        )

    @property
    def defaults(self) -> Defaults:
        """The operator's."""
        return self._defaults

    async def _nodes(self) -> collections.abc.Mapping[str, int] | None:
        if not self._inspect_nodes:
            return None
        offered: dict[str, int] = {}
        try:
            async for items, _ in self._api.pages(_NODES):
                for node in items:
                    for name, amount in _devices(node).items():
                        offered[name] = offered.get(name, 0) + amount
        except errors.Forbidden as error:
            _log.info("%s; conditions will say what the scheduler says", error)
            self._inspect_nodes = False
            return None
        return offered


def _devices(node: collections.abc.Mapping[str, typing.Any]) -> dict[str, int]:
    """The extended resources of a node: the ones with a domain, which are whole numbers by definition."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return {
        name: int(amount)
        for name, amount in allocatable.items()
        if "/" in name and str(amount).isdigit()
    }
