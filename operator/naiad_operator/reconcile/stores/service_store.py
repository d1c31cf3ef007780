"""The service store: the newest known version of each service, from reads and from the operator's own writes.

A reconcile uses this version and need not read the service again at a resync. It is as good as a read: a later write arrives as an
event, which has only the new version and removes the one that is kept, and a status update that is based on an older version is refused
with a Conflict, after which the service is read. A version that no event, read or write has confirmed for an hour is read again, in case the watch has missed
something: that is the only request that a service at rest costs.

A version that was already reconciled, or that the operator itself wrote, needs no reconcile.
"""

import collections.abc
import dataclasses
import typing

from naiad_operator.api import names
from naiad_operator.cluster import packed
from naiad_operator.cluster.child_store import is_newer
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.queue import Key

Manifest = collections.abc.Mapping[str, typing.Any]
Clock = collections.abc.Callable[[], float]

LARGE = 1 << 16
"""Bytes, compressed: from which size on a service counts as large. Ordinary ones have one or two thousand."""

MOST_OF_LARGE = 8 << 20
"""Bytes: how much of large services is kept, so that a few users of the largest objects cannot fill the memory. All others are read for each reconcile."""

MAX_AGE_S = 3600.0
"""How long a version is used without a confirmation, in seconds."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    version: str
    confirmed_at: float
    body: bytes
    size: int


class ServiceStore:
    """Keeps the newest version of each service.

    Objects are kept as compressed JSON (`cluster.packed`) without `managedFields`.

    Args:
        clock: monotonic, in seconds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[Key, _Entry] = {}
        self._seen_versions: dict[Key, str] = {}
        self._large: dict[Key, int] = {}
        self._kept_of_large = 0

    def notice(self, key: Key, metadata: Manifest, *, listed: bool = False) -> bool:
        """Takes in which version of a service the API server has: the one that is kept is confirmed, or an older one removed.

        Args:
            key: the service.
            metadata: its metadata; a watch of services has no more.
            listed: whether it comes from a list and not from a watch. After a restore from a backup, versions in a list may be lower
                than before; in a watch they never are.

        Returns:
            Whether the service needs a reconcile, which reads it unless it is kept.
        """
        version = str(metadata.get("resourceVersion") or "")
        entry = self._entries.get(key)
        if entry is not None and entry.version == version:
            self._entries[key] = dataclasses.replace(entry, confirmed_at=self._clock())
        elif entry is not None and (listed or is_newer(version, entry.version)):
            self._drop(key)
        seen = self._seen_versions.get(key)
        if seen is None:
            return True
        return version != seen if listed else is_newer(version, seen)

    def put(self, key: Key, manifest: Manifest) -> None:
        """Stores the response to a read or a list, or to the operator's own write."""
        metadata = manifest["metadata"]
        kept = {name: value for name, value in metadata.items() if name != "managedFields"}
        body = packed.pack({**manifest, "metadata": kept})
        size = len(body)
        self._drop(key)
        self._large.pop(key, None)
        if size >= LARGE:
            self._large[key] = size
            if self._kept_of_large + size > MOST_OF_LARGE:
                body = b""
            self._kept_of_large += len(body)
        self._entries[key] = _Entry(_version(manifest), self._clock(), body, size)

    def is_large(self, key: Key) -> bool:
        """Whether the service was large when it was read last."""
        return key in self._large

    def _drop(self, key: Key) -> None:
        """Removes the version of a service; whether it is large stays known."""
        entry = self._entries.pop(key, None)
        if entry is not None and entry.size >= LARGE:
            self._kept_of_large -= len(entry.body)

    def get(self, key: Key) -> dict[str, typing.Any] | None:
        """The newest version; None if none is known or kept, or when it was not confirmed for too long."""
        entry = self._entries.get(key)
        if entry is None or not entry.body or self._clock() - entry.confirmed_at > MAX_AGE_S:
            return None
        return packed.unpack(entry.body)

    def mark_seen(self, key: Key, version: str) -> None:
        """Records that this version was reconciled or was written by the operator."""
        self._seen_versions[key] = version

    def discard(self, key: Key) -> None:
        """Removes the version of a service that was deleted, or that is outdated: the next reconcile reads it."""
        self._drop(key)

    def forget(self, key: Key) -> None:
        """Removes everything about a service that no longer exists."""
        self._drop(key)
        self._large.pop(key, None)
        self._seen_versions.pop(key, None)


def ref(key: Key) -> ResourceRef:
    """A service in the API server."""
    return ResourceRef(names.API_VERSION, names.PLURAL, key.namespace, key.name)


def _version(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("resourceVersion") or "")
