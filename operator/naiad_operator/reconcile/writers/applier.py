"""Applies a plan: sends its writes to the API server, and never changes an object of another owner, nor leads requests to one or scales it.

For a new service, the creating apply names a resourceVersion that no object has, so that the API server either creates the object
or responds with a Conflict. This costs one request per child, which matters when a thousand services are created at once.
Later, a missing child is read first, because an object that is in the way usually stays for a while; the creating apply then
does not force.

When the API server refuses one child (a quota, an admission policy, a missing permission), the refusal is recorded and the other
children are applied. When the API server itself fails, the attempt ends and the queue retries it.
"""

import collections.abc
import dataclasses
import logging
import typing

from naiad_operator.builders import kinds
from naiad_operator.cluster import child_store, errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.reconcile.decisions import events, ownership, plan, references
from naiad_operator.reconcile.decisions.events import Event
from naiad_operator.status import ApiError, Conflict

_log = logging.getLogger(__name__)

_NO_VERSION = "1"
"""A resourceVersion that no object has: the first revision of etcd is that of the empty store."""

_ENTRIES = frozenset((kinds.INGRESS.kind, kinds.HTTP_ROUTE.kind, kinds.GRPC_ROUTE.kind))
_REACHED = frozenset((kinds.SERVICE.kind, kinds.DEPLOYMENT.kind))

_PLURALS = {kind.kind: kind.plural for kind in kinds.KINDS}


@dataclasses.dataclass(slots=True)
class ApplyResult:
    """The result of applying a plan.

    Attributes:
        conflicts: objects of other owners that have the name of a child.
        withheld: children that were not applied, because they name an object of another owner, or one that was withheld, by kind and name.
        refused: children that the API server refused.
        events: the Events to write.
        created: whether a child was created.
        relabelled: created children, by kind and name, that existed without the operator's labels.
        terminating: objects in the way that are being deleted, by kind and name.
        writes: the number of writes that were sent.
        kept: whether a child is deleted later, once the Gateways have the routes without it.
    """

    conflicts: list[Conflict] = dataclasses.field(default_factory=list)
    withheld: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    refused: list[ApiError] = dataclasses.field(default_factory=list)
    events: list[Event] = dataclasses.field(default_factory=list)
    created: bool = False
    relabelled: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    terminating: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    writes: int = 0
    kept: bool = False


def _is_still_reached(step: plan.Step, result: ApplyResult) -> bool:
    """Whether a step would delete what a route that could not be changed may still lead requests to; the next reconcile tries both again."""
    return (
        isinstance(step, plan.Delete)
        and step.child.kind in _REACHED
        and any(error.kind in _ENTRIES for error in result.refused)
    )


def _names_another_owners(step: plan.Step, result: ApplyResult) -> bool:
    """Whether a step would lead requests to, or scale, an object of another owner that has the name of a child."""
    if not isinstance(step, plan.Create | plan.Apply):
        return False
    taken = {(conflict.kind, conflict.name) for conflict in result.conflicts} | result.withheld
    return bool(taken) and not taken.isdisjoint(references.of(step.manifest))


