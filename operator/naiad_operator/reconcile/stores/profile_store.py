"""The watched NaiadProfiles of the cluster.

Nothing is reconciled before they are listed, since pods would be made without their profile and then replaced. Where they cannot be read
(no permission, no such kind, or half a minute of errors), services without a profile go on, and the others stay as they are and say so. A new one
waits, unless a profile that is known binds its namespace, or none can exist: the operator does not read them, or the API server does not know the kind.
"""

import asyncio
import collections.abc
import typing

from naiad_operator.api import names
from naiad_operator.api.manifests.unreadable import problem_of
from naiad_operator.api.parsing import binding, profiles, service
from naiad_operator.api.parsing.service import Manifest, Profile
from naiad_operator.cluster import client, errors
from naiad_operator.cluster.reflector import GRACE_S, Reflector, WatchTimeouts
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.reconcile.stores.namespace_store import NamespaceStore

REF = ResourceRef(names.API_VERSION, names.PROFILE_PLURAL)
_KIND = f"{names.API_VERSION}/{names.PROFILE_KIND}"


class ProfileStore:
    """The watched NaiadProfiles.

    Args:
        api: the client of the API server.
        enabled: whether profiles are read at all.
        fallback: the operator's default profile; None when it has none.
        timeouts: the timeouts of the watch.
        on_change: called when a profile has changed, or when profiles or namespaces have become readable or unreadable.
        on_namespace: called with a namespace that another profile may bind now, or that its services wait for.

    Attributes:
        unreadable: why profiles cannot be read; "" when they can.
    """

    def __init__(
        self,
        api: client.Client,
        *,
        enabled: bool,
        fallback: Profile | None,
        timeouts: WatchTimeouts,
        on_change: collections.abc.Callable[[], None],
        on_namespace: collections.abc.Callable[[str], None],
    ) -> None:
        self._enabled = enabled
        self._fallback = fallback
        self._by_uid: dict[str, Manifest] = {}
        self._parsed: dict[str, tuple[Manifest, Profile]] = {}
        self._on_change = on_change
        self._on_namespace = on_namespace
        self._is_served = False
        self.unreadable = ""
        self._started = asyncio.Event()
        self._reviewed = asyncio.Event()
        self._namespaces = NamespaceStore(
            api, timeouts=timeouts, on_state=self._on_namespaces, on_labels=self._on_labels
        )
        self._reflector = Reflector(
            api, REF, labels="", handler=self, timeouts=timeouts, on_state=self._review
        )

    def of(self, manifest: Manifest) -> Profile | None:
        """The profile of a service.

        Raises:
            ProfileNotFound: the profile does not exist, or cannot be read.
            InvalidSpec: the profile is not valid, or several bind its namespace.
            ApiError: namespaces are not listed yet.
        """
        return profiles.choose(
            manifest,
            self._by_uid.values(),
            fallback=self._fallback,
            unreadable=self.unreadable,
            may_bind=self._enabled and not self._is_unknown(),
            labels_of=self._namespaces.labels,
            parse=self._parse,
        )

    def _parse(self, manifest: Manifest) -> Profile:
        """The profile, parsed once for all services until it changes.

        Raises:
            InvalidSpec: it is not valid.
        """
        uid = manifest["metadata"]["uid"]
        before, profile = self._parsed.get(uid, (None, None))
        if before is not manifest or profile is None:
            profile = service.parse_profile(manifest)
            self._parsed[uid] = manifest, profile
        return profile

    def follow(self, served: collections.abc.Set[str]) -> None:
        """Takes in which kinds the API server serves, as "group/version/Kind"."""
        self._is_served = _KIND in served
        if self._is_served and self._enabled:
            self._started.set()
        self._review()

    async def run(self) -> typing.NoReturn:
        """Lists and watches the profiles, from the time when the API server serves them, until it is cancelled; and namespaces, once one selects them."""
        await self._started.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._namespaces.run())
            await self._reflector.run()

    async def wait(self) -> None:
        """Waits until the profiles are listed, or cannot be."""
        while self.blocking():
            self._reviewed.clear()
            await self._reviewed.wait()

    def blocking(self) -> str:
        """Why nothing can be reconciled yet, as a message; "" when the profiles are listed or cannot be read."""
        if self.unreadable:
            return ""
        if self._reflector.listed.is_set():
            return self._namespaces.blocking()
        error = self._reflector.last_error
        return f"{REF} are not listed yet" + (f": {error}" if error is not None else "")

    def _on_namespaces(self) -> None:
        self._reviewed.set()
        self._on_change()

    def _on_labels(
        self, namespace: str, before: binding.Labels | None, after: binding.Labels
    ) -> None:
        if binding.depends(self._by_uid.values(), before, after):
            self._on_namespace(namespace)

    def _review(self) -> None:
        """Decides again whether the profiles can be read."""
        before, self.unreadable = self.unreadable, self._problem()
        self._reviewed.set()
        if self.unreadable != before:
            self._on_change()

    def _is_unknown(self) -> bool:
        """Whether the API server does not know the kind, so that there can be none."""
        return not self._is_served or isinstance(self._reflector.last_error, errors.NotFound)

    def _problem(self) -> str:
        error = self._reflector.last_error
        if not self._enabled:
            return "the operator runs with --profiles=false"
        if self._is_unknown():
            return f"the API server does not serve {names.PROFILE_KIND}s; apply the CRDs of this release"
        if isinstance(error, errors.Forbidden):
            return (
                f"the operator {error}; allow it with a ClusterRole: apiGroups: [{names.GROUP}], resources: "
                f"[{names.PROFILE_PLURAL}], verbs: [get, list, watch]"
            )
        if not self._reflector.listed.is_set() and self._reflector.failing_for() >= GRACE_S:
            return f"the operator {error}"
        return ""

    def on_update(self, ref: ResourceRef, item: client.Object) -> None:
        """Stores a profile that is new or has changed."""
        metadata = item["metadata"]
        before = self._by_uid.get(metadata["uid"])
        self._by_uid[metadata["uid"]] = item
        if binding.selects(item):
            self._namespaces.want()
        if before is None or _content(before) != _content(item):
            self._on_change()

    def on_delete(self, ref: ResourceRef, item: client.Object) -> None:
        """Removes a profile that was deleted."""
        self._remove(item["metadata"]["uid"])

    def on_replace(self, ref: ResourceRef, present: collections.abc.Set[str], version: str) -> None:
        """Removes the profiles that are not in a complete list."""
        for uid in self._by_uid.keys() - present:
            self._remove(uid)

    def _remove(self, uid: str) -> None:
        self._parsed.pop(uid, None)
        if self._by_uid.pop(uid, None) is not None:
            self._on_change()


def _content(profile: Manifest) -> tuple[typing.Any, str]:
    """What a service gets from a profile: its spec, or why it cannot be read."""
    return profile.get("spec"), problem_of(profile)
