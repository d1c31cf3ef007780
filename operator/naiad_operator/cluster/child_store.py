"""The informer store: the newest known version of every child object and its pods, indexed by service.

A reconcile reads its children from this store and not from the API server: with a thousand services, each reconcile would
otherwise cost ten requests. This is safe for two reasons. First, an object in the store is never older than the response to
the operator's own last write: each response is stored at once, and an older version from a watch is ignored. Second, every
write names its object by uid.

Objects are stored as compressed JSON (`packed`), without `managedFields` but for the entry of the operator's own applies. As plain JSON the
children of a thousand services would take twice the memory, as Python dicts ten times.

Who may write Deployments may write any number of large ones with the operator's labels. Of an object whose controlling owner is not a service, only
what identifies it is stored, since nothing else of it is used; of a pod, which a ReplicaSet controls, what `trim_pod` leaves. Users may write any
owner, so of a large object from a list or a watch likewise: a reconcile reads it, once it turns out to be the service's own (`is_partial`). Their
number is bounded by `room`.
"""

import collections.abc
import dataclasses
import sys
import typing

from naiad_operator.api.manifests.unreadable import problem_of
from naiad_operator.cluster import packed
from naiad_operator.cluster.room import Group, Room

APPLIED_ANNOTATION = "serving.naiad.dev/applied"
"""The annotation on each child that holds the digest of the manifest that was last applied."""

_REPLICAS = "ReplicaSet.apps "
"""How the name of a pod's controlling owner begins, as `qualified_name` writes it."""
_LONGEST_UID = 100
_LONGEST_OWNER = 1_000
_LONGEST_DIGEST = 100
"""Characters that are stored of what the API server does not bound in an owner reference or an annotation; the operator's own are shorter."""

LARGE = 1 << 16
"""From how many bytes on, packed, an object of a list or a watch is not stored whole."""
SMALL = 1 << 12
"""Below so many bytes an object is stored whole, also where those of its namespace take much already."""

