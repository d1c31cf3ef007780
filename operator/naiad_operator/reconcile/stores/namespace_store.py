"""The watched labels of namespaces, for NaiadProfiles that bind namespaces by their labels. Nothing is read before such a profile exists."""

import asyncio
import collections.abc
import typing

from naiad_operator.api.parsing.binding import Labels, LabelsUnknown
from naiad_operator.cluster import client, errors
from naiad_operator.cluster.reflector import GRACE_S, Reflector, WatchTimeouts
from naiad_operator.cluster.resource_ref import ResourceRef

REF = ResourceRef("v1", "namespaces")

OnLabels = collections.abc.Callable[[str, Labels | None, Labels], None]


class NamespaceStore:
    """The labels of the cluster's namespaces.

    Args:
        api: the client of the API server.
        timeouts: the timeouts of the watch.
        on_state: called when namespaces have become readable or unreadable.
        on_labels: called with a namespace that is new or whose labels have changed, and with its labels before (None if they were not known) and now.
    """

    def __init__(
        self,
        api: client.Client,
        *,
        timeouts: WatchTimeouts,
        on_state: collections.abc.Callable[[], None],
        on_labels: OnLabels,
    ) -> None:
        self._on_state = on_state
        self._on_labels = on_labels
        self._by_uid: dict[str, tuple[str, Labels]] = {}
        self._by_name: dict[str, Labels] = {}
        self._wanted = asyncio.Event()
        self._problem_before = ""
        self._reflector = Reflector(
            api, REF, labels="", handler=self, timeouts=timeouts, on_state=self._review
        )

    def want(self) -> None:
        """Requests that namespaces are watched from now on."""
        if not self._wanted.is_set():
            self._wanted.set()
            self._problem_before = self.blocking()

    async def run(self) -> typing.NoReturn:
        """Lists and watches namespaces, from the time when they are wanted, until it is cancelled."""
        await self._wanted.wait()
        await self._reflector.run()

    def labels(self, namespace: str) -> Labels:
        """The labels of a namespace.

        Raises:
            LabelsUnknown: namespaces cannot be read.
            Unreachable: they are not listed yet, or the watch has not shown this one yet, whose service was faster; the reconcile is repeated. Pods that are made
                before a profile binds the namespace stay.
        """
        problem = self._problem()
        if problem:
            raise LabelsUnknown(problem)
        if not self._reflector.listed.is_set():
            raise errors.Unreachable(f"list {REF}", message="they are not listed yet")
        labels = self._by_name.get(namespace)
        if labels is None:
            raise errors.Unreachable(f"list {REF}", message=f"{namespace} is not among them yet")
        return labels

    def blocking(self) -> str:
        """Why namespaces that are wanted are not known yet; "" when they are, or cannot be."""
        if not self._wanted.is_set() or self._reflector.listed.is_set() or self._problem():
            return ""
        error = self._reflector.last_error
        return f"{REF} are not listed yet" + (f": {error}" if error is not None else "")

    def _problem(self) -> str:
        error = self._reflector.last_error
        if isinstance(error, errors.Forbidden):
            return f'the operator {error}; allow it with a ClusterRole: apiGroups: [""], resources: [namespaces], verbs: [get, list, watch]'
        if not self._reflector.listed.is_set() and self._reflector.failing_for() >= GRACE_S:
            return f"the operator {error}"
        return ""

    def _review(self) -> None:
        problem = "" if not self._wanted.is_set() else self.blocking() or self._problem()
        if problem != self._problem_before:
            self._problem_before = problem
            self._on_state()

    def on_update(self, ref: ResourceRef, item: client.Object) -> None:
        """Stores the labels of a namespace that is new or has changed."""
        metadata = item["metadata"]
        name, labels = metadata["name"], metadata.get("labels") or {}
        before = self._by_name.get(name)
        self._by_uid[metadata["uid"]] = (name, labels)
        self._by_name[name] = labels
        if before != labels and self._reflector.listed.is_set():
            self._on_labels(name, before, labels)

    def on_delete(self, ref: ResourceRef, item: client.Object) -> None:
        """Forgets a namespace that was deleted."""
        self._forget(item["metadata"]["uid"])

    def on_replace(self, ref: ResourceRef, present: collections.abc.Set[str], version: str) -> None:
        """Forgets the namespaces that are not in a complete list."""
        for uid in self._by_uid.keys() - present:
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        known = self._by_uid.pop(uid, None)
        if known is not None and self._by_name.get(known[0]) is known[1]:
            del self._by_name[known[0]]