class Applier:
    """Applies plans.

    Args:
        api: the client of the API server.
        store: receives each response.
    """

    def __init__(self, api: Client, store: child_store.ChildStore) -> None:
        self._api = api
        self._store = store
        # By uid, the digest and field set of each child of which the API server dropped a field: applying it again would
        # change nothing.
        self._partial: dict[str, tuple[str, bytes]] = {}

    @property
    def partial(self) -> int:
        """The number of children of which the API server dropped a field."""
        return len(self._partial)

    def accepted(self, child: child_store.Child, stamp: str) -> bool:
        """Whether the child is what the API server made of this manifest, although fields are missing."""
        return self._partial.get(child.uid) == (stamp, child.fields)

    async def apply(
        self,
        steps: collections.abc.Iterable[plan.Step],
        *,
        namespace: str,
        uid: str,
        was_complete: bool,
        is_new: bool,
        report_server_errors: bool,
    ) -> ApplyResult:
        """Applies the steps in order.

        Args:
            steps: from `plan.decide`.
            namespace: the service's namespace.
            uid: the service's uid.
            was_complete: whether all children existed before, so that a missing child is drift and gets an Event.
            is_new: whether the service is new, so that its children most likely do not exist.
            report_server_errors: whether a 5xx for one child is recorded like a refusal. Set after repeated failures, because a broken
                admission webhook may fail for weeks for one kind, and the other children must be applied.

        Raises:
            ApiError: an error of the API server that does not concern a single child.
        """
        result = ApplyResult()
        for step in steps:
            if _names_another_owners(step, result):
                result.withheld.add(_kind_and_name(step))
                continue
            if _is_still_reached(step, result):
                continue
            try:
                writes_before = result.writes
                await self._step(step, result, namespace=namespace, uid=uid, is_new=is_new)
                if isinstance(step, plan.Create) and result.writes > writes_before:
                    result.created = True
                    if was_complete:
                        result.events.append(_creation_event(step, result))
            except (
                errors.Invalid,
                errors.Forbidden,
                errors.NotFound,
                errors.ServerTrouble,
            ) as error:
                if isinstance(error, errors.ServerTrouble) and not report_server_errors:
                    raise
                kind, name = _kind_and_name(step)
                _log.warning("%s", error)
                result.refused.append(ApiError(kind, name, error.message or str(error)))
        return result

    async def _step(
        self, step: plan.Step, result: ApplyResult, *, namespace: str, uid: str, is_new: bool
    ) -> None:
        match step:
            case plan.Create(manifest):
                if not (is_new and await self._create_directly(manifest, result)):
                    await self._create_if_absent(manifest, result, uid=uid)
            case plan.Apply(manifest, child_uid, drift, version):
                result.writes += 1
                await self._apply_as_read(_with_uid(manifest, child_uid), version)
                if drift:
                    kind, name = _kind_and_name(step)
                    _log.info("put %s %s back: %s", kind, name, ", ".join(drift))
                    result.events.append(events.of_drift(kind, name, drift))
            case plan.HandOver(name, child_uid, replicas):
                result.writes += 1
                await self._hand_over(namespace, name, child_uid, replicas)
            case plan.Delete(child):
                result.writes += 1
                _log.info("deleting %s %s, which is no longer wanted", child.kind, child.name)
                await self._api.delete(ref_of(child), uid=child.uid)
                self._store.mark_deleting(child.uid)
                self._partial.pop(child.uid, None)
            case plan.Keep(child):
                _log.debug("%s %s is kept for a route", child.kind, child.name)
                result.kept = True
            case plan.Wait(kind, name):
                _log.debug("%s %s is still being deleted", kind, name)
                result.terminating.append((kind, name))

    async def _create_directly(self, manifest: plan.Manifest, result: ApplyResult) -> bool:
        """Creates an object unless it exists; False when it exists, or when the API server does not accept the version."""
        try:
            await self._apply(manifest, force=False, version=_NO_VERSION)
        except (errors.Conflict, errors.NotFound):
            return False
        result.writes += 1
        return True

    async def _create_if_absent(
        self, manifest: plan.Manifest, result: ApplyResult, *, uid: str
    ) -> None:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            present = await self._api.get(_ref(manifest))
        except errors.NotFound:
            present = None
        if present is not None:
            await self._apply_existing(manifest, present, result, uid=uid)
            return
        result.writes += 1
        try:
            await self._apply(manifest, force=False)
        except errors.Conflict:
            present = await self._api.get(_ref(manifest))
            if child_store.controller_of(present["metadata"]).get("uid") == uid:
                raise  # another operator process has created it: reconcile again
            self._conflict(kind, name, present, result)

    async def _apply_existing(
        self,
        manifest: plan.Manifest,
        present: dict[str, typing.Any],
        result: ApplyResult,
        *,
        uid: str,
    ) -> None:
        """Handles an object that has the child's name, although no watch has reported it with the operator's labels."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        metadata = present["metadata"]
        owner = child_store.controller_of(metadata)
        expected = child_store.qualified_name(child_store.controller_of(manifest["metadata"]))
        if "deletionTimestamp" in metadata or plan.is_left_over(
            child_store.qualified_name(owner), owner.get("uid") or "", owner=expected, uid=uid
        ):
            result.terminating.append((kind, name))
        elif owner.get("uid") != uid:
            self._conflict(kind, name, present, result)
        else:
            # The service's own: its labels were removed, or the watch is late.
            result.writes += 1
            result.relabelled.add((kind, name))
            await self._apply(_with_uid(manifest, metadata["uid"]))

    @staticmethod
    def _conflict(
        kind: str, name: str, present: dict[str, typing.Any], result: ApplyResult
    ) -> None:
        owner = _owner_text(child_store.controller_of(present["metadata"]))
        result.conflicts.append(Conflict(kind, name, owner))

    async def _apply_as_read(self, manifest: plan.Manifest, version: str) -> None:
        try:
            await self._apply(manifest, version=version)
        except errors.Conflict:
            if version:
                # The watch is late: the next reconcile uses the object as it is now.
                self._store.put(manifest["kind"], await self._api.get(_ref(manifest)))
            raise

    async def _apply(
        self, manifest: plan.Manifest, *, force: bool = True, version: str = ""
    ) -> None:
        metadata = manifest["metadata"]
        stamp = metadata["annotations"][child_store.APPLIED_ANNOTATION]
        body = manifest
        if version:
            body = {**manifest, "metadata": {**metadata, "resourceVersion": version}}
        response = await self._api.apply(_ref(manifest), body, force=force)
        child = self._store.put(manifest["kind"], response)
        unowned = (
            ownership.unowned_fields(manifest, child.owned()) if child.applied == stamp else []
        )
        if unowned:
            _log.warning(
                "the API server does not keep %s of %s %s; an older version of it, or a field of podTemplate that does not exist",
                ", ".join(unowned),
                child.kind,
                child.name,
            )
            # Children are usually deleted with their service, without a step of a plan: remove their entries.
            self._partial = {
                uid: stamp_and_fields
                for uid, stamp_and_fields in self._partial.items()
                if uid in self._store
            }
            self._partial[child.uid] = (stamp, child.fields)
        else:
            self._partial.pop(child.uid, None)

    async def _hand_over(self, namespace: str, name: str, uid: str, replicas: int) -> None:
        kind = kinds.DEPLOYMENT
        manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "spec": {"replicas": replicas},
        }
        ref = ResourceRef(kind.api_version, kind.plural, namespace, name)
        manager = f"{self._api.manager}-handover"
        response = await self._api.apply(ref, manifest, manager=manager)
        self._store.put(kind.kind, response)
        _log.info("the autoscaler takes over %s at %d replicas", name, replicas)


def _creation_event(step: plan.Create, result: ApplyResult) -> events.Event:
    """The Event for a child that was missing, or that had lost its labels."""
    kind, name = _kind_and_name(step)
    if (kind, name) in result.relabelled:
        return events.of_drift(kind, name, ("metadata.labels",))
    return events.of_recreation(kind, name)


def _with_uid(manifest: plan.Manifest, uid: str) -> plan.Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "uid": uid}}


def _ref(manifest: plan.Manifest) -> ResourceRef:
    metadata = manifest["metadata"]
    plural = _PLURALS[manifest["kind"]]
    return ResourceRef(manifest["apiVersion"], plural, metadata["namespace"], metadata["name"])


def ref_of(child: child_store.Child) -> ResourceRef:
    """Where the API server has a child."""
    kind = next(kind for kind in kinds.KINDS if kind.kind == child.kind)
    return ResourceRef(kind.api_version, kind.plural, child.namespace, child.name)


def _kind_and_name(step: plan.Step) -> tuple[str, str]:
    match step:
        case plan.Create(manifest) | plan.Apply(manifest):
            return manifest["kind"], manifest["metadata"]["name"]
        case plan.HandOver(name):
            return kinds.DEPLOYMENT.kind, name
        case plan.Delete(child) | plan.Keep(child):
            return child.kind, child.name
        case plan.Wait(kind, name):
            return kind, name


def _owner_text(owner: dict[str, typing.Any]) -> str:
    """An owner reference as "Kind name"; "" if none exists."""
    return f"{owner['kind']} {owner['name']}" if owner else ""