Object = dict[str, typing.Any]
Transform = collections.abc.Callable[[Object], Object]
Wake = collections.abc.Callable[[str, str], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One object in the store.

    Attributes:
        version: the object's resourceVersion.
        instance: the service name in the object's labels.
        controller_uid: the uid of the controlling owner; "" when the object has none. It is cut after more characters than a uid has.
        controller_name: the controlling owner as `qualified_name` writes it, cut likewise.
        deleting: whether the object is being deleted.
        applied: the digest of the manifest that was last applied; "" when its annotation is too long for one.
        problem: why the object cannot be read; "" when it was.
        fields: the set of fields that the operator's applies own (`fieldsV1`), packed; empty when the operator owns none.
        body: the object, packed.
        group: what it is to the service.
        is_partial: whether only what identifies a child is stored, since it is large: `ChildStore.complete` stores the rest.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    version: str
    instance: str
    controller_uid: str
    controller_name: str
    deleting: bool
    applied: str
    fields: bytes
    body: bytes
    problem: str = ""
    group: Group = Group.CLAIMED
    is_partial: bool = False

    @property
    def size(self) -> int:
        """How many bytes of it are stored."""
        return len(self.body) + len(self.fields)

    def manifest(self) -> Object:
        """The object as parsed JSON."""
        return packed.unpack(self.body)

    def owned(self) -> Object:
        """The operator's field set as parsed JSON; empty when it owns no field."""
        return packed.unpack(self.fields) if self.fields else {}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """By what the store recognises the operator's objects.

    Attributes:
        instance: the key of the label that holds the service's name.
        manager: the field manager of the operator's applies.
        owner: the kind of their controlling owner as `qualified_name` writes it; "" stands for any.
    """

    instance: str
    manager: str
    owner: str = ""


class ChildStore:
    """Keeps the newest version of every child, indexed by service.

    Args:
        labels: the label and the field manager of the operator's objects.
        on_change: called with a service's namespace and name when a watch changes one of its objects.
        transforms: by kind, a function that makes an object smaller before it is stored. Such kinds are stored whatever controls them.
        room: how many objects are stored.
    """

    def __init__(
        self,
        labels: Labels,
        *,
        on_change: Wake,
        transforms: collections.abc.Mapping[str, Transform],
        room: Room | None = None,
    ) -> None:
        self._room = Room() if room is None else room
        self._labels = labels
        self._on_change = on_change
        self._transforms = transforms
        self._objects: dict[str, Child] = {}
        self._services: dict[tuple[str, str], dict[str, Child]] = {}

    def of_service(self, namespace: str, instance: str) -> list[Child]:
        """All objects whose labels name this service, including pods."""
        return list(self._services.get((namespace, instance), {}).values())

    def put(self, kind: str, item: Object) -> Child:
        """Stores the response to the operator's own write whole, until `shrink`, unless the store has a newer version; does not call `on_change`.

        Returns:
            The newest version in the store.
        """
        metadata = item["metadata"]
        before = self._objects.get(metadata["uid"])
        if before is not None and not is_newer(metadata["resourceVersion"], before.version):
            return before
        child = self._to_child(kind, item)
        self._index_add(child)
        return child

    def complete(self, kind: str, item: Object) -> None:
        """Stores an object that was read because the store has only a part of it, unless the store has a newer version or it is gone."""
        before = self._objects.get(item["metadata"]["uid"])
        if before is not None and not is_newer(before.version, item["metadata"]["resourceVersion"]):
            self._index_add(self._to_child(kind, item))

    def shrink(self, namespace: str, instance: str) -> None:
        """Keeps only a part of the large objects of a service, as of those from a watch: its reconcile has ended, and the next one reads them again."""
        for child in self.of_service(namespace, instance):
            if child.size >= LARGE and not child.is_partial and child.kind not in self._transforms:
                body = _packed(child.kind, _identity(child.manifest()))
                self._index_add(dataclasses.replace(child, body=body, fields=b"", is_partial=True))

    def left_out(self) -> collections.abc.Mapping[str, int]:
        """How many objects there was no room for, by namespace."""
        return self._room.left_out()

    def update(self, kind: str, item: Object) -> None:
        """Stores an object from a list or a watch, and calls `on_change` when the store had no version as new as this one."""
        metadata = item["metadata"]
        before = self._objects.get(metadata["uid"])
        if before is not None and not is_newer(metadata["resourceVersion"], before.version):
            return
        child = self._to_child(kind, item, may_be_partial=True)
        is_elsewhere = before is None or before.instance != child.instance
        if is_elsewhere and not self._room.has_room(child):
            self._room.leave_out(kind, child)
            if before is not None:
                self.remove(before.uid, child.version)
            return
        self._index_add(child)
        self._on_change(child.namespace, child.instance)
        if before is not None and before.instance != child.instance:
            self._on_change(before.namespace, before.instance)

    def remove(self, uid: str, version: str) -> None:
        """Removes an object that was deleted, or that lost the operator's labels, at this version."""
        child = self._objects.get(uid)
        if child is None:
            self._room.forget(uid)
            return
        if is_newer(child.version, version):
            return  # the operator has written the object since, so it has its labels again
        del self._objects[uid]
        self._index_remove(child)
        self._on_change(child.namespace, child.instance)

    def mark_deleting(self, uid: str) -> None:
        """Marks an object that the operator has deleted; the watch reports later that it is gone."""
        child = self._objects.get(uid)
        if child is not None and not child.deleting:
            self._index_add(dataclasses.replace(child, deleting=True))

    def prune(
        self, kind: str, namespace: str, *, present: collections.abc.Set[str], version: str
    ) -> None:
        """Removes every object that a complete list does not contain, unless the object is newer than the list.

        Args:
            kind: the kind that was listed.
            namespace: the namespace that was listed; "" means all namespaces.
            present: the uids in the list.
            version: the list's resourceVersion.
        """
        gone = [
            child.uid
            for child in self._objects.values()
            if child.kind == kind
            and (not namespace or child.namespace == namespace)
            and child.uid not in present
        ]
        for uid in gone:
            self.remove(uid, version)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, uid: str) -> bool:
        return uid in self._objects

    def _to_child(self, kind: str, item: Object, *, may_be_partial: bool = False) -> Child:
        metadata = item["metadata"]
        fields = _applied_fields(metadata.pop("managedFields", None) or (), self._labels.manager)
        owner = controller_of(metadata)
        controller_name = qualified_name(owner)[:_LONGEST_OWNER]
        transform = self._transforms.get(kind)
        group = Group.CLAIMED if self._is_owner(controller_name) else Group.OTHER
        if transform is not None:
            kept = transform(item)
            is_of_replicas = controller_name.startswith(_REPLICAS)
            group = Group.POD if is_of_replicas or not self._labels.owner else Group.OTHER
        elif group is Group.CLAIMED:
            kept = item
        else:
            kept, fields = _identity(item), {}
        body, packed_fields = _packed(kind, kept), packed.pack(fields) if fields else b""
        size, namespace = len(body) + len(packed_fields), metadata.get("namespace", "")
        is_large = size >= LARGE or (size >= SMALL and not self._room.has_bytes(namespace, size))
        is_partial = is_large and may_be_partial and transform is None
        if is_partial or (is_large and transform is not None):
            kept = _identity(item) if transform is None else {**kept, "status": {}}
            body, packed_fields = _packed(kind, kept), b""
        applied = (metadata.get("annotations") or {}).get(APPLIED_ANNOTATION) or ""
        return Child(
            kind=kind,
            # Of the objects of a service, many have these in common.
            namespace=sys.intern(metadata.get("namespace") or ""),
            name=sys.intern(metadata["name"]),
            uid=metadata["uid"],
            version=metadata["resourceVersion"],
            instance=sys.intern((metadata.get("labels") or {}).get(self._labels.instance) or ""),
            controller_uid=sys.intern((owner.get("uid") or "")[:_LONGEST_UID]),
            controller_name=sys.intern(controller_name),
            deleting="deletionTimestamp" in metadata,
            applied=applied if len(applied) <= _LONGEST_DIGEST else "",
            fields=packed_fields,
            body=body,
            problem=problem_of(item),
            group=group,
            is_partial=is_partial,
        )

    def _is_owner(self, controller_name: str) -> bool:
        """Whether a controlling owner is of the kind whose objects are stored whole."""
        wanted = self._labels.owner
        return not wanted or controller_name.startswith(f"{wanted} ")

    def _index_add(self, child: Child) -> None:
        before = self._objects.get(child.uid)
        if before is not None:
            self._index_remove(before)
        self._room.add(child)
        self._objects[child.uid] = child
        self._services.setdefault((child.namespace, child.instance), {})[child.uid] = child

    def _index_remove(self, child: Child) -> None:
        self._room.remove(child)
        service = self._services.get((child.namespace, child.instance), {})
        service.pop(child.uid, None)
        if not service:
            self._services.pop((child.namespace, child.instance), None)


