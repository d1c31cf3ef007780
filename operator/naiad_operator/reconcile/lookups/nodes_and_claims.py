"""Objects of others that are read only for the services which need them, and whose content is kept for a while.

Nodes are read when a pod with a device cannot be scheduled, to say in its condition which devices there are. A
PersistentVolumeClaim is read when a service mounts it, because its access modes decide how pods are replaced.

Both need a permission that an administrator may not grant. Without it, or without a response, the facts are unknown: no reconcile
fails because of them.
"""

import asyncio
import collections.abc
import logging
import typing

from naiad_operator.api import quantity
from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.resource_ref import ResourceRef

_log = logging.getLogger(__name__)
_NODES = ResourceRef("v1", "nodes")

NODES_KEPT_S = 60.0
CLAIM_KEPT_S = 3600.0
"""A claim's access modes are immutable: only another claim of the same name can have others."""
RETRY_S = 600.0
"""How long a refusal or a missing claim is kept."""

Clock = collections.abc.Callable[[], float]
Devices = collections.abc.Mapping[str, int]
"""The sum of what all nodes can allocate, by resource."""


class Nodes:
    """Reads which devices nodes offer, at most once per minute.

    Args:
        api: the client of the API server.
        clock: monotonic, in seconds.
        enabled: whether nodes may be read at all.
    """

    def __init__(self, api: Client, clock: Clock, *, enabled: bool) -> None:
        self._api = api
        self._clock = clock
        self._enabled = enabled
        self._devices: Devices | None = None
        self._valid_until = 0.0
        self._lock = asyncio.Lock()

    async def devices(self) -> Devices | None:
        """What all nodes can allocate; None when nodes may not be read."""
        if not self._enabled:
            return None
        async with self._lock:
            if self._clock() >= self._valid_until:
                await self._read()
            return self._devices

    async def _read(self) -> None:
        allocatable: dict[str, int] = {}
        kept = NODES_KEPT_S
        try:
            async for items, _ in self._api.pages(_NODES):
                for node in items:
                    for name, amount in _devices(node).items():
                        allocatable[name] = allocatable.get(name, 0) + amount
            self._devices = allocatable
        except errors.Forbidden as error:
            _log.info("%s; conditions will say what the scheduler says", error)
            self._devices, kept = None, RETRY_S
        except errors.ApiError as error:
            _log.warning("%s; conditions will say what the scheduler says", error)
            self._devices = None
        self._valid_until = self._clock() + kept


class Claims:
    """Reads the access modes of PersistentVolumeClaims.

    Args:
        api: the client of the API server.
        clock: monotonic, in seconds.
    """

    def __init__(self, api: Client, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, frozenset[str]]] = {}
        """By namespace and name: until when it is valid, and the modes (empty when unknown)."""

    async def access_modes(
        self, namespace: str, names: collections.abc.Iterable[str]
    ) -> dict[str, frozenset[str]]:
        """The access modes of each claim; empty for one that does not exist or may not be read."""
        return {name: await self._modes(namespace, name) for name in names}

    async def _modes(self, namespace: str, name: str) -> frozenset[str]:
        valid_until, modes = self._known.get((namespace, name), (0.0, frozenset()))
        if self._clock() < valid_until:
            return modes
        ref = ResourceRef("v1", "persistentvolumeclaims", namespace, name)
        kept = CLAIM_KEPT_S
        try:
            claim = await self._api.get(ref)
            modes = frozenset((claim.get("spec") or {}).get("accessModes") or ())
        except (errors.NotFound, errors.Forbidden) as error:
            _log.info("%s; its access modes are unknown", error)
            modes, kept = frozenset(), RETRY_S
        except errors.ApiError as error:
            _log.warning("%s; what was known of it is used", error)
            kept = NODES_KEPT_S
        now = self._clock()
        # Without the claims that no service mounts any more.
        oldest = now - CLAIM_KEPT_S
        self._known = {key: entry for key, entry in self._known.items() if entry[0] > oldest}
        self._known[namespace, name] = (now + kept, modes)
        return modes


def _devices(node: collections.abc.Mapping[str, typing.Any]) -> dict[str, int]:
    """The extended resources of a node: those with a domain in their names, which are integers by definition."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    counted = {name: _count(amount) for name, amount in allocatable.items() if "/" in name}
    return {name: count for name, count in counted.items() if count}


_LARGEST = 2**63 - 1
"""What the API server takes for an amount at most."""


def _count(amount: object) -> int:
    """An amount as the API server writes it, a thousand as "1k"; 0 for anything else that a node may say."""
    try:
        value = quantity.amount(str(amount))
        return int(value) if 0 < value <= _LARGEST and value == int(value) else 0
    except ArithmeticError:
        return 0
