"""How many objects the child store keeps of one service and of one namespace, and what it has left out.

Who may write objects may write any number of them with the operator's labels, for a service or for none. Without bounds, a hundred thousand small
ones would fill the operator's memory. What is left out costs a service nothing but a look: a child that is not in the store is read before it is
written.
"""

import collections
import collections.abc
import dataclasses
import enum
import logging
import typing

_log = logging.getLogger(__name__)


class Group(enum.StrEnum):
    """What an object is to the service that its labels name.

    Attributes:
        CLAIMED: its controlling owner is a service, as that of every child.
        POD: it is a pod of a ReplicaSet, as every pod of a service.
        OTHER: of another owner, with the labels of a child.
    """

    CLAIMED = "claimed"
    POD = "pod"
    OTHER = "other"


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """How many objects of a group are kept.

    Attributes:
        service: for one service.
        namespace: in one namespace, whatever services their labels name.
    """

    service: int
    namespace: int


LIMITS: typing.Final = {
    Group.CLAIMED: Limit(service=64, namespace=20_000),
    Group.POD: Limit(service=10_000, namespace=20_000),
    Group.OTHER: Limit(service=64, namespace=2_000),
}
"""A service has at most 34 children: its own, those of a canary, of an explainer and of two transformers. Of 1,000 replicas each, a rollout of all five makes 10,000 pods."""

NAMESPACE_BYTES: typing.Final = 16 << 20
"""How many bytes, packed, the objects of one namespace take before those that are not small are kept in part: 8,000 ordinary children."""

_REMEMBERED = 10_000
"""How many objects that were left out are counted; more are not told apart."""


class Placed(typing.Protocol):
    """What counts of an object."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def instance(self) -> str:
        """The service that its labels name."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def uid(self) -> str:
        """Its uid."""

    @property
    def group(self) -> Group:
        """What it is to the service."""

    @property
    def size(self) -> int:
        """How many bytes of it are stored."""


class Room:
    """Counts the objects in the store, and those that were left out.

    Args:
        limits: by group, how many are kept.
        namespace_bytes: how many bytes those of one namespace take before the rest is kept in part.
    """

    def __init__(
        self,
        limits: collections.abc.Mapping[Group, Limit] = LIMITS,
        namespace_bytes: int = NAMESPACE_BYTES,
    ) -> None:
        self._limits = limits
        self._namespace_bytes = namespace_bytes
        self._bytes: collections.Counter[str] = collections.Counter()
        self._of_services: collections.Counter[tuple[str, str, Group]] = collections.Counter()
        self._of_namespaces: collections.Counter[tuple[str, Group]] = collections.Counter()
        self._left_out: dict[str, str] = {}
        self._logged: set[str] = set()

    def has_room(self, item: Placed) -> bool:
        """Whether an object that is new to the store is kept: one that is named like its service always is, since a child may be meant."""
        if item.name == item.instance:
            return True
        limit = self._limits[item.group]
        return (
            self._of_services[item.namespace, item.instance, item.group] < limit.service
            and self._of_namespaces[item.namespace, item.group] < limit.namespace
        )

    def has_bytes(self, namespace: str, size: int) -> bool:
        """Whether so many bytes more of a namespace may be stored."""
        return self._bytes[namespace] + size <= self._namespace_bytes

    def add(self, item: Placed) -> None:
        """Counts an object that is kept."""
        self._left_out.pop(item.uid, None)
        self._of_services[item.namespace, item.instance, item.group] += 1
        self._of_namespaces[item.namespace, item.group] += 1
        self._bytes[item.namespace] += item.size

    def remove(self, item: Placed) -> None:
        """Counts an object no more."""
        of_service = (item.namespace, item.instance, item.group)
        of_namespace = (item.namespace, item.group)
        self._of_services[of_service] -= 1
        self._of_namespaces[of_namespace] -= 1
        self._bytes[item.namespace] -= item.size
        if not self._bytes[item.namespace]:
            del self._bytes[item.namespace]
        if not self._of_services[of_service]:
            del self._of_services[of_service]
        if not self._of_namespaces[of_namespace]:
            del self._of_namespaces[of_namespace]

    def leave_out(self, kind: str, item: Placed) -> None:
        """Remembers an object for which there is no room; the first one of a namespace is logged once."""
        if item.uid in self._left_out or len(self._left_out) >= _REMEMBERED:
            return
        self._left_out[item.uid] = item.namespace
        if item.namespace not in self._logged:
            self._logged.add(item.namespace)
            _log.warning(
                "%s %s/%s is left out: there are too many objects with the labels of service %s or in its namespace; delete those that are not its own",
                kind, item.namespace, item.name, item.instance or '""',
            )  # fmt: skip

    def forget(self, uid: str) -> None:
        """Takes in that an object is gone."""
        self._left_out.pop(uid, None)

    def left_out(self) -> collections.Counter[str]:
        """How many objects were left out, by namespace; of all together 10,000 at most are counted."""
        return collections.Counter(self._left_out.values())