def _packed(kind: str, kept: Object) -> bytes:
    return packed.pack({**kept, "kind": kind})


def controller_of(metadata: collections.abc.Mapping[str, typing.Any]) -> Object:
    """The controlling owner reference; empty if none exists (metav1.GetControllerOf)."""
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return {}


def qualified_name(owner: collections.abc.Mapping[str, typing.Any]) -> str:
    """An owner as "Kind.group name", e.g. "Deployment.apps web"; "" for an empty reference.

    The group is needed because other API groups also define an InferenceService.
    """
    if not owner:
        return ""
    group = str(owner.get("apiVersion") or "").rpartition("/")[0]
    return f"{owner['kind']}{f'.{group}' if group else ''} {owner['name']}"


def _applied_fields(entries: collections.abc.Iterable[Object], manager: str) -> Object:
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
    """Whether a resourceVersion is newer than another one.

    Versions of a conformant API server are increasing numbers. Versions that are not numbers count as newer when they differ.
    """
    try:
        return int(version) > int(than)
    except ValueError:
        return version != than


def _identity(item: Object) -> Object:
    """What identifies an object."""
    metadata = item["metadata"]
    kept = ("name", "namespace", "uid", "generation", "creationTimestamp", "deletionTimestamp")
    return {"metadata": {key: metadata[key] for key in kept if key in metadata}}


POD_LABELS = ("pod-template-hash", "app.kubernetes.io/component")
"""The labels of pods that a status needs: which template a pod has, and whether it is a canary's."""


def trim_pod(pod: Object) -> Object:
    """A copy of a pod with only the fields that a status needs; most of a pod is volumes and environment."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    labels = metadata.get("labels") or {}
    kept = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
    return {
        "metadata": {
            **{key: metadata[key] for key in kept if key in metadata},
            "labels": {key: labels[key] for key in POD_LABELS if key in labels},
        },
        "spec": {key: spec[key] for key in ("nodeName",) if key in spec},
        "status": pod.get("status") or {},
    }
