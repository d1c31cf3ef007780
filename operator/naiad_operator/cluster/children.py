"""What the watches have heard of the operator's objects and their pods: the newest version of each, kept small.

A reconcile reads its children here and not from the API server: a thousand services would cost it ten requests a look each.
That is safe because an object here is never older than the last answer to a write of our own (an answer is put here at once,
and a watch that lags behind it is not believed), and because every write says which object it means by its uid.

Objects are kept as JSON bytes without `managedFields`, of which only the entry of our own applies is kept: as Python dicts a
thousand services' children would take five times the memory.
"""

import collections.abc
import dataclasses
import typing

import msgspec

APPLIED_ANNOTATION = "serving.naiad.dev/applied"
"""On each child: a digest of the manifest as it was last applied."""

Object = dict[str, typing.Any]
Trim = collections.abc.Callable[[Object], Object]
Wake = collections.abc.Callable[[str, str], None]

_decode = msgspec.json.Decoder(dict[str, typing.Any]).decode


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One object.

    Attributes:
        version: its resourceVersion.
        instance: the name of the service that its labels name.
        controller: the uid of its controlling owner; "" when it has none.
        controlled_by: that owner as `in_full` writes it.
        deleting: whether it is on its way out.
        applied: the digest of the manifest that was last applied.
        fields: the set of fields that our applies own, as the API server writes it (`fieldsV1`); empty when none.
        body: the object as JSON.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    version: str
    instance: str
    controller: str
    controlled_by: str
    deleting: bool
    applied: str
    fields: bytes
    body: bytes

    def manifest(self) -> Object:
        """The object, parsed."""
        return _decode(self.body)

    def owned(self) -> Object:
        """The field set, parsed."""
        return _decode(self.fields) if self.fields else {}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """How an object's service is told from its labels.

    Attributes:
        instance: the label that names the service.
        manager: the field manager whose applies count as ours.
    """

    instance: str
    manager: str


class Children:
    """The newest version of every child, found by service.

    Args:
        labels: see there.
        wake: called with namespace and service name when something of a service changed.
        trims: by kind, what makes an object smaller before it is kept.
    """

    def __init__(
        self,
        labels: Labels,
        *,
        wake: Wake,
        trims: collections.abc.Mapping[str, Trim],
    ) -> None:
        self._labels = labels
        self._wake = wake
        self._trims = trims
        self._objects: dict[str, Child] = {}
        self._services: dict[tuple[str, str], dict[str, Child]] = {}

    def of(self, namespace: str, instance: str) -> list[Child]:
        """All objects whose labels name a service, pods among them."""
        return list(self._services.get((namespace, instance), {}).values())

    def put(self, kind: str, item: Object) -> Child:
        """Takes an object in, unless a newer version is here; gives the newest.

        For answers to our own writes: nobody is woken.
        """
        child, _ = self._take_in(kind, item)
        return child

    def hear(self, kind: str, item: Object) -> None:
        """The same for what a watch says: its service is woken if this is news."""
        before = self._objects.get(item["metadata"]["uid"])
        child, news = self._take_in(kind, item)
        if not news:
            return
        self._wake(child.namespace, child.instance)
        if before is not None and before.instance != child.instance:
            self._wake(before.namespace, before.instance)

    def drop(self, uid: str, version: str) -> None:
        """An object is gone, or its labels are no longer ours, as of a version."""
        child = self._objects.get(uid)
        if child is None or is_newer(child.version, version):
            return  # we have written it since: its labels are back
        del self._objects[uid]
        self._unlist(child)
        self._wake(child.namespace, child.instance)

    def deleting(self, uid: str) -> None:
        """We have deleted an object; a watch will say when it is gone."""
        child = self._objects.get(uid)
        if child is not None and not child.deleting:
            self._list(dataclasses.replace(child, deleting=True))

    def keep_only(
        self, kind: str, namespace: str, *, present: collections.abc.Set[str], version: str
    ) -> None:
        """A list was complete at a version: what it did not hold is gone, unless it is newer than the list.

        Args:
            kind: what was listed.
            namespace: where; "" is everywhere.
            present: the uids that it held.
            version: the list's.
        """
        gone = [
            child.uid
            for child in self._objects.values()
            if child.kind == kind
            and (not namespace or child.namespace == namespace)
            and child.uid not in present
        ]
        for uid in gone:
            self.drop(uid, version)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, uid: str) -> bool:
        return uid in self._objects

    def _take_in(self, kind: str, item: Object) -> tuple[Child, bool]:
        metadata = item["metadata"]
        before = self._objects.get(metadata["uid"])
        if before is not None and not is_newer(metadata["resourceVersion"], before.version):
            return before, False
        child = self._child(kind, item)
        self._list(child)
        return child, True

    def _child(self, kind: str, item: Object) -> Child:
        metadata = item["metadata"]
        fields = _ours(metadata.pop("managedFields", None) or (), self._labels.manager)
        owner = controller(metadata)
        trim = self._trims.get(kind)
        kept = trim(item) if trim is not None else item
        return Child(
            kind=kind,
            namespace=metadata.get("namespace") or "",
            name=metadata["name"],
            uid=metadata["uid"],
            version=metadata["resourceVersion"],
            instance=(metadata.get("labels") or {}).get(self._labels.instance) or "",
            controller=owner.get("uid") or "",
            controlled_by=in_full(owner),
            deleting="deletionTimestamp" in metadata,
            applied=(metadata.get("annotations") or {}).get(APPLIED_ANNOTATION) or "",
            fields=msgspec.json.encode(fields) if fields else b"",
            body=msgspec.json.encode({**kept, "kind": kind}),
        )

    def _list(self, child: Child) -> None:
        before = self._objects.get(child.uid)
        if before is not None and before.instance != child.instance:
            self._unlist(before)
        self._objects[child.uid] = child
        self._services.setdefault((child.namespace, child.instance), {})[child.uid] = child

    def _unlist(self, child: Child) -> None:
        service = self._services.get((child.namespace, child.instance), {})
        service.pop(child.uid, None)
        if not service:
            self._services.pop((child.namespace, child.instance), None)


def controller(metadata: collections.abc.Mapping[str, typing.Any]) -> Object:
    """The controlling owner reference; empty where there is none."""
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return {}


def in_full(owner: collections.abc.Mapping[str, typing.Any]) -> str:
    """An owner by kind, group and name, "Deployment.apps web"; "" where there is none. Other groups have an InferenceService too."""
    if not owner:
        return ""
    group = str(owner.get("apiVersion") or "").rpartition("/")[0]
    return f"{owner['kind']}{f'.{group}' if group else ''} {owner['name']}"


def _ours(entries: collections.abc.Iterable[Object], manager: str) -> Object:
    for entry in entries:
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and not entry.get("subresource")
        ):
            fields: Object = entry.get("fieldsV1") or {}
            return fields
    return {}


def is_newer(version: str, than: str) -> bool:
    """Whether a resourceVersion came after another one.

    Versions are numbers that grow on every API server that follows the conformance rule; others are only unequal.
    """
    try:
        return int(version) > int(than)
    except ValueError:
        return version != than


def trim_pod(pod: Object) -> Object:
    """What a status can use of a pod: a pod is mostly volumes and environment."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    kept = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "labels")
    return {
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {key: spec[key] for key in ("nodeName",) if key in spec},
        "status": pod.get("status") or {},
    }
