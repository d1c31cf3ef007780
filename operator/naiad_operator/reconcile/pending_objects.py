"""The pending-object cache: the newest version of each service from the watch, until it is reconciled.

A reconcile uses this version and need not read the service again, which saves a thousand requests when a thousand services are
created or listed at once. It is as good as a read: a later write arrives as an event of its own, and a status update that is based
on an older version is refused with a Conflict. Only a version that has waited long is read again, because by then a watch may have
stalled without an error.

A version that was already reconciled, or that the operator itself wrote, is ignored.
"""

import collections.abc
import dataclasses
import typing

import msgspec

from naiad_operator.cluster.child_store import is_newer
from naiad_operator.queue import Key

Manifest = collections.abc.Mapping[str, typing.Any]
Clock = collections.abc.Callable[[], float]

MAX_AGE_S = 60.0
"""How long a pending version is used, in seconds."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Pending:
    version: str
    received_at: float
    body: bytes


class PendingObjects:
    """Keeps the newest version of each service until it is taken.

    Objects are kept as JSON without `managedFields`, a fifth of their size as Python objects.

    Args:
        clock: monotonic, in seconds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: dict[Key, _Pending] = {}
        self._seen_versions: dict[Key, str] = {}

    def add(self, key: Key, manifest: Manifest, *, listed: bool = False) -> bool:
        """Adds a version of a service.

        Args:
            key: the service.
            manifest: the service as the API server has it.
            listed: whether it comes from a list and not from a watch. After a restore from a backup, versions in a list may be lower
                than before; in a watch they never are.

        Returns:
            Whether the service needs a reconcile.
        """
        metadata = manifest["metadata"]
        version = str(metadata.get("resourceVersion") or "")
        seen = self._seen_versions.get(key)
        if seen is not None and (version == seen if listed else not is_newer(version, seen)):
            return False
        kept = {name: value for name, value in metadata.items() if name != "managedFields"}
        body = msgspec.json.encode({**manifest, "metadata": kept})
        self._pending[key] = _Pending(version, self._clock(), body)
        return True

    def take(self, key: Key) -> dict[str, typing.Any] | None:
        """Removes and returns the pending version; None if none exists, or when it is too old."""
        pending = self._pending.pop(key, None)
        if pending is None or self._clock() - pending.received_at > MAX_AGE_S:
            return None
        manifest: dict[str, typing.Any] = msgspec.json.decode(pending.body)
        return manifest

    def mark_seen(self, key: Key, version: str) -> None:
        """Records that this version was reconciled or was written by the operator."""
        self._seen_versions[key] = version
        pending = self._pending.get(key)
        if pending is not None and not is_newer(pending.version, version):
            del self._pending[key]

    def discard(self, key: Key) -> None:
        """Removes the pending version of a deleted service."""
        self._pending.pop(key, None)

    def forget(self, key: Key) -> None:
        """Removes everything about a service that no longer exists."""
        self._pending.pop(key, None)
        self._seen_versions.pop(key, None)
